"""One segment: a file of batches and its indexes."""

import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.compression import Bytes
from isthmus_wire.records import HEADER_SIZE, LENGTH_END, MAGIC, BatchHeader, header_at

from isthmus_broker.core.log.retention import SegmentFacts
from isthmus_broker.edge.storage.files import DiskFailure, FilePool, failures_at
from isthmus_broker.edge.storage.filesystem import FileSystem
from isthmus_broker.edge.storage.indexes import OffsetIndex, TimeIndex, TransactionIndex

SCAN_MIN: Final = 1024
"""Bytes read at once in search of one batch header; for many small batches in sequence it grows to `SCAN_MAX`."""
SCAN_MAX: Final = 64 * 1024
DELETED_SUFFIX: Final = ".deleted"
RELATIVE_OFFSET_MAX: Final = 2**31 - 1
SUFFIXES: Final = (".log", ".index", ".timeindex", ".txnindex")


class Placed(NamedTuple):
    """A batch header and the position of its batch."""

    position: int
    header: BatchHeader


def file_name(base_offset: int, suffix: str) -> str:
    """Kafka's name for a file of a segment."""
    return f"{base_offset:020d}{suffix}"


class Segment:
    """The batches at `base_offset` and above, up to the next segment."""

    def __init__(self, pool: FilePool, directory: Path, base_offset: int, *, created_ms: MonotonicMs) -> None:
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.directory = directory
        self.path = directory / file_name(base_offset, ".log")
        self._file = str(self.path)
        self._pool = pool
        self.size = _size_of(pool.files, self.path)
        self.offsets = OffsetIndex(pool, *self._index(".index"))
        self.times = TimeIndex(pool, *self._index(".timeindex"))
        transactions = directory / file_name(base_offset, ".txnindex")
        self.aborted = TransactionIndex(pool, transactions, _size_of(pool.files, transactions))
        self.next_offset = base_offset
        self.largest_timestamp, self.largest_timestamp_offset = self.times.last()
        self.first_timestamp: int | None = None
        self._since_index = 0
        self._is_preallocated = False
        self._durable_names = 0
        self.ends_in_gap = False
        """Whether it was truncated to an offset that the last batch does not reach."""
        self._kept: int | None = None  # after its deletion: the descriptor for those who still read the segment
        self.is_deleted = False

    def _index(self, suffix: str) -> tuple[Path, int, int]:
        path = self.directory / file_name(self.base_offset, suffix)
        return path, self.base_offset, _size_of(self._pool.files, path)

    def use_pool(self, pool: FilePool) -> None:
        """Open files through this pool from now on."""
        self._pool = pool
        for index in (self.offsets, self.times, self.aborted):
            index.use_pool(pool)

    def append(self, batch: Bytes, header: BatchHeader, index_interval: int) -> int:
        """Append one batch, whose offsets are set; returns its position."""
        position = self.size
        self._pool.write_at(self._file, [batch], position)
        self.size = position + len(batch)
        self.index_batch(position, header, index_interval)
        return position

    def index_batch(self, position: int, header: BatchHeader, index_interval: int) -> None:
        """Index a batch that is in the file."""
        if self.first_timestamp is None:
            self.first_timestamp = header.max_timestamp
        if header.max_timestamp > self.largest_timestamp:
            self.largest_timestamp = header.max_timestamp
            self.largest_timestamp_offset = header.last_offset
        if self._since_index > index_interval:
            self.offsets.add(header.last_offset, position)
            self.times.add(self.largest_timestamp, self.largest_timestamp_offset)
            self._since_index = 0
        self._since_index += header.size
        self.next_offset = header.last_offset + 1
        self.ends_in_gap = False

    def preallocate(self, size: int) -> None:
        """Grow the file to its maximum size, as Kafka does with `preallocate`; `seal` truncates the unused rest."""
        self._pool.truncate(self._file, size)
        self._is_preallocated = True

    def fits(self, last_offset: int) -> bool:
        """Whether an offset relative to the base fits into an index."""
        return last_offset - self.base_offset <= RELATIVE_OFFSET_MAX

    def facts(self) -> SegmentFacts:
        """The properties that retention needs."""
        timestamp = self.largest_timestamp
        if timestamp < 0 and self.size:  # without record timestamps use the file's; an empty segment has no file yet
            timestamp = self._modified_ms()
        return SegmentFacts(self.base_offset, self.next_offset, self.size, timestamp)

    def _modified_ms(self) -> int:
        try:
            return self._pool.files.modified_ms(self.path)
        except OSError as error:
            raise DiskFailure(self.path, error) from error

    def headers(self, position: int = 0, end: int | None = None) -> Iterator[Placed]:
        """Headers of the complete batches from `position`, up to the first that is torn or not a batch."""
        end = self.size if end is None else end
        window = b""
        start, size = position, SCAN_MIN
        while position + HEADER_SIZE <= end:
            if position - start + HEADER_SIZE > len(window):
                size = min(2 * size, SCAN_MAX) if position <= start + len(window) else SCAN_MIN
                window, start = self.read(position, size), position
                if len(window) < HEADER_SIZE:
                    return
            header = header_at(window, position - start)
            if header.magic != MAGIC or header.length < HEADER_SIZE - LENGTH_END or position + header.size > end:
                return
            yield Placed(position, header)
            position += header.size

    def locate(self, offset: int) -> Placed | None:
        """The first batch that ends at or after `offset`."""
        for placed in self.headers(self.offsets.position_for(offset)):
            if placed.header.last_offset >= offset:
                return placed
        return None

    def read(self, position: int, size: int) -> bytes:
        """Read the file, never beyond the last append; a deleted segment stays readable for a response that is being sent."""
        if self._kept is not None:
            with failures_at(self.path):
                return self._pool.files.read(self._kept, min(size, self.size - position), position)
        return self._pool.read_at(self._file, min(size, self.size - position), position)

    def batch_at_time(self, timestamp: int, from_offset: int) -> Placed | None:
        """The first batch that may have a record at or after `from_offset` that is not earlier than `timestamp`."""
        start = max(self.times.offset_for(timestamp), from_offset)
        for placed in self.headers(self.offsets.position_for(start)):
            if placed.header.max_timestamp >= timestamp and placed.header.last_offset >= from_offset:
                return placed
        return None

    def truncate(self, end_offset: int, index_interval: int) -> None:
        """Remove the batches that contain `end_offset` or higher offsets.

        The segment then ends at `end_offset`, even if compaction removed the records before it, or before that if a batch contained it.
        """
        placed = self.locate(end_offset)
        if placed is not None:
            self._pool.truncate(self._file, placed.position)
            self.size = placed.position
            self.offsets.truncate(end_offset)
            self.times.truncate(end_offset)
            self.aborted.truncate(end_offset)
            self.rescan(self.offsets.position_for(end_offset), index_interval)
        if placed is None or placed.header.base_offset >= end_offset:
            self.end_at(end_offset)

    def end_at(self, offset: int) -> None:
        """Let the segment end there, at or above the end of its last batch."""
        self.ends_in_gap = self.next_offset != offset
        self.next_offset = offset

    def rescan(self, position: int, index_interval: int) -> None:
        """Recompute the next offset and largest timestamp from the indexes and the batches after `position`."""
        self.largest_timestamp, self.largest_timestamp_offset = self.times.last()
        self.next_offset = self.base_offset
        self._since_index = 0
        for placed in self.headers(position):
            self.index_batch(placed.position, placed.header, index_interval)

    def clear_indexes(self, end_offset: int) -> None:
        """Prepare to index every batch again; aborted transactions that end below `end_offset` are kept."""
        self.offsets.clear()
        self.times.clear()
        self.aborted.truncate(end_offset)
        self.first_timestamp = None
        self.rescan(self.size, 0)

    def cut(self, size: int) -> None:
        """Remove what follows the last valid batch, durably: appends would otherwise be followed by it after a power loss."""
        self._pool.truncate(self._file, size)
        self.size = size
        self.make_durable()

    def seal(self) -> None:
        """Complete the indexes after the last append."""
        if self.largest_timestamp >= 0:
            self.times.add(self.largest_timestamp, self.largest_timestamp_offset)
        self.offsets.write_tail()
        self.times.write_tail()
        if self._is_preallocated:
            self._pool.truncate(self._file, self.size)
            self._is_preallocated = False

    def make_durable(self) -> bool:
        """Sync the file and its indexes; returns whether the directory must be synced too, as it has a new file."""
        indexes = [self.offsets, self.times, *([self.aborted] if self.aborted.has_file else [])]
        self._pool.sync(self._file)
        for index in indexes:
            index.make_durable()
        is_new, self._durable_names = len(indexes) != self._durable_names, len(indexes)
        return is_new

    def files(self, suffixes: tuple[str, ...] = SUFFIXES) -> list[Path]:
        """The existing files of the segment."""
        paths = [self.directory / file_name(self.base_offset, suffix) for suffix in suffixes]
        return [path for path in paths if self._pool.files.exists(path)]

    def read_first_timestamp(self) -> None:
        """Read the timestamp of the first batch, which determines the age of the segment."""
        first = next(self.headers(), None)
        self.first_timestamp = first.header.max_timestamp if first else None

    def close(self) -> None:
        """Close the descriptors."""
        for suffix in SUFFIXES:
            self._pool.close(str(self.directory / file_name(self.base_offset, suffix)))

    def mark_deleted(self) -> list[Path]:
        """Rename the files, so that readers and the next start ignore them; returns the files to remove later.

        The records stay readable while anything refers to this segment, such as a response that is being sent.
        """
        self._kept = self._pool.release(self._file)
        if self._kept is not None:
            weakref.finalize(self, self._pool.files.close, self._kept)
        self.close()
        self.is_deleted = True
        marked = []
        for suffix in SUFFIXES:
            path = self.directory / file_name(self.base_offset, suffix)
            deleted = path.with_name(path.name + DELETED_SUFFIX)
            with suppress(FileNotFoundError):
                self._pool.files.rename(path, deleted)
                marked.append(deleted)
        return marked


def _size_of(files: FileSystem, path: Path) -> int:
    try:
        return files.size(path)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise DiskFailure(path, error) from error
