"""One raft core in a test: the test feeds events, takes outputs and confirms writes."""

from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

from isthmus_broker.core.raft.config import RaftConfig
from isthmus_broker.core.raft.events import (
    AppendRequest,
    Event,
    RaftReady,
    RequestReceived,
    ResponseReceived,
    SendRequest,
    SendResponse,
)
from isthmus_broker.core.raft.messages import FetchRequest, Request, Response, VoteRequest, VoteResponse
from isthmus_broker.core.raft.node import Raft
from isthmus_broker.core.raft.types import Entry, Recovered, ReplicaKey, SnapshotId, Voter, VoterSet
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode

T = TypeVar("T")


class NoRandom:
    """Always returns the smallest value."""

    def randrange(self, stop: int, /) -> int:
        return 0


class NamedControl:
    def leader_change(
        self, leader_id: int, voters: tuple[int, ...], granting: tuple[int, ...], first: VoterSet | None
    ) -> bytes:
        return f"leader {leader_id} of {voters} by {granting}".encode()

    def voters(self, voters: VoterSet) -> bytes:
        return f"voters {voters.node_ids()}".encode()

    def upgrade(self, voters: VoterSet) -> bytes:
        return f"upgrade {voters.node_ids()}".encode()


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, UUID(int=node_id))


def voter(node_id: int) -> Voter:
    return Voter(key(node_id))


def voter_set(*node_ids: int) -> VoterSet:
    return VoterSet(tuple(voter(node_id) for node_id in node_ids))


def formatted(*node_ids: int) -> Recovered:
    """The state of a freshly formatted voter of a dynamic quorum."""
    return Recovered(snapshots=(SnapshotId(0, 0),), voters=((-1, voter_set(*node_ids)),))


def entry(base_offset: int, epoch: int, count: int = 1, payload: bytes = b"x") -> Entry:
    return Entry(base_offset, base_offset + count - 1, epoch, payload)


class Bench:
    """A node at time 0. All writes are durable at once; a test that needs otherwise calls the core directly."""

    def __init__(self, recovered: Recovered, node_id: int = 1, **settings: Any) -> None:
        self.now = MonotonicMs(0)
        self.config = replace(RaftConfig(local=voter(node_id)), **settings)
        self.core = Raft(self.config, recovered, NoRandom(), NamedControl(), self.now)
        self.first = self.take()
        self.tokens = 0

    def role(self) -> type:
        return self.core.role

    def take(self) -> RaftReady:
        """The outputs now, and those after the writes have become durable."""
        taken = last = self.core.take()
        while last.persist:
            self.core.persisted(last.mark, self.now)
            last = self.core.take()
            taken = _joined(taken, last)
        return taken

    def feed(self, event: Event) -> RaftReady:
        self.core.step(event, self.now)
        return self.take()

    def wait(self, milliseconds: int) -> RaftReady:
        self.now = MonotonicMs(self.now + milliseconds)
        self.core.tick(self.now)
        return self.take()

    def respond(self, request: Request) -> Response:
        """The response to a request, which must be immediate."""
        ready = self.request(request)
        return only(responses(ready))

    def request(self, request: Request) -> RaftReady:
        self.tokens += 1
        return self.feed(RequestReceived(self.tokens, request))

    def receive(self, send: SendRequest, response: Response) -> RaftReady:
        return self.feed(ResponseReceived(send.peer, send.request_id, response))

    def append(self, payload: bytes = b"x", count: int = 1) -> RaftReady:
        self.tokens += 1
        return self.feed(AppendRequest(self.tokens, payload, count))

    def fetch(self, node_id: int, offset: int, last_epoch: int, **fields: Any) -> FetchRequest:
        defaults = FetchRequest(
            epoch=self.core.epoch,
            replica=key(node_id),
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            high_watermark=1 << 60,
            max_wait_ms=0,
            max_bytes=1_000_000,
        )
        return replace(defaults, **fields)

    def lead(self) -> None:
        """Win an election: pre-votes first, then votes, from as many as it takes."""
        sends = requests(self.wait(5_000), VoteRequest)
        while not self.core.is_leader:
            send = sends.pop(0)
            granted = VoteResponse(error=ErrorCode.none, epoch=self.core.epoch, leader_id=None, granted=True)
            sends = requests(self.receive(send, granted), VoteRequest) or sends


def _joined(a: RaftReady, b: RaftReady) -> RaftReady:
    return replace(
        a,
        persist=a.persist + b.persist,
        send_now=a.send_now + b.send_now,
        send_after_persist=a.send_after_persist + b.send_after_persist,
        replies=a.replies + b.replies,
        notes=a.notes + b.notes,
    )


def requests(ready: RaftReady, kind: type) -> list[SendRequest]:
    sends = (*ready.send_now, *ready.send_after_persist)
    return [send for send in sends if isinstance(send, SendRequest) and isinstance(send.request, kind)]


def responses(ready: RaftReady) -> list[Response]:
    sends = (*ready.send_now, *ready.send_after_persist)
    return [send.response for send in sends if isinstance(send, SendResponse)]


def only(items: list[T]) -> T:
    assert len(items) == 1, items
    return items[0]
