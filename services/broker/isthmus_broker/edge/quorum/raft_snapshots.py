"""Snapshot files of the metadata log, with Kafka's names and layout: header batch, data batches, footer batch.

A file gets its final name only when it is whole and durable; what was being written in a crash is removed at the next start.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from isthmus_wire.errors import CorruptBatch
from isthmus_wire.records import HEADER_SIZE, MAGIC, NO_TIMESTAMP, checksum_matches, header_at

from isthmus_broker.core.raft.types import Entry, SnapshotId, VoterSet
from isthmus_broker.edge.quorum.raft_records import entries, is_snapshot_footer, placed, snapshot_timestamp, voters_in
from isthmus_broker.edge.storage.files import DiskFailure, sync_path

SUFFIX: Final = ".checkpoint"
PART_SUFFIX: Final = ".checkpoint.part"
_OFFSET_DIGITS: Final = 20
_EPOCH_DIGITS: Final = 10


class SnapshotFiles:
    """The snapshots in the directory of the metadata log."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        for part in sorted(directory.glob(f"*{PART_SUFFIX}")):
            part.unlink()

    def path(self, snapshot: SnapshotId) -> Path:
        name = f"{snapshot.end_offset:0{_OFFSET_DIGITS}d}-{snapshot.epoch:0{_EPOCH_DIGITS}d}{SUFFIX}"
        return self._directory / name

    def complete(self) -> tuple[SnapshotId, ...]:
        """Whole snapshots, oldest first."""
        found = []
        for path in self._directory.glob(f"*{SUFFIX}"):
            end_offset, _, epoch = path.name.removesuffix(SUFFIX).partition("-")
            if end_offset.isdecimal() and epoch.isdecimal():
                found.append(SnapshotId(int(end_offset), int(epoch)))
        return tuple(sorted(found))

    def read(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[bytes, int]:
        """A part of the file, and the file's size."""
        with self.path(snapshot).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return os.pread(file.fileno(), max_bytes, position), size

    def write(self, snapshot: SnapshotId, header: bytes, data: Iterable[bytes], footer: bytes) -> None:
        """Write a whole snapshot of the state machine's batches, durably. May run in a worker thread."""
        part = self._part(snapshot)
        offset = 0
        try:
            with part.open("wb") as file:
                for batch in (header, *data, footer):
                    last = offset + header_at(batch).last_offset_delta
                    file.write(placed(Entry(offset, last, snapshot.epoch, batch)))
                    offset = last + 1
            self._finish(snapshot)
        except OSError as error:
            raise DiskFailure(part, error) from error

    def write_part(self, snapshot: SnapshotId, position: int, data: bytes) -> None:
        """Add to a snapshot that is being fetched; position 0 begins it anew."""
        part = self._part(snapshot)
        try:
            with part.open("wb" if position == 0 else "r+b") as file:
                file.seek(position)
                file.write(data)
        except OSError as error:
            raise DiskFailure(part, error) from error

    def receive(self, snapshot: SnapshotId) -> VoterSet | None:
        """Check a fetched snapshot and put it in place, durably; the voters it tells. Raises CorruptBatch if it is not whole."""
        voters = None
        for entry in self._whole(self._part(snapshot)):
            voters = entry.voters or voters
        self._finish(snapshot)
        return voters

    def discard_part(self, snapshot: SnapshotId) -> None:
        self._part(snapshot).unlink(missing_ok=True)

    def voters(self, snapshot: SnapshotId) -> VoterSet | None:
        """The voter set in a snapshot's header."""
        first = next(self._entries(self.path(snapshot)), None)
        return voters_in(first.payload) if first is not None else None

    def last_timestamp(self, snapshot: SnapshotId) -> int:
        """The time of the last record that went into it, from its header."""
        first = next(self._entries(self.path(snapshot)), None)
        return snapshot_timestamp(first.payload) if first is not None else NO_TIMESTAMP

    def batches(self, snapshot: SnapshotId) -> Iterator[bytes]:
        """The state machine's batches in it, without header and footer. Raises CorruptBatch where something is missing."""
        for entry in self._whole(self.path(snapshot)):
            if not header_at(entry.payload).is_control:
                yield entry.payload

    def delete_before(self, snapshot: SnapshotId) -> None:
        for each in self.complete():
            if each < snapshot:
                with suppress(FileNotFoundError):
                    self.path(each).unlink()

    def _whole(self, path: Path) -> Iterator[Entry]:
        """All batches, each following on the last, and the footer at the end: checksums alone do not show a batch that is gone."""
        following = 0
        last: bytes | None = None
        for entry in self._entries(path):
            if entry.base_offset != following:
                raise CorruptBatch(f"{path} lacks what comes before offset {entry.base_offset}")
            following = entry.last_offset + 1
            last = entry.payload
            yield entry
        if last is None or not header_at(last).is_control or not is_snapshot_footer(last):
            raise CorruptBatch(f"{path} has no end")

    def _entries(self, path: Path) -> Iterator[Entry]:
        """Batch by batch, so that a large snapshot need not fit in memory."""
        with path.open("rb") as file:
            while head := file.read(HEADER_SIZE):
                if len(head) < HEADER_SIZE:
                    raise CorruptBatch(f"{path} ends within a batch")
                size = header_at(head).size
                if size < HEADER_SIZE or size > os.fstat(file.fileno()).st_size:
                    raise CorruptBatch(f"{path} has a batch of {size} bytes")
                whole = head + file.read(size - HEADER_SIZE)
                if len(whole) < size:
                    raise CorruptBatch(f"{path} ends within a batch")
                header = header_at(whole)
                if header.magic != MAGIC or not checksum_matches(whole, header):
                    raise CorruptBatch(f"{path} is damaged at offset {header.base_offset}")
                yield from entries(whole)

    def _part(self, snapshot: SnapshotId) -> Path:
        return self.path(snapshot).with_suffix(PART_SUFFIX)

    def _finish(self, snapshot: SnapshotId) -> None:
        part = self._part(snapshot)
        sync_path(part)
        part.rename(self.path(snapshot))
        sync_path(self._directory)
