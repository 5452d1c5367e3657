"""The three sparse indexes of a segment, in Kafka's bytes.

New entries are collected in a small tail in memory before they are written; recovery rebuilds entries lost in a crash from the segment.
Look-ups search the file with `pread`, so an index needs no memory while no old offsets are read.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from isthmus_broker.core.log.producer_state import AbortedTransaction
from isthmus_broker.edge.storage.files import FilePool

_OFFSET_ENTRY: Final = struct.Struct(">ii")  # offset relative to the segment's base, position in its file
_TIME_ENTRY: Final = struct.Struct(">qi")  # timestamp, relative offset
_ABORTED_ENTRY: Final = struct.Struct(">hqqqq")  # version, producer id, first, last and last stable offset
_TAIL_ENTRIES: Final = 64
"""Entries collected in memory before they are written."""


class _Index:
    """Fixed-size entries in a file, ascending."""

    def __init__(self, pool: FilePool, path: Path, entry: struct.Struct, entries: int) -> None:
        self.path = str(path)
        self._pool = pool
        self.count = entries
        self._entry = entry
        self._written = entries
        self.has_file = entries > 0
        """Whether it has written to its file, which may be empty by now."""
        self._tail = bytearray()

    def use_pool(self, pool: FilePool) -> None:
        """Open the file through this pool from now on."""
        self._pool = pool

    def __len__(self) -> int:
        return self.count

    def _add(self, *fields: int) -> None:
        self._tail += self._entry.pack(*fields)
        self.count += 1
        if len(self._tail) >= _TAIL_ENTRIES * self._entry.size:
            self.write_tail()

    def write_tail(self) -> None:
        """Write the entries that are still in memory to the file."""
        if self._tail:
            self._pool.write_at(self.path, [self._tail], self._written * self._entry.size)
            self.has_file = True
            self._written += len(self._tail) // self._entry.size
            self._tail = bytearray()

    def entry(self, number: int) -> tuple[int, ...]:
        """The entry with that number."""
        size = self._entry.size
        if number >= self._written:
            return self._entry.unpack_from(self._tail, (number - self._written) * size)
        return self._entry.unpack(self._pool.read_at(self.path, size, number * size))

    def _last_at_most(self, key: int, field: int) -> int:
        """Number of the last entry whose field is not above `key`, or -1."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle)[field] <= key:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def keep(self, entries: int) -> None:
        """Remove all but the first `entries`."""
        self.write_tail()
        self._pool.truncate(self.path, entries * self._entry.size)
        self._written = self.count = min(entries, self._written)

    def clear(self) -> None:
        """Remove all entries."""
        self.keep(0)

    def make_durable(self) -> None:
        """Write and sync."""
        self.write_tail()
        self._pool.sync(self.path)


class OffsetIndex(_Index):
    """Maps an offset to a position at or before its batch."""

    ENTRY_SIZE: Final = _OFFSET_ENTRY.size

    def __init__(self, pool: FilePool, path: Path, base_offset: int, size: int = 0) -> None:
        super().__init__(pool, path, _OFFSET_ENTRY, size // _OFFSET_ENTRY.size)
        self._base = base_offset
        self._last = self._last_offset()

    def _last_offset(self) -> int:
        """The offset of the last entry, relative to the base; below every offset if there is none."""
        return self.entry(self.count - 1)[0] if self.count else -1

    def clear(self) -> None:
        """Remove all entries."""
        super().clear()
        self._last = -1

    def add(self, offset: int, position: int) -> None:
        """Add an entry: the batch that ends with `offset` begins at `position`."""
        relative = offset - self._base
        if relative > self._last:
            self._add(relative, position)
            self._last = relative

    def position_for(self, offset: int) -> int:
        """The position at which to start searching for the batch that contains `offset`."""
        number = self._last_at_most(offset - self._base, 0)
        return self.entry(number)[1] if number >= 0 else 0

    def offset_after(self, position: int) -> int | None:
        """The first indexed offset whose batch begins at `position` or later; None if there is none."""
        number = self._last_at_most(position - 1, 1) + 1
        return self._base + self.entry(number)[0] if number < self.count else None

    def truncate(self, end_offset: int) -> None:
        """Remove entries at or after `end_offset`."""
        self.keep(self._last_at_most(end_offset - self._base - 1, 0) + 1)
        self._last = self._last_offset()


class TimeIndex(_Index):
    """Maps a timestamp to the offset of a batch that is at least as late."""

    ENTRY_SIZE: Final = _TIME_ENTRY.size

    def __init__(self, pool: FilePool, path: Path, base_offset: int, size: int = 0) -> None:
        super().__init__(pool, path, _TIME_ENTRY, size // _TIME_ENTRY.size)
        self._base = base_offset

    def add(self, timestamp: int, offset: int) -> None:
        """Add an entry: no record up to `offset` is later than `timestamp`; entries that would not ascend are skipped."""
        if len(self):
            last_timestamp, last_offset = self.entry(len(self) - 1)
            if timestamp <= last_timestamp or offset - self._base <= last_offset:
                return
        self._add(timestamp, offset - self._base)

    def last(self) -> tuple[int, int]:
        """The largest indexed timestamp and its offset, or (-1, base offset)."""
        if len(self) == 0:
            return -1, self._base
        timestamp, relative = self.entry(len(self) - 1)
        return timestamp, relative + self._base

    def offset_for(self, timestamp: int) -> int:
        """The offset at which to start searching for the first record not earlier than `timestamp`."""
        number = self._last_at_most(timestamp - 1, 0)
        return self.entry(number)[1] + self._base if number >= 0 else self._base

    def truncate(self, end_offset: int) -> None:
        """Remove entries at or after `end_offset`."""
        self.keep(self._last_at_most(end_offset - self._base - 1, 1) + 1)


class TransactionIndex(_Index):
    """Aborted transactions that end in this segment; the file exists only if there are any."""

    def __init__(self, pool: FilePool, path: Path, size: int = 0) -> None:
        super().__init__(pool, path, _ABORTED_ENTRY, size // _ABORTED_ENTRY.size)

    def add(self, aborted: AbortedTransaction) -> None:
        """Write one row immediately."""
        self._add(0, *aborted)
        self.write_tail()

    def rows(self) -> Iterator[AbortedTransaction]:
        """All rows."""
        for number in range(len(self)):
            yield AbortedTransaction(*self.entry(number)[1:])

    def truncate(self, end_offset: int) -> None:
        """Remove rows of transactions that end at or after `end_offset`, and what a power loss left of rows that were not synced."""
        kept, last = 0, -1
        for row in self.rows():
            if not last < row.last_offset < end_offset or row.first_offset >= row.last_offset:
                break
            kept, last = kept + 1, row.last_offset
        if kept < len(self):
            self.keep(kept)
