"""One simulated node: the production raft core on a simulated disk, net and clock, with a state machine that digests committed entries."""

import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from isthmus_broker.core.raft.config import RaftConfig
from isthmus_broker.core.raft.events import (
    Appended,
    AppendRequest,
    ChangeRejected,
    Committed,
    Event,
    LoadSnapshot,
    LogRead,
    RaftReady,
    Reply,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    Send,
    SendRequest,
    SendResponse,
    SnapshotReceived,
    SnapshotTaken,
    TakeSnapshot,
    Write,
    WriteSnapshotChunk,
)
from isthmus_broker.core.raft.messages import FetchResponse, FetchSnapshotResponse, Request, Response
from isthmus_broker.core.raft.node import Raft
from isthmus_broker.core.raft.types import Entry, SnapshotId, VoterSet
from isthmus_model.clocks import MonotonicMs

from tests.sim.disk import Disk
from tests.sim.net import Net
from tests.sim.raft_image import RaftImage, SnapshotFile
from tests.sim.world import Violation, World


class SimControl:
    """Control batches with readable contents."""

    def leader_change(
        self, leader_id: int, voters: tuple[int, ...], granting: tuple[int, ...], first: VoterSet | None
    ) -> bytes:
        return f"leader {leader_id} of {voters} by {granting}, first {first is not None}".encode()

    def voters(self, voters: VoterSet) -> bytes:
        return f"voters {voters.node_ids()}".encode()

    def upgrade(self, voters: VoterSet) -> bytes:
        return f"upgrade {voters.node_ids()}".encode()


class Watcher:
    """The events that checkers observe; each overrides those it needs."""

    def committed(self, node_id: int, entries: tuple[Entry, ...]) -> None: ...
    def loaded(self, node_id: int, snapshot: SnapshotId, digest: int) -> None: ...
    def acknowledged(self, token: int, base_offset: int, payload: bytes) -> None: ...
    def sent(self, node_id: int, send: Send) -> None: ...
    def restarted(self, node_id: int) -> None: ...


class RaftNode:
    """A driver of the core as `core.contract` requires it, in virtual time."""

    def __init__(
        self, world: World, net: Net, config: RaftConfig, disk: Disk[RaftImage, Write], peers: "dict[int, RaftNode]"
    ) -> None:
        self.id = config.node_id
        self.config = config
        self.disk = disk
        self.core: Raft | None = None
        self.life = 0
        self.applied = 0
        self.digest = 0
        self.watchers: list[Watcher] = []
        self.refuses: Callable[[], bool] = lambda: False
        self._world = world
        self._net = net
        self._peers = peers
        self._appends: dict[int, bytes] = {}
        self._callers: dict[int, tuple[int, int, int]] = {}  # token -> node, its life, its request id
        self._last_token = 0
        self._wakes_at: int | None = None
        # Each node's clock has a random start and is up to a tenth too fast or too slow.
        self._clock_base = world.random.randrange(1_000_000)
        self._clock_rate = world.random.randrange(900, 1_101)

    # Life and death

    def start(self) -> None:
        self.life += 1
        self.applied = self.digest = 0
        self._appends = {}
        self._callers = {}
        self._wakes_at = None
        self._world.log(self.id, f"starts with {self.disk.durable.quorum}")
        for watcher in self.watchers:
            watcher.restarted(self.id)
        image = self.disk.seen
        self.applied = image.log_start
        self.core = Raft(self.config, image.recovered(), self._world.random, SimControl(), self.clock())
        self._after_call()

    def crash(self) -> None:
        self._world.log(self.id, "crashes")
        self.core = None
        self.disk.crash()

    def clock(self) -> MonotonicMs:
        return MonotonicMs(self._clock_base + self._world.now * self._clock_rate // 1000)

    # Into the core

    def step(self, event: Event) -> None:
        if self.core is not None:
            self._world.log(self.id, event)
            self.core.step(event, self.clock())
            self._after_call()

    def append(self, token: int, payload: bytes, record_count: int) -> None:
        if self.core is not None:
            self._appends[token] = payload
            self.step(AppendRequest(token, payload, record_count))

    def receive(self, sender: int, life: int, request_id: int, request: Request) -> None:
        if self.core is None:
            if self.refuses():
                self._net.send(self.id, sender, lambda: self._peers[sender].fail(life, self.id, request_id))
            return
        self._last_token += 1
        self._callers[self._last_token] = (sender, life, request_id)
        self.step(RequestReceived(self._last_token, request))

    def handle_response(self, life: int, peer: int, request_id: int, response: Response) -> None:
        if life == self.life:
            self.step(ResponseReceived(peer, request_id, response))

    def fail(self, life: int, peer: int, request_id: int) -> None:
        if life == self.life:
            # Refused by the machine of a dead process; a new process may run when this arrives.
            self.step(RequestFailed(peer, request_id, is_gone=True))

    def _tick(self, life: int, at: int) -> None:
        if life != self.life or self.core is None or self._wakes_at != at:
            return
        self._wakes_at = None
        self.core.tick(self.clock())
        due = self.core.deadline()
        if due is not None and due <= self.clock():
            raise Violation(f"node {self.id} requests a tick without delay")
        self._after_call()

    def _persisted(self, life: int, ready: RaftReady) -> None:
        if life != self.life or self.core is None:
            return
        self.core.persisted(ready.mark, self.clock())
        self.send_all(ready.send_after_persist)
        self._after_call()
        for write in ready.persist:
            if isinstance(write, WriteSnapshotChunk) and write.last:
                self.step(SnapshotReceived(write.snapshot, self.disk.seen.voters_of[write.snapshot]))

    # Out of the core

    def _after_call(self) -> None:
        assert self.core is not None
        ready = self.core.take()
        if ready:
            self._handle(ready)
        self._arm()
        self._world.touched(self.id)

    def _handle(self, ready: RaftReady) -> None:
        """Carry out the effects: all reads come before all writes, as the contract requires."""
        now = [self._filled(send) for send in ready.send_now]
        after = tuple(self._filled(send) for send in ready.send_after_persist)
        for reply in ready.replies:
            self._reply(reply)
        self.send_all(now)
        if ready.persist or after:
            self.store(replace(ready, send_after_persist=after))

    def store(self, ready: RaftReady) -> None:
        """Delay effects that depend on the writes until they are durable."""
        life = self.life
        self.disk.write(ready.persist, lambda: self._persisted(life, ready))

    def send_all(self, sends: tuple[Send, ...] | list[Send]) -> None:
        for send in sends:
            for watcher in self.watchers:
                watcher.sent(self.id, send)
            if isinstance(send, SendRequest):
                receiver = self._peers.get(send.peer)
                if receiver is not None:
                    deliver = partial(receiver.receive, self.id, self.life, send.request_id, send.request)
                    self._net.send(self.id, send.peer, deliver)
            else:
                caller, life, request_id = self._callers.pop(send.token)
                deliver = partial(self._peers[caller].handle_response, life, self.id, request_id, send.response)
                self._net.send(self.id, caller, deliver)

    def _filled(self, send: Send) -> Send:
        """A response with its data from the disk."""
        if isinstance(send, SendRequest) or send.read is None:
            return send
        response, read, image = send.response, send.read, self.disk.seen
        if isinstance(read, LogRead):
            assert isinstance(response, FetchResponse)
            return SendResponse(
                send.token, replace(response, entries=image.read(read.offset, read.end_offset, read.max_bytes))
            )
        assert isinstance(response, FetchSnapshotResponse)
        file = image.snapshots[read.snapshot]
        return SendResponse(
            send.token, replace(response, size=file.size, data=file.data(read.position, read.max_bytes))
        )

    def _reply(self, reply: Reply) -> None:
        self._world.log(self.id, reply)
        match reply:
            case Committed():
                self._apply(reply)
            case LoadSnapshot():
                file = self.disk.seen.snapshots[reply.snapshot]
                self.applied, self.digest = reply.snapshot.end_offset, file.digest
                for watcher in self.watchers:
                    watcher.loaded(self.id, reply.snapshot, file.digest)
            case TakeSnapshot():
                self._take_snapshot(reply)
            case Appended():
                payload = self._appends.pop(reply.token)
                for watcher in self.watchers:
                    watcher.acknowledged(reply.token, reply.base_offset, payload)
            case ChangeRejected():
                self._appends.pop(reply.token, None)
            case _:
                pass

    def _apply(self, reply: Committed) -> None:
        if reply.offset != self.applied:
            raise Violation(f"node {self.id} gets {reply} after it has applied up to {self.applied}")
        entries = self.disk.seen.read(reply.offset, reply.end_offset)
        for entry in entries:
            if entry.base_offset != self.applied:
                raise Violation(f"node {self.id} has no entry at {self.applied}")
            self.digest = zlib.crc32(entry.payload, self.digest)
            self.applied = entry.last_offset + 1
        if self.applied != reply.end_offset:
            raise Violation(f"node {self.id} has only {self.applied} of {reply}")
        for watcher in self.watchers:
            watcher.committed(self.id, entries)

    def _take_snapshot(self, reply: TakeSnapshot) -> None:
        """Write the snapshot with a delay; the core learns of it when it is durable."""
        file = SnapshotFile(self.digest, reply.voters, 8 + self._world.random.randrange(40))
        if self.applied != reply.snapshot.end_offset:
            raise Violation(f"node {self.id} is requested to write {reply} after it has applied up to {self.applied}")
        life = self.life
        self._world.after(self._world.random.randrange(300), lambda: self._snapshot_written(life, reply.snapshot, file))

    def _snapshot_written(self, life: int, snapshot: SnapshotId, file: SnapshotFile) -> None:
        if life == self.life and self.core is not None:
            for image in (self.disk.seen, self.disk.durable):
                image.add_snapshot(snapshot, file)
            self.step(SnapshotTaken(snapshot))

    def _arm(self) -> None:
        assert self.core is not None
        due = self.core.deadline()
        if due is None:
            self._wakes_at = None
            return
        at = max(self._world.now, -(-(due - self._clock_base) * 1000 // self._clock_rate))
        if at != self._wakes_at:
            self._wakes_at = at
            self._world.after(at - self._world.now, partial(self._tick, self.life, at))
