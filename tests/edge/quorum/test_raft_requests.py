"""Raft's requests and responses over the wire and back: one core receives what the other sent."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from isthmus_broker.core.raft import messages
from isthmus_broker.core.raft.types import EpochEnd, ReplicaKey, SnapshotId, Voter, VoterEndpoint
from isthmus_broker.edge.quorum.raft_records import entries
from isthmus_broker.edge.quorum.raft_requests import PeerResponse, RefusedAsAWhole, Speaker, from_wire, to_wire
from isthmus_broker.edge.requests.table import Side, handler_of
from isthmus_model.endpoints import Endpoint
from isthmus_wire.apis import CONTROLLER_VERSIONS, ApiKey
from isthmus_wire.errors import CorruptBatch, ErrorCode
from isthmus_wire.headers import decode_request_header, encode_request_header
from isthmus_wire.messages import decode_request, decode_response, encode_request, encode_response
from isthmus_wire.records import NewRecord, build_batch

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
LOCAL = ReplicaKey(1, UUID(int=101))
PEER = ReplicaKey(2, UUID(int=202))
PLACE = VoterEndpoint("CONTROLLER", "two.example", 9093)
SPEAKER = Speaker(CLUSTER, (PLACE,))
LEADER = (1, "one.example", 9_093)
BATCH = build_batch([NewRecord(None, b"value", 1_000)])
NONE = ErrorCode.none


class Listening:
    """The quorum of the receiving node: it records the request, and responds as configured."""

    def __init__(self, response: messages.Response) -> None:
        self.response = response
        self.requests: list[messages.Request] = []
        self.leaders: list[tuple[int, int, int]] = []
        self.addresses = SimpleNamespace(find=lambda node_id: Endpoint(*LEADER[1:]) if node_id == LEADER[0] else None)

    def handle(self, request: messages.Request) -> "asyncio.Future[messages.Response]":
        self.requests.append(request)
        future: asyncio.Future[messages.Response] = asyncio.get_running_loop().create_future()
        future.set_result(self.response)
        return future

    def addressed(self, voter_id: int, directory_id: UUID | None) -> ReplicaKey:
        return LOCAL if voter_id == -1 else ReplicaKey(voter_id, directory_id)

    def learn_leader(self, epoch: int, leader_id: int, endpoints: tuple[Any, ...]) -> None:
        self.leaders.append((epoch, leader_id, len(endpoints)))


class Arrived:
    """A request as a connection passes it on."""

    def __init__(self, api: ApiKey, version: int, body: bytes) -> None:
        self.frame = memoryview(encode_request_header(api, version, 7, "peer") + body)
        self.header = decode_request_header(self.frame)
        self.answered = b""

    def decode(self) -> Any:
        return decode_request(self.header.api_key, self.header.api_version, bytes(self.frame), self.header.size)

    def reply(self, *chunks: bytes) -> None:
        self.answered = b"".join(chunks)

    def respond(self, response: Any) -> None:
        self.answered = encode_response(self.header.api_key, self.header.api_version, response)


def exchange(
    request: messages.Request, response: messages.Response, cluster: str = CLUSTER
) -> tuple[Listening, PeerResponse]:
    api, message = to_wire(request, SPEAKER)
    version = CONTROLLER_VERSIONS[api][1]
    arrived, quorum = Arrived(api, version, encode_request(api, version, message)), Listening(response)
    handler: Any = handler_of(api, Side.CONTROLLER)
    asyncio.run(handler(SimpleNamespace(cluster_id=cluster, quorum=quorum), arrived))
    return quorum, from_wire(api, decode_response(api, version, arrived.answered))


VOTE = messages.VoteRequest(epoch=5, candidate=PEER, voter=LOCAL, last_epoch=4, end_offset=77, pre_vote=True)
FETCH = messages.FetchRequest(
    epoch=5,
    replica=PEER,
    fetch_offset=70,
    last_fetched_epoch=4,
    high_watermark=69,
    max_wait_ms=500,
    max_bytes=1_000,
)
FETCHED = messages.FetchResponse(error=NONE, epoch=5, leader_id=1, high_watermark=70, log_start=3)
PLACED = tuple(entries(BATCH))


@pytest.mark.parametrize(
    ("request_", "response"),
    [
        (VOTE, messages.VoteResponse(error=NONE, epoch=5, leader_id=None, granted=True)),
        (
            replace(VOTE, pre_vote=False, candidate=ReplicaKey(2), voter=ReplicaKey(1)),
            messages.VoteResponse(error=ErrorCode.fenced_leader_epoch, epoch=6, leader_id=1, granted=False),
        ),
        (
            messages.BeginQuorumEpochRequest(epoch=5, leader_id=2, voter=LOCAL),
            messages.BeginQuorumEpochResponse(error=NONE, epoch=5, leader_id=2),
        ),
        (
            messages.EndQuorumEpochRequest(epoch=5, leader_id=2, preferred_successors=(LOCAL, ReplicaKey(3))),
            messages.EndQuorumEpochResponse(error=NONE, epoch=5, leader_id=2),
        ),
        (FETCH, replace(FETCHED, entries=PLACED)),
        (FETCH, replace(FETCHED, diverging=EpochEnd(3, 60))),
        (FETCH, replace(FETCHED, snapshot=SnapshotId(66, 3))),
        (FETCH, messages.FetchResponse(error=ErrorCode.not_leader_or_follower, epoch=6, leader_id=None)),
        (
            messages.FetchSnapshotRequest(epoch=5, replica=PEER, snapshot=SnapshotId(66, 3), position=9, max_bytes=10),
            messages.FetchSnapshotResponse(
                error=NONE, epoch=5, leader_id=1, snapshot=SnapshotId(66, 3), size=12, position=9, data=b"end"
            ),
        ),
        (
            messages.UpdateVoterRequest(epoch=5, voter=Voter(PEER, (PLACE,), 0, 1)),
            messages.UpdateVoterResponse(error=NONE, epoch=5, leader_id=1),
        ),
    ],
)
def test_both_ends_mean_the_same(request_: messages.Request, response: messages.Response) -> None:
    quorum, received = exchange(request_, response)
    assert quorum.requests == [request_]
    assert received.response == response
    assert received.leader == (LEADER if response.leader_id == 1 else None)


def test_a_batch_that_was_damaged_on_its_way_is_not_taken() -> None:
    damaged = replace(PLACED[0], payload=PLACED[0].payload[:-1] + b"?")
    with pytest.raises(CorruptBatch):
        exchange(FETCH, replace(FETCHED, entries=(damaged,)))


def test_where_a_new_leader_is_comes_with_its_announcement() -> None:
    begin = messages.BeginQuorumEpochRequest(epoch=5, leader_id=2, voter=LOCAL)
    quorum, _ = exchange(begin, messages.BeginQuorumEpochResponse(error=NONE, epoch=5, leader_id=2))
    assert quorum.leaders == [(5, 2, 1)]


@pytest.mark.parametrize("request_", [VOTE, FETCH])
def test_another_cluster_is_refused_before_the_request_is_processed(request_: messages.Request) -> None:
    with pytest.raises(RefusedAsAWhole) as caught:
        exchange(request_, FETCHED, cluster="another")
    assert caught.value.error is ErrorCode.inconsistent_cluster_id
