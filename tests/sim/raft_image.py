"""The contents of a raft node's disk: the quorum state, the log, the snapshots."""

from dataclasses import dataclass, field

from isthmus_broker.core.raft.events import (
    AppendEntry,
    DropBefore,
    InstallSnapshot,
    SaveQuorumState,
    TruncateTo,
    Write,
    WriteSnapshotChunk,
)
from isthmus_broker.core.raft.types import Entry, QuorumState, Recovered, SnapshotId, VoterSet


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A snapshot's content: a digest of all applied entries, and padding so that it is transferred in several parts."""

    digest: int
    voters: VoterSet | None
    size: int

    def data(self, position: int, max_bytes: int) -> bytes:
        content = self.digest.to_bytes(8, "big").ljust(self.size, b".")
        return content[position : position + max_bytes]


@dataclass(slots=True)
class RaftImage:
    quorum: QuorumState = field(default_factory=QuorumState)
    log_start: int = 0
    entries: list[Entry] = field(default_factory=list)
    snapshots: dict[SnapshotId, SnapshotFile] = field(default_factory=dict)
    partial: dict[SnapshotId, bytes] = field(default_factory=dict)
    voters_of: dict[SnapshotId, VoterSet | None] = field(default_factory=dict)
    """Voter sets inside the snapshots of the whole world: the test's way of opening a received file."""

    def copy(self) -> "RaftImage":
        return RaftImage(
            self.quorum, self.log_start, list(self.entries), dict(self.snapshots), dict(self.partial), self.voters_of
        )

    @property
    def log_end(self) -> int:
        return self.entries[-1].last_offset + 1 if self.entries else self.log_start

    def apply(self, write: Write) -> None:
        match write:
            case SaveQuorumState():
                self.quorum = write.state
            case AppendEntry():
                assert write.entry.base_offset == self.log_end
                self.entries.append(write.entry)
            case TruncateTo():
                while self.entries and self.entries[-1].base_offset >= write.offset:
                    self.entries.pop()
                assert self.log_end == write.offset, "truncation inside a batch"
            case WriteSnapshotChunk():
                self._write_chunk(write)
            case InstallSnapshot():
                self.entries = []
                self._drop_before(write.snapshot)
            case DropBefore():
                self._drop_before(write.snapshot)

    def _write_chunk(self, write: WriteSnapshotChunk) -> None:
        before = self.partial.get(write.snapshot, b"") if write.position else b""
        assert len(before) == write.position
        self.partial[write.snapshot] = before + write.data
        if write.last:
            content = self.partial.pop(write.snapshot)
            digest = int.from_bytes(content[:8], "big")
            self.snapshots[write.snapshot] = SnapshotFile(digest, self.voters_of[write.snapshot], len(content))

    def _drop_before(self, snapshot: SnapshotId) -> None:
        assert snapshot in self.snapshots
        self.snapshots = {each: file for each, file in self.snapshots.items() if each >= snapshot}
        self.entries = [entry for entry in self.entries if entry.base_offset >= snapshot.end_offset]
        self.log_start = snapshot.end_offset

    def add_snapshot(self, snapshot: SnapshotId, file: SnapshotFile) -> None:
        """Keep a snapshot the state machine has written, unless a newer one was installed meanwhile."""
        assert self.voters_of.setdefault(snapshot, file.voters) == file.voters, f"two contents of {snapshot}"
        if snapshot.end_offset > self.log_start:
            self.snapshots[snapshot] = file

    def read(self, offset: int, end_offset: int, max_bytes: int = 1 << 30) -> tuple[Entry, ...]:
        """Whole entries from `offset`, at least one."""
        found: list[Entry] = []
        size = 0
        for entry in self.entries:
            if offset <= entry.base_offset and entry.last_offset < end_offset:
                size += len(entry.payload)
                if found and size > max_bytes:
                    break
                found.append(entry)
        return tuple(found)

    def recovered(self) -> Recovered:
        """The state that a node loads when it starts."""
        epochs: list[tuple[int, int]] = []
        for entry in self.entries:
            if not epochs or epochs[-1][0] != entry.epoch:
                epochs.append((entry.epoch, entry.base_offset))
        snapshots = tuple(sorted(self.snapshots))
        voters: list[tuple[int, VoterSet]] = []
        base = 0
        if snapshots:
            base = snapshots[-1].end_offset
            found = self.snapshots[snapshots[-1]].voters
            voters = [(base - 1, found)] if found is not None else []
        later = [entry for entry in self.entries if entry.base_offset >= base]
        voters += [(entry.last_offset, entry.voters) for entry in later if entry.voters is not None]
        return Recovered(
            self.quorum,
            self.log_start,
            self.log_end,
            tuple(epochs),
            snapshots,
            tuple(voters),
            sum(len(entry.payload) for entry in later),
        )
