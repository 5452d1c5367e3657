"""The raft storage of a node on a disk that loses power: its metadata log, quorum state and snapshots.

Whatever a sync made durable is there after a start, the vote included, and so is whatever a start has read: raft counts it as durable. A
start never fails, whatever a power loss left.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final
from uuid import UUID

from isthmus_broker.core.config.layers import BrokerLayers
from isthmus_broker.core.config.node_config import resolve_node, with_embedded_defaults
from isthmus_broker.core.raft.events import (
    AppendEntry,
    DropBefore,
    InstallSnapshot,
    SaveQuorumState,
    TruncateTo,
    WriteSnapshotChunk,
)
from isthmus_broker.core.raft.log_view import LogView
from isthmus_broker.core.raft.types import Entry, QuorumState, Recovered, ReplicaKey, SnapshotId
from isthmus_broker.edge.quorum.metadata_log import DIRECTORY, MetadataLogStore, metadata_log_config
from isthmus_broker.edge.quorum.raft_records import RaftRecords, placed
from isthmus_broker.edge.quorum.raft_storage import RaftStorage
from isthmus_broker.edge.storage.files import FilePool
from isthmus_broker.edge.storage.filesystem import FileSystem
from isthmus_broker.edge.storage.log_dir import Inconsistent
from isthmus_model.clocks import Clocks
from isthmus_wire.errors import WireError
from isthmus_wire.records import NewRecord, build_batch, header_at, iterate_records

from tests.sim.storage.loop import SimLoop
from tests.sim.storage.reading import content_of
from tests.sim.storage.truth import Truth, batch_at
from tests.sim.world import Violation

HOME: Final = Path("/m")
CONFIG: Final = replace(
    metadata_log_config(resolve_node(BrokerLayers(with_embedded_defaults({}, "unused")))),
    segment_bytes=700,
    index_interval_bytes=150,
)
CHUNK: Final = 100
Values = tuple[bytes | None, ...]


class MetadataLife:
    """What raft does to its storage, through several processes."""

    def __init__(self, random: Random, log: Callable[[str], None]) -> None:
        self.truth = Truth(DIRECTORY)
        self._random = random
        self._log = log
        self._quorum = QuorumState()
        self._quorums_allowed = [QuorumState()]
        """The durable quorum state, and those written since: one of them is there after a crash."""
        self._committed = 0
        self._contents: dict[SnapshotId, Values] = {}
        """The values in every snapshot that was ever begun."""
        self._snapshots: set[SnapshotId] = set()
        """Those that are durable."""
        self._installing: set[SnapshotId] = set()
        """Received ones, whose installation in place of the log is not durable yet."""
        self._kept = random.randrange(1, 3)

    # -- processes -----------------------------------------------------------------------------------------------------------

    def start(self, files: FileSystem, clocks: Clocks, loop: SimLoop) -> None:
        """Recover as raft does; raises Violation, and OSError for a failing disk."""
        self._loop = loop
        self._fault: BaseException | None = None
        self._is_syncing = self._is_writing = False
        self._records = RaftRecords(clocks.wall)
        try:
            self._store = MetadataLogStore(FilePool(files, 4), HOME, CONFIG, clocks)
            self._storage = RaftStorage(files, HOME / DIRECTORY, self._store)
            recovered = self._storage.recover()
        except (Inconsistent, WireError, AssertionError, ValueError, IndexError) as error:
            raise Violation(f"refuses-to-start: {error!r}") from error
        self._check(recovered)

    def stop(self) -> None:
        """Close the log, as a node does that stops."""
        self._store.close()
        self.truth.synced(self.truth.current.end)

    def raise_fault(self) -> None:
        """Raise the error of a worker thread."""
        if self._fault is not None:
            raise self._fault

    def _check(self, recovered: Recovered) -> None:
        if recovered.quorum not in self._quorums_allowed:
            raise Violation(f"forgotten-vote: {recovered.quorum} is none of {self._quorums_allowed}")
        self._quorum, self._quorums_allowed = recovered.quorum, [recovered.quorum]
        self._check_snapshots(recovered)
        log = LogView(recovered)
        unfinished = log.unfinished_install()
        if unfinished is None:
            self.truth.check(content_of(self._store.log))
        else:
            if unfinished not in self._installing and unfinished.end_offset < self.truth.durable_end:
                raise Violation(f"lost-records: {recovered} has lost entries below {self.truth.durable_end}")
            self.truth.ending = "stop"
            self._install(unfinished)
        epoch = max(log.last_epoch, unfinished.epoch if unfinished is not None else 0)
        if epoch > self._quorum.epoch:  # the log was in the page cache, and the quorum state not even that
            self._save(QuorumState(epoch))
        self.truth.synced(self._store.end_offset)
        self._installing.clear()
        self._committed = max(self._committed, self._latest_end())
        if self._committed > self._store.end_offset:
            raise Violation(f"lost-records: {recovered} ends before the committed offset {self._committed}")

    def _check_snapshots(self, recovered: Recovered) -> None:
        newest = max(self._snapshots, default=None)
        if newest is not None and newest not in recovered.snapshots:
            raise Violation(f"lost-snapshot: {newest} is not among {recovered.snapshots}")
        for snapshot in recovered.snapshots:
            try:
                values = values_of(b"".join(self._storage.snapshots.batches(snapshot)))
            except WireError as error:
                raise Violation(f"damaged-snapshot: {error}") from error
            if values != self._contents[snapshot]:
                raise Violation(f"damaged-snapshot: {snapshot} does not have the records that were written")
        self._snapshots = set(recovered.snapshots)

    def _latest_end(self) -> int:
        return max((snapshot.end_offset for snapshot in self._snapshots), default=0)

    # -- steps ---------------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """One of the things that raft does, on the event loop; raises OSError for a failing disk."""
        steps = [
            (30, self._append),
            (12, self._vote),
            (25, self._sync),
            (6, self._truncate),
            (6, self._take_snapshot),
            (3, self._receive_snapshot),
        ]
        self._random.choices([act for _, act in steps], [weight for weight, _ in steps])[0]()
        self._commit()

    def _append(self) -> None:
        base = self.truth.current.end
        values = [self._random.randbytes(self._random.randrange(1, 60)) for _ in range(self._random.randrange(1, 4))]
        entry = Entry(
            base, base + len(values) - 1, self._quorum.epoch, build_batch([NewRecord(None, v) for v in values])
        )
        self.truth.append(batch_at(placed(entry)))
        self._storage.write(AppendEntry(entry))
        self.truth.done()

    def _vote(self) -> None:
        """Learn of a new epoch, vote in it, or learn its leader."""
        before, node = self._quorum, self._random.randrange(1, 4)
        if before.leader_id is None and self._random.random() < 0.5:
            state = replace(before, leader_id=node)
        elif before.leader_id is None and before.voted is None:
            state = replace(before, voted=ReplicaKey(node, UUID(int=node)))
        else:
            voted = ReplicaKey(node, UUID(int=node)) if self._random.random() < 0.6 else None
            state = QuorumState(before.epoch + 1, None, voted)
        self._save(state)

    def _save(self, state: QuorumState) -> None:
        self._quorum = state
        self._quorums_allowed.append(state)
        self._storage.write(SaveQuorumState(state))

    def _sync(self) -> None:
        """As raft's driver: one sync at a time, in a worker thread, while further writes are made."""
        if self._is_syncing:
            return
        self._is_syncing = True

        def sync() -> None:
            self._storage.sync()
            self.truth.synced(self.truth.current.end)
            self._quorums_allowed = [self._quorum]
            self._installing.clear()

        self._in_worker(sync, self._synced)

    def _synced(self) -> None:
        self._is_syncing = False

    def _truncate(self) -> None:
        lowest = max(self._committed, self._latest_end(), self._store.start_offset)
        ends = [b.header.base_offset for b in self.truth.current.batches if b.header.base_offset >= lowest]
        if ends and not self._is_writing:
            end = self._random.choice(ends)
            self._log(f"truncate the metadata log to {end}")
            self.truth.truncate(end)
            self._storage.write(TruncateTo(end))
            self.truth.done()

    def _commit(self) -> None:
        """Everything durable may be committed."""
        durable = [b.end for b in self.truth.current.batches if self._committed < b.end <= self.truth.durable_end]
        if durable and self._random.random() < 0.3:
            self._committed = self._random.choice(durable)

    # -- snapshots -----------------------------------------------------------------------------------------------------------

    def _take_snapshot(self) -> None:
        if self._committed <= self._latest_end() or self._is_writing:
            return
        epoch = next(b.header.leader_epoch for b in self.truth.current.batches if b.end == self._committed)
        snapshot = SnapshotId(self._committed, epoch)
        header, data, footer = self._new_snapshot(snapshot)
        self._log(f"take {snapshot}")
        self._is_writing = True

        def write() -> None:
            self._storage.snapshots.write(snapshot, header, data, footer)
            self._snapshots.add(snapshot)

        self._in_worker(write, self._taken)

    def _taken(self) -> None:
        self._is_writing = False
        kept = sorted(self._snapshots)[-self._kept :]
        if kept[0] != min(self._snapshots):
            self._snapshots = set(kept)
            self._storage.write(DropBefore(kept[0]))

    def _receive_snapshot(self) -> None:
        """Fetch a snapshot in parts, and replace the log by it."""
        if self._is_writing:
            return
        snapshot = SnapshotId(self._committed + self._random.randrange(1, 30), self._quorum.epoch)
        if snapshot in self._contents:
            return
        self._log(f"receive {snapshot}")
        header, data, footer = self._new_snapshot(snapshot)
        content, offset = b"", 0
        for batch in (header, *data, footer):
            last = offset + header_at(batch).last_offset_delta
            content += placed(Entry(offset, last, snapshot.epoch, batch))
            offset = last + 1
        self._installing.add(snapshot)
        for position in range(0, len(content), CHUNK):
            part = content[position : position + CHUNK]
            self._storage.write(WriteSnapshotChunk(snapshot, position, part, position + CHUNK >= len(content)))
        assert self._storage.received == snapshot
        self._snapshots.add(snapshot)
        self._install(snapshot)
        self._committed = snapshot.end_offset

    def _install(self, snapshot: SnapshotId) -> None:
        self.truth.restart(snapshot.end_offset)
        self._storage.write(InstallSnapshot(snapshot))
        self.truth.done()
        self._snapshots = {each for each in self._snapshots if each >= snapshot}

    def _new_snapshot(self, snapshot: SnapshotId) -> tuple[bytes, list[bytes], bytes]:
        """The header, the data and the footer of a snapshot with random records."""
        values = [self._random.randbytes(self._random.randrange(1, 90)) for _ in range(self._random.randrange(1, 5))]
        self._contents[snapshot] = tuple(values)
        self.truth.raise_start(snapshot.end_offset)
        data = [build_batch([NewRecord(None, value)]) for value in values]
        return self._records.snapshot_header(-1, None), data, self._records.snapshot_footer()

    def _in_worker(self, work: Callable[[], None], then: Callable[[], None]) -> None:
        done = self._loop.run_in_executor(None, work)

        def finished(_: object) -> None:
            failure = done.exception()
            self._fault = self._fault or failure
            if self._fault is None:
                try:
                    then()
                except OSError as error:
                    self._fault = error

        done.add_done_callback(finished)


def values_of(data: bytes) -> Values:
    """The values of all records of one batch after the other."""
    values: list[bytes | None] = []
    position = 0
    while position < len(data):
        values += [record.value for record in iterate_records(data, position)]
        position += header_at(data, position).size
    return tuple(values)
