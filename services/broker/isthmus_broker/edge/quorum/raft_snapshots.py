"""Snapshot files of the metadata log, with Kafka's names and layout: header batch, data batches, footer batch.

A file gets its final name only when it is complete and durable; incomplete files are removed at the next start.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from isthmus_wire.errors import CorruptBatch
from isthmus_wire.records import HEADER_SIZE, MAGIC, NO_TIMESTAMP, checksum_matches, header_at

from isthmus_broker.core.raft.types import Entry, SnapshotId, VoterSet
from isthmus_broker.edge.quorum.raft_records import entries, is_snapshot_footer, placed, snapshot_timestamp, voters_in
from isthmus_broker.edge.storage.files import DiskFailure, remove_if_present, sync_path, write_all
from isthmus_broker.edge.storage.filesystem import FileSystem

SUFFIX: Final = ".checkpoint"
PART_SUFFIX: Final = ".checkpoint.part"
_OFFSET_DIGITS: Final = 20
_EPOCH_DIGITS: Final = 10


class SnapshotFiles:
    """The snapshots in the directory of the metadata log."""

    def __init__(self, files: FileSystem, directory: Path) -> None:
        self._files = files
        self._directory = directory
        for path in files.list(directory):
            if path.name.endswith(PART_SUFFIX):
                files.remove(path)

    def path(self, snapshot: SnapshotId) -> Path:
        name = f"{snapshot.end_offset:0{_OFFSET_DIGITS}d}-{snapshot.epoch:0{_EPOCH_DIGITS}d}{SUFFIX}"
        return self._directory / name

    def complete(self) -> tuple[SnapshotId, ...]:
        """Complete snapshots, oldest first."""
        snapshots = []
        for path in self._files.list(self._directory):
            if not path.name.endswith(SUFFIX):
                continue
            end_offset, _, epoch = path.name.removesuffix(SUFFIX).partition("-")
            if end_offset.isdecimal() and epoch.isdecimal():
                snapshots.append(SnapshotId(int(end_offset), int(epoch)))
        return tuple(sorted(snapshots))

    def read(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[bytes, int]:
        """A part of the file, and the file's size."""
        path = self.path(snapshot)
        with self._opened(path) as file:
            return self._files.read(file, max_bytes, position), self._files.size(path)

    def write(self, snapshot: SnapshotId, header: bytes, data: Iterable[bytes], footer: bytes) -> None:
        """Write a complete snapshot of the state machine's batches, durably. May run in a worker thread."""
        part = self._part(snapshot)
        offset = position = 0
        try:
            with self._opened(part, create=True) as file:
                self._files.truncate(file, 0)
                for batch in (header, *data, footer):
                    last = offset + header_at(batch).last_offset_delta
                    whole = placed(Entry(offset, last, snapshot.epoch, batch))
                    position += write_all(self._files, file, [whole], position)
                    offset = last + 1
            self._finish(snapshot)
        except OSError as error:
            raise DiskFailure(part, error) from error

    def write_part(self, snapshot: SnapshotId, position: int, data: bytes) -> None:
        """Append to a snapshot that is being fetched; position 0 starts it again."""
        part = self._part(snapshot)
        try:
            with self._opened(part, create=position == 0) as file:
                if position == 0:
                    self._files.truncate(file, 0)
                write_all(self._files, file, [data], position)
        except OSError as error:
            raise DiskFailure(part, error) from error

    def receive(self, snapshot: SnapshotId) -> VoterSet | None:
        """Verify a fetched snapshot and move it to its place, durably. Returns its voters; raises CorruptBatch if it is incomplete."""
        voters = None
        for entry in self._whole(self._part(snapshot)):
            voters = entry.voters or voters
        self._finish(snapshot)
        return voters

    def discard_part(self, snapshot: SnapshotId) -> None:
        remove_if_present(self._files, self._part(snapshot))

    def voters(self, snapshot: SnapshotId) -> VoterSet | None:
        """The voter set in a snapshot's header."""
        first = next(self._entries(self.path(snapshot)), None)
        return voters_in(first.payload) if first is not None else None

    def last_timestamp(self, snapshot: SnapshotId) -> int:
        """The timestamp of the last record in it, from its header."""
        first = next(self._entries(self.path(snapshot)), None)
        return snapshot_timestamp(first.payload) if first is not None else NO_TIMESTAMP

    def batches(self, snapshot: SnapshotId) -> Iterator[bytes]:
        """The state machine's batches in it, without header and footer. Raises CorruptBatch if something is missing."""
        for entry in self._whole(self.path(snapshot)):
            if not header_at(entry.payload).is_control:
                yield entry.payload

    def delete_before(self, snapshot: SnapshotId) -> None:
        for each in self.complete():
            if each < snapshot:
                remove_if_present(self._files, self.path(each))

    def _whole(self, path: Path) -> Iterator[Entry]:
        """All batches, which must be contiguous, and the footer at the end: checksums alone do not reveal a missing batch."""
        following = 0
        last: bytes | None = None
        for entry in self._entries(path):
            if entry.base_offset != following:
                raise CorruptBatch(f"{path} is missing the batches before offset {entry.base_offset}")
            following = entry.last_offset + 1
            last = entry.payload
            yield entry
        if last is None or not header_at(last).is_control or not is_snapshot_footer(last):
            raise CorruptBatch(f"{path} has no footer")

    def _entries(self, path: Path) -> Iterator[Entry]:
        """Batch by batch, so that a large snapshot need not fit in memory."""
        position, end = 0, self._files.size(path)
        with self._opened(path) as file:
            while head := self._files.read(file, HEADER_SIZE, position):
                if len(head) < HEADER_SIZE:
                    raise CorruptBatch(f"{path} ends within a batch")
                size = header_at(head).size
                if size < HEADER_SIZE or size > end:
                    raise CorruptBatch(f"{path} has a batch of {size} bytes")
                whole = self._files.read(file, size, position)
                if len(whole) < size:
                    raise CorruptBatch(f"{path} ends within a batch")
                position += size
                header = header_at(whole)
                if header.magic != MAGIC or not checksum_matches(whole, header):
                    raise CorruptBatch(f"{path} is damaged at offset {header.base_offset}")
                yield from entries(whole)

    def _part(self, snapshot: SnapshotId) -> Path:
        return self.path(snapshot).with_suffix(PART_SUFFIX)

    def _finish(self, snapshot: SnapshotId) -> None:
        part = self._part(snapshot)
        sync_path(self._files, part)
        self._files.rename(part, self.path(snapshot))
        sync_path(self._files, self._directory)

    @contextmanager
    def _opened(self, path: Path, *, create: bool = False) -> Iterator[int]:
        file = self._files.open(str(path), create=create)
        try:
            yield file
        finally:
            self._files.close(file)
