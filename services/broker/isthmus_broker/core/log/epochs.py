"""The leader epoch cache of a log: the first offset of each epoch, from which replicas and consumers find where two logs diverge."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class EpochHistory:
    """Entries (epoch, first offset of it), both strictly rising."""

    def __init__(self, entries: Sequence[tuple[int, int]] = ()) -> None:
        self._entries: list[tuple[int, int]] = []
        for epoch, start in entries:
            self.assign(epoch, start)

    @property
    def entries(self) -> Sequence[tuple[int, int]]:
        """(epoch, start offset), oldest first."""
        return self._entries

    @property
    def latest_epoch(self) -> int:
        """The epoch of the newest entry, or -1."""
        return self._entries[-1][0] if self._entries else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Record that `epoch` begins at `start_offset`, unless it has begun already; returns whether anything changed."""
        if self._entries and epoch == self._entries[-1][0]:
            return False
        while self._entries and (self._entries[-1][0] >= epoch or self._entries[-1][1] >= start_offset):
            self._entries.pop()
        self._entries.append((epoch, start_offset))
        return True

    def assign_higher(self, epoch: int, start_offset: int) -> bool:
        """As `assign`, but only for an epoch above all recorded ones."""
        return epoch > self.latest_epoch and self.assign(epoch, start_offset)

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote `offset`, or -1 before the first entry."""
        position = bisect_right(self._entries, offset, key=lambda entry: entry[1])
        return self._entries[position - 1][0] if position else UNDEFINED_EPOCH

    def end_offset(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest known epoch not above `epoch`, and the offset after its last record.

        An epoch above all known ones has no end here; one below all of them results in the start of the first known epoch.
        """
        if epoch == UNDEFINED_EPOCH or not self._entries or epoch > self._entries[-1][0]:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self._entries[-1][0]:
            return epoch, log_end_offset
        position = bisect_right(self._entries, epoch, key=lambda entry: entry[0])
        if position == 0:
            return epoch, self._entries[0][1]
        return self._entries[position - 1][0], self._entries[position][1]

    def matching_end(self, log_end_offset: int, other: "EpochHistory", other_end_offset: int) -> int:
        """The offset up to which the log and another one, with these ends, have the same records; -1 without a common epoch.

        A leader writes each offset of its epoch once, so logs that share an epoch are equal up to where it ends in one of them.
        """
        for epoch, _ in reversed(self._entries):
            known, end = other.end_offset(epoch, other_end_offset)
            if known == epoch:
                return min(self.end_offset(epoch, log_end_offset)[1], end)
        return UNDEFINED_OFFSET

    def truncate_from_end(self, end_offset: int) -> bool:
        """Remove epochs that begin at or after `end_offset`."""
        before = len(self._entries)
        while self._entries and self._entries[-1][1] >= end_offset:
            self._entries.pop()
        return len(self._entries) != before

    def truncate_from_start(self, start_offset: int) -> bool:
        """Remove epochs that end at or before `start_offset`; the one that spans it begins there now."""
        position = bisect_right(self._entries, start_offset, key=lambda entry: entry[1])
        if position == 0:
            return False
        spanning = (self._entries[position - 1][0], start_offset)
        if position == 1 and self._entries[0] == spanning:
            return False
        self._entries[:position] = [spanning]
        return True
