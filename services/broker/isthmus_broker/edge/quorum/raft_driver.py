"""Connects the raft core to its files, its peers and its state machine: one replica of the metadata log."""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from isthmus_model.clocks import MonotonicClock, WallClock
from isthmus_wire.errors import ErrorCode, WireError
from isthmus_wire.records import header_at

from isthmus_broker.core.raft.config import RaftConfig
from isthmus_broker.core.raft.events import (
    AddVoter,
    Appended,
    AppendRequest,
    ChangeRejected,
    Committed,
    Event,
    LeaderChanged,
    LeadershipLost,
    LoadSnapshot,
    LogRead,
    LogTruncated,
    Note,
    PeerRefused,
    RemoveVoter,
    Reply,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    RoleChanged,
    Send,
    SendRequest,
    SendResponse,
    Shutdown,
    SnapshotReceived,
    SnapshotTaken,
    TakeSnapshot,
    UpgradeKraftVersion,
    VoterChanged,
    Write,
)
from isthmus_broker.core.raft.messages import FetchResponse, FetchSnapshotResponse, Request, Response
from isthmus_broker.core.raft.node import Raft
from isthmus_broker.core.raft.types import Entry, QuorumInfo, ReplicaKey, SnapshotId, Voter
from isthmus_broker.edge.background import background
from isthmus_broker.edge.quorum.driver import Driver
from isthmus_broker.edge.quorum.raft_records import RaftRecords
from isthmus_broker.edge.quorum.raft_storage import LogStore, RaftStorage
from isthmus_broker.edge.storage.filesystem import FileSystem

_LOG = logging.getLogger(__name__)


class RaftRefused(Exception):
    """An append or a voter change was refused, or leadership was lost before its outcome was known."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


class RaftStopped(Exception):
    """The driver is not running, so the request cannot be processed."""


class Peers(Protocol):
    """Sends requests to other nodes. `RaftDriver.responded` receives the response, `RaftDriver.failed` its absence."""

    def send(self, peer: int, request_id: int, request: Request) -> None: ...


class StateMachine(Protocol):
    """The consumer of the log. Called on the event loop's thread, in the order of the log; it may call `append` from within."""

    def committed(self, batch: bytes, base_offset: int, last_offset: int, epoch: int) -> None:
        """Apply a committed batch, once. Raft's own control batches are included; they are to be skipped by their header."""

    def load_snapshot(self, snapshot: SnapshotId, batches: Iterator[bytes]) -> None:
        """Replace the state by the batches of a snapshot; the log continues at the snapshot's end."""

    def snapshot(self, snapshot: SnapshotId) -> Iterable[bytes]:
        """The current state, as batches. They are consumed in a worker thread, so they must be immutable."""

    def leader_changed(self, epoch: int, leader_id: int | None) -> None:
        """The leader changed; it may be unknown. This node's own leadership is reported after everything committed before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftSetting:
    """The environment of a raft replica."""

    config: RaftConfig
    files: FileSystem
    directory: Path
    log: LogStore
    state_machine: StateMachine
    peers: Peers
    clock: MonotonicClock
    """Monotonic milliseconds, for deadlines."""
    wall_clock: WallClock
    """Wall time in milliseconds, for the timestamps in control batches."""
    executor: Executor | None
    """The executor for syncs; they run inline without one."""
    on_fault: Callable[[BaseException], None]
    """Called once when the core or the disk fails; the replica has stopped then."""


class RaftDriver:
    """One replica, from `start` to `stop`."""

    def __init__(self, setting: RaftSetting) -> None:
        self._setting = setting
        self._records = RaftRecords(setting.wall_clock)
        self._storage = RaftStorage(setting.files, setting.directory, setting.log)
        self._core: Raft | None = None
        self._driver: Driver[Event, Write, Send, Reply, Note] | None = None
        self._waiting: dict[int, asyncio.Future[int]] = {}
        self._callers: dict[int, asyncio.Future[Response]] = {}
        self._last_token = 0
        self._last_timestamp = -1
        self._writing: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Recover and run. A quorum of one is the leader when this returns; its first commit follows with the first sync."""
        assert self._core is None, "a replica starts once"
        setting = self._setting
        recovered = self._storage.recover()
        self._core = Raft(setting.config, recovered, random.SystemRandom(), self._records, setting.clock())
        if setting.config.static_voters is not None and self._core.kraft_version > 0:
            _LOG.info("raft: controller.quorum.voters is ignored, since the metadata log contains the voters")
        self._driver = Driver(self._core, self, clock=setting.clock, executor=setting.executor, on_fault=self._fault)
        self._driver.start()

    async def stop(self) -> None:
        """Controlled shutdown: a leader names its successors. Pending requests fail with RaftStopped."""
        if self._driver is None:
            return
        self._driver.feed(Shutdown())
        await self._driver.stop()
        self._driver = None
        await asyncio.gather(*self._writing)
        self._abandon()

    # For the state machine's owner

    def append(self, batch: bytes, record_count: int) -> "asyncio.Future[int]":
        """Append a batch, in the order of the calls. The future has its base offset when it is committed and has been applied here, or
        RaftRefused; a batch refused for lost leadership may still be committed."""
        return self._submit(lambda token: AppendRequest(token, batch, record_count))

    def add_voter(self, voter: Voter) -> "asyncio.Future[int]":
        """Make a caught-up observer a voter. The future completes, with the log end offset, when that is committed."""
        return self._submit(lambda token: AddVoter(token, voter))

    def remove_voter(self, key: ReplicaKey) -> "asyncio.Future[int]":
        """Remove a voter. The leader may remove itself, and resigns when that is committed."""
        return self._submit(lambda token: RemoveVoter(token, key))

    def upgrade_kraft_version(self) -> "asyncio.Future[int]":
        """Write the static voters to the log (kraft.version 0 to 1). The future completes, with the log end offset, when that is
        committed."""
        return self._submit(UpgradeKraftVersion)

    @property
    def core(self) -> Raft:
        """The core, for queries: role, epoch, leader, offsets, voters."""
        assert self._core is not None, "not started"
        return self._core

    def describe(self) -> QuorumInfo | None:
        """The rows of DescribeQuorum with wall time; None when this node is not the leader."""
        now = self._setting.clock()
        info = self.core.describe(now)
        if info is None:
            return None
        shift = self._setting.wall_clock() - now
        voters, observers = (
            tuple(
                replace(
                    row,
                    last_fetch_ms=row.last_fetch_ms if row.last_fetch_ms < 0 else row.last_fetch_ms + shift,
                    last_caught_up_ms=row.last_caught_up_ms
                    if row.last_caught_up_ms < 0
                    else row.last_caught_up_ms + shift,
                )
                for row in rows
            )
            for rows in (info.voters, info.observers)
        )
        return replace(info, voters=voters, observers=observers)

    # For the network

    def handle(self, request: Request) -> "asyncio.Future[Response]":
        """Process a request from another replica; a fetch may be delayed."""
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        driver = self._driver
        if driver is None:
            future.set_exception(RaftStopped())
        else:
            token = self._token()
            self._callers[token] = future
            driver.feed(RequestReceived(token, request))
        return future

    def responded(self, peer: int, request_id: int, response: Response) -> None:
        if self._driver is not None:
            self._driver.feed(ResponseReceived(peer, request_id, response))

    def failed(self, peer: int, request_id: int, *, is_gone: bool = False) -> None:
        """A request failed. `is_gone` when the connection was refused: the peer's process is dead."""
        if self._driver is not None:
            self._driver.feed(RequestFailed(peer, request_id, is_gone))

    # For the driver: the Host

    def fill(self, send: Send) -> Send:
        if isinstance(send, SendRequest) or send.read is None:
            return send
        response, read = send.response, send.read
        if isinstance(read, LogRead):
            assert isinstance(response, FetchResponse)
            entries = tuple(self._storage.read_entries(read.offset, read.end_offset, read.max_bytes))
            return SendResponse(send.token, replace(response, entries=entries))
        assert isinstance(response, FetchSnapshotResponse)
        data, size = self._storage.snapshots.read(read.snapshot, read.position, read.max_bytes)
        if read.position >= size:
            return SendResponse(send.token, replace(response, error=ErrorCode.position_out_of_range))
        return SendResponse(send.token, replace(response, data=data, size=size))

    def write(self, write: Write) -> None:
        storage = self._storage
        storage.write(write)
        received, storage.received = storage.received, None
        if received is not None and self._driver is not None:
            self._driver.feed(SnapshotReceived(received, storage.received_voters))

    def sync(self) -> None:
        self._storage.sync()

    def send(self, send: Send) -> None:
        if isinstance(send, SendResponse):
            caller = self._callers.pop(send.token)
            if not caller.done():
                caller.set_result(send.response)
        else:
            self._setting.peers.send(send.peer, send.request_id, send.request)

    def reply(self, reply: Reply) -> None:
        machine = self._setting.state_machine
        match reply:
            case Committed():
                for entry in self._storage.read_entries(reply.offset, reply.end_offset):
                    self._commit(entry)
            case Appended():
                self._settle(reply.token, reply.base_offset)
            case VoterChanged():
                self._settle(reply.token, self.core.log_end)
            case ChangeRejected():
                future = self._waiting.pop(reply.token)
                if not future.done():
                    future.set_exception(RaftRefused(reply.error))
            case LoadSnapshot():
                self._last_timestamp = self._storage.snapshots.last_timestamp(reply.snapshot)
                machine.load_snapshot(reply.snapshot, self._storage.snapshots.batches(reply.snapshot))
            case TakeSnapshot():
                self._take_snapshot(reply)
            case LeaderChanged():
                machine.leader_changed(reply.epoch, reply.leader_id)

    def note(self, note: Note) -> None:
        match note:
            case RoleChanged():
                _LOG.info("raft: %s in epoch %d, leader %s", note.role, note.epoch, note.leader_id)
            case LogTruncated():
                _LOG.warning("raft: dropped uncommitted entries %d to %d", note.offset, note.end_offset)
            case LeadershipLost():
                _LOG.warning("raft: resigned in epoch %d, a majority has not fetched in time", note.epoch)
            case PeerRefused():
                _LOG.debug("raft: node %d refused %s: %s", note.peer, note.request, note.error.name)
            case _:
                pass

    # Inside

    def _commit(self, entry: Entry) -> None:
        self._last_timestamp = max(self._last_timestamp, header_at(entry.payload).max_timestamp)
        self._setting.state_machine.committed(entry.payload, entry.base_offset, entry.last_offset, entry.epoch)

    def _take_snapshot(self, reply: TakeSnapshot) -> None:
        """Obtain the state from the state machine now, and write it without blocking the loop."""
        batches = self._setting.state_machine.snapshot(reply.snapshot)
        header = self._records.snapshot_header(self._last_timestamp, reply.voters)
        task = background(self._write_snapshot(reply.snapshot, header, batches))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _write_snapshot(self, snapshot: SnapshotId, header: bytes, batches: Iterable[bytes]) -> None:
        files, footer = self._storage.snapshots, self._records.snapshot_footer()
        try:
            await asyncio.get_running_loop().run_in_executor(
                self._setting.executor, files.write, snapshot, header, batches, footer
            )
        except Exception as error:  # noqa: BLE001 - a disk that cannot store a snapshot cannot store the log either
            self._fault(error)
            return
        if self._driver is not None:
            self._driver.feed(SnapshotTaken(snapshot))

    def _submit(self, event: Callable[[int], Event]) -> "asyncio.Future[int]":
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if self._driver is None:
            future.set_exception(RaftStopped())
        else:
            token = self._token()
            self._waiting[token] = future
            self._driver.feed(event(token))
        return future

    def _token(self) -> int:
        self._last_token += 1
        return self._last_token

    def _settle(self, token: int, offset: int) -> None:
        future = self._waiting.pop(token)
        if not future.done():
            future.set_result(offset)

    def _fault(self, error: BaseException) -> None:
        is_known = isinstance(error, OSError | WireError)  # a disk failure or damaged data, not a bug
        _LOG.critical(
            "raft: the replica of the metadata log has failed: %s", error, exc_info=None if is_known else error
        )
        self._driver = None
        self._abandon()
        self._setting.on_fault(error)

    def _abandon(self) -> None:
        waiting: list[asyncio.Future[Any]] = [*self._waiting.values(), *self._callers.values()]
        for future in waiting:
            if not future.done():
                future.set_exception(RaftStopped())
        self._waiting.clear()
        self._callers.clear()
