"""Controllers of a quorum: raft cores with logs in memory, whose messages are delivered when the transcript says so."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from isthmus_broker.core.raft import events, messages
from isthmus_broker.core.raft.config import RaftConfig
from isthmus_broker.core.raft.node import Raft
from isthmus_broker.core.raft.types import Entry
from isthmus_model.clocks import MonotonicMs

from tests.unit.raft.bench import NamedControl, NoRandom, formatted, voter

ROUNDS_MAX = 100


class Node:
    def __init__(self, node_id: int, quorum: tuple[int, ...]) -> None:
        self.node_id = node_id
        self.now = MonotonicMs(0)
        self.config = replace(RaftConfig(local=voter(node_id)))
        self.core = Raft(self.config, formatted(*quorum), NoRandom(), NamedControl(), self.now)
        self.log: list[Entry] = []
        self.callers: dict[int, tuple[int, int]] = {}
        self.token = 0

    def new_token(self, caller: tuple[int, int] | None = None) -> int:
        self.token += 1
        if caller is not None:
            self.callers[self.token] = caller
        return self.token

    def read(self, read: events.LogRead) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.log if read.offset <= entry.base_offset < read.end_offset)


class World:
    def __init__(self) -> None:
        self._nodes: dict[int, Node] = {}
        self._cut: set[int] = set()
        self._in_flight: list[tuple[int, int, Any]] = []

    # -- commands ----------------------------------------------------------------------------------------------------

    def quorum(self, *nodes: str) -> Iterator[str]:
        """Start the voters of a new cluster."""
        ids = tuple(map(int, nodes))
        self._nodes = {node_id: Node(node_id, ids) for node_id in ids}
        for node in self._nodes.values():
            yield from self._take(node)

    def elapse(self, milliseconds: str, *nodes: str) -> Iterator[str]:
        """Let time pass on some nodes, or on all."""
        for node_id in map(int, nodes or map(str, self._nodes)):
            node = self._nodes[node_id]
            node.now = MonotonicMs(node.now + int(milliseconds))
            node.core.tick(node.now)
            yield from self._take(node)

    def deliver(self) -> Iterator[str]:
        """Deliver messages until none is in flight."""
        for _ in range(ROUNDS_MAX):
            if not self._in_flight:
                return
            batch, self._in_flight = self._in_flight, []
            for source, target, event in batch:
                if source in self._cut or target in self._cut:
                    yield f"{source} -> {target} dropped: {_shown(event)}"
                    continue
                yield f"{source} -> {target} {_shown(event)}"
                node = self._nodes[target]
                if isinstance(event, events.RequestReceived):
                    event = replace(event, token=node.new_token((source, event.token)))
                node.core.step(event, node.now)
                yield from self._take(node)
        raise AssertionError("messages never end")

    def elect(self, node_id: str) -> Iterator[str]:
        """Let a node's election timeout expire and deliver all messages; prints only changes of role."""
        for line in (*self.elapse("5000", node_id), *self.deliver()):
            if "becomes" in line:
                yield line

    def append(self, node_id: str, payload: str) -> Iterator[str]:
        """Append a record to a leader."""
        node = self._nodes[int(node_id)]
        node.core.step(events.AppendRequest(node.new_token(), payload.encode(), 1), node.now)
        yield from self._take(node)

    def partition(self, *nodes: str) -> Iterator[str]:
        """Cut nodes off from all others."""
        self._cut = set(map(int, nodes))
        yield from ()

    def heal(self) -> Iterator[str]:
        """Connect all nodes again."""
        self._cut = set()
        yield from ()

    def stop(self, node_id: str) -> Iterator[str]:
        """Stop a node in good order."""
        node = self._nodes[int(node_id)]
        node.core.step(events.Shutdown(), node.now)
        yield from self._take(node)

    def status(self) -> Iterator[str]:
        """Each node's role, epoch, log end and high watermark."""
        for node in self._nodes.values():
            core = node.core
            payloads = " ".join(entry.payload.decode() for entry in node.log if b" " not in entry.payload)
            yield (
                f"{node.node_id}: {core.role.__name__.lower()} in epoch {core.epoch}, leader {core.leader_id or 'unknown'}, "
                f"log end {core.log_end}, records [{payloads}]"
            )

    # -- what a core owes --------------------------------------------------------------------------------------------

    def _take(self, node: Node) -> Iterator[str]:
        while ready := node.core.take():
            for write in ready.persist:
                yield from self._write(node, write)
            for note in ready.notes:
                yield from self._note(node, note)
            for send in (*ready.send_now, *ready.send_after_persist):
                self._send(node, send)
            for reply in ready.replies:
                yield from self._reply(node, reply)
            if ready.persist:
                node.core.persisted(ready.mark, node.now)

    def _write(self, node: Node, write: Any) -> Iterator[str]:
        if isinstance(write, events.AppendEntry):
            node.log.append(write.entry)
        elif isinstance(write, events.TruncateTo):
            node.log = [entry for entry in node.log if entry.base_offset < write.offset]
            yield f"{node.node_id} truncates its log to {write.offset}"

    def _note(self, node: Node, note: Any) -> Iterator[str]:
        if isinstance(note, events.RoleChanged):
            leader = "" if note.leader_id is None else f", leader {note.leader_id}"
            yield f"{node.node_id} becomes {note.role.lower()} in epoch {note.epoch}{leader}"
        elif isinstance(note, events.LeadershipLost):
            yield f"{node.node_id} loses its majority in epoch {note.epoch}"

    def _reply(self, node: Node, reply: Any) -> Iterator[str]:
        if isinstance(reply, events.Committed):
            yield f"{node.node_id} commits up to {reply.end_offset}"
        elif isinstance(reply, events.Appended):
            yield f"{node.node_id} acknowledges offset {reply.base_offset}"
        elif isinstance(reply, events.ChangeRejected):
            yield f"{node.node_id} rejects the append: {reply.error.name}"

    def _send(self, node: Node, send: Any) -> None:
        if isinstance(send, events.SendRequest):
            event: Any = events.RequestReceived(send.request_id, send.request)
            self._in_flight.append((node.node_id, send.peer, event))
            return
        caller, request_id = node.callers.pop(send.token)
        response = send.response
        if isinstance(response, messages.FetchResponse) and isinstance(send.read, events.LogRead):
            response = replace(response, entries=node.read(send.read))
        self._in_flight.append((node.node_id, caller, events.ResponseReceived(node.node_id, request_id, response)))


def _shown(event: Any) -> str:
    if isinstance(event, events.RequestReceived):
        match event.request:
            case messages.VoteRequest(pre_vote=True) as vote:
                return f"PreVote epoch {vote.epoch}, log end {vote.end_offset}"
            case messages.VoteRequest() as vote:
                return f"Vote epoch {vote.epoch}, log end {vote.end_offset}"
            case messages.BeginQuorumEpochRequest() as begin:
                return f"BeginQuorumEpoch epoch {begin.epoch}"
            case messages.EndQuorumEpochRequest() as end:
                return (
                    f"EndQuorumEpoch epoch {end.epoch}, successors {[key.node_id for key in end.preferred_successors]}"
                )
            case messages.FetchRequest() as fetch:
                return f"Fetch epoch {fetch.epoch}, offset {fetch.fetch_offset}"
        return type(event.request).__name__
    return _shown_response(event.response)


def _shown_response(response: Any) -> str:
    match response:
        case messages.VoteResponse():
            return f"vote {'granted' if response.granted else 'refused'} in epoch {response.epoch}"
        case messages.FetchResponse() if response.error.value:
            return f"Fetch {response.error.name}"
        case messages.FetchResponse() if response.diverging is not None:
            return f"diverging: epoch {response.diverging.epoch} ends at {response.diverging.end_offset}"
        case messages.FetchResponse():
            return f"{len(response.entries)} batches, high watermark {response.high_watermark}"
    return f"{type(response).__name__.removesuffix('Response')} {response.error.name}"
