"""Writes the raft core's output to the metadata log, the snapshots and the quorum state, and recovers it at startup."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

from isthmus_wire.errors import CorruptBatch

from isthmus_broker.core.raft.events import (
    AppendEntry,
    DropBefore,
    InstallSnapshot,
    SaveQuorumState,
    TruncateTo,
    Write,
    WriteSnapshotChunk,
)
from isthmus_broker.core.raft.types import Entry, Recovered, SnapshotId, VoterSet
from isthmus_broker.edge.quorum.quorum_state import QUORUM_STATE, read_quorum_state, write_quorum_state
from isthmus_broker.edge.quorum.raft_records import entries, placed
from isthmus_broker.edge.quorum.raft_snapshots import SnapshotFiles
from isthmus_broker.edge.storage.files import sync_existing
from isthmus_broker.edge.storage.filesystem import FileSystem

READ_BYTES: Final = 1024 * 1024
"""Bytes of the log that are read at a time; a larger batch is read alone."""


class LogStore(Protocol):
    """The metadata log's segments. All methods except `flush` are called on the event loop's thread and write to the page cache only;
    `flush` may run in a worker thread at the same time as the others."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    def epoch_boundaries(self) -> Sequence[tuple[int, int]]:
        """(epoch, first offset), oldest first."""

    def append(self, batches: Sequence[bytes]) -> None:
        """Append batches that carry their offsets and epochs and continue the log."""

    def flush(self) -> None:
        """Make everything appended before the call durable."""

    def truncate_to(self, offset: int) -> None:
        """Remove everything from `offset` on, which is a batch's base offset."""

    def restart_at(self, offset: int) -> None:
        """Remove everything; the next batch begins at `offset`."""

    def raise_start(self, offset: int) -> None:
        """Allow everything before `offset` to be deleted."""

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one that contains `offset` on, at least one unless the log ends there."""


class RaftStorage:
    """The directory of one raft log."""

    def __init__(self, files: FileSystem, directory: Path, log: LogStore) -> None:
        self.log = log
        self.snapshots = SnapshotFiles(files, directory)
        self.received: SnapshotId | None = None
        """A fetched snapshot that is now complete, with its voters."""
        self.received_voters: VoterSet | None = None
        self._files = files
        self._directory = directory
        self._state: SaveQuorumState | None = None  # assigned by write
        self._saved_state: SaveQuorumState | None = None  # assigned by sync, in its own thread

    def recover(self) -> Recovered:
        """Read everything. The last process may have left it in the page cache, and raft counts all of it as durable: it becomes so."""
        log = self.log
        log.flush()
        sync_existing(self._files, [self._directory / QUORUM_STATE, self._directory])
        snapshots = self.snapshots.complete()
        base = snapshots[-1].end_offset if snapshots else 0
        voters: list[tuple[int, VoterSet]] = []
        if snapshots:
            current = self.snapshots.voters(snapshots[-1])
            voters = [(base - 1, current)] if current is not None else []
        size = 0
        for entry in self.read_entries(max(base, log.start_offset), log.end_offset):
            size += len(entry.payload)
            if entry.voters is not None:
                voters.append((entry.last_offset, entry.voters))
        quorum = read_quorum_state(self._files, self._directory)
        epochs = _within(log.epoch_boundaries(), log.start_offset, log.end_offset)
        return Recovered(quorum, log.start_offset, log.end_offset, epochs, snapshots, tuple(voters), size)

    def read_entries(self, offset: int, end_offset: int, max_bytes: int | None = None) -> Iterator[Entry]:
        """Entries from `offset` up to `end_offset`; with `max_bytes` as many as fit, but at least one."""
        size = 0
        while offset < end_offset:
            data = self.log.read(offset, READ_BYTES if max_bytes is None else max_bytes)
            for entry in entries(data):
                size += len(entry.payload)
                is_too_much = max_bytes is not None and size > max_bytes and size > len(entry.payload)
                if entry.last_offset >= end_offset or is_too_much:
                    return
                yield entry
                offset = entry.last_offset + 1
            if not data or (max_bytes is not None and size >= max_bytes):
                return

    def write(self, write: Write) -> None:
        match write:
            case SaveQuorumState():
                self._state = write
            case AppendEntry():
                self.log.append([placed(write.entry)])
            case TruncateTo():
                self.log.truncate_to(write.offset)
            case WriteSnapshotChunk():
                self._write_part(write)
            case InstallSnapshot():
                self.log.restart_at(write.snapshot.end_offset)
                self.snapshots.delete_before(write.snapshot)
            case DropBefore():
                self.log.raise_start(write.snapshot.end_offset)
                self.snapshots.delete_before(write.snapshot)

    def sync(self) -> None:
        """Make the quorum state and the log durable. In this order no entry survives a crash without its epoch."""
        state = self._state
        if state is not None and state != self._saved_state:
            write_quorum_state(self._files, self._directory, state.state, state.static_voters)
            self._saved_state = state
        self.log.flush()

    def _write_part(self, write: WriteSnapshotChunk) -> None:
        self.snapshots.write_part(write.snapshot, write.position, write.data)
        if not write.last:
            return
        try:
            self.received_voters = self.snapshots.receive(write.snapshot)
            self.received = write.snapshot
        except CorruptBatch:
            # Not reported as received: the core's fetch times out and starts again.
            self.snapshots.discard_part(write.snapshot)


def _within(boundaries: Sequence[tuple[int, int]], start: int, end: int) -> tuple[tuple[int, int], ...]:
    """The epoch boundaries of the entries in the log."""
    if start == end:
        return ()
    before = [(epoch, start) for epoch, first in boundaries if first <= start][-1:]
    return (*before, *((epoch, first) for epoch, first in boundaries if start < first < end))
