"""Searches the transaction indexes of a log's segments: a transaction is in the index of the segment that has its abort marker."""

from collections.abc import Sequence
from typing import Protocol

from isthmus_broker.core.log.producer_state import AbortedTransaction
from isthmus_broker.edge.storage.segment import Segment
from isthmus_broker.edge.storage.segment_source import Slice


class Segments(Protocol):
    """A log."""

    segments: list[Segment]

    @property
    def end_offset(self) -> int: ...


def aborted_in(segments: Sequence[Segment], first_offset: int, upper: int) -> list[AbortedTransaction]:
    """The aborted transactions with records in the range, which begins in the first segment."""
    rows: list[AbortedTransaction] = []
    for row in (row for segment in segments for row in segment.aborted.rows()):
        if row.last_offset >= first_offset and row.first_offset < upper:
            rows.append(row)
        if row.last_stable_offset >= upper:  # whatever is aborted later began at or above `upper`
            break
    return rows


def end_of(read: Slice, log: Segments) -> int:
    """An offset at or above the end of the read: the next one in the offset index, or the end of the segment."""
    number = next(number for number, segment in enumerate(log.segments) if segment is read.segment)
    segment = log.segments[number]
    after = segment.offsets.offset_after(read.position + read.size)
    if after is not None:
        return after
    return log.segments[number + 1].base_offset if number + 1 < len(log.segments) else log.end_offset
