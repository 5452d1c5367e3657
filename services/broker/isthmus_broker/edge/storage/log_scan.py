"""Reads a whole log in order while the cleaner and retention replace and delete its segments."""

from collections.abc import Iterator

from isthmus_wire.errors import CorruptBatch
from isthmus_wire.records import BatchHeader

from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.segment import Placed, Segment


def scan(log: Log, from_offset: int) -> Iterator[tuple[BatchHeader, bytes]]:
    """Every batch that ends at or after `from_offset`, up to the log end.

    The caller may wait between two batches: the scan continues behind the last batch, in the segments that the log then has. Raises
    CorruptBatch if part of a segment cannot be read, never passes over it.
    """
    offset = from_offset
    while (segment := _segment_at(log, offset)) is not None:
        next_offset = segment.next_offset  # the active segment may grow meanwhile
        for position, header in whole_batches(segment, segment.offsets.position_for(offset)):
            if segment.is_deleted:
                break  # continue in the segment that replaced it
            if header.last_offset >= offset:
                data = segment.read(position, header.size)
                offset = header.last_offset + 1
                yield header, data
        else:
            offset = max(offset, next_offset)


def whole_batches(segment: Segment, position: int = 0) -> Iterator[Placed]:
    """Headers of all batches from `position` to the end of the segment; raises CorruptBatch if the bytes in between are no batches."""
    end = segment.size
    for placed in segment.headers(position, end):
        position = placed.position + placed.header.size
        yield placed
    if position < end:
        raise CorruptBatch(f"{segment.path} is not readable from byte {position} on")


def _segment_at(log: Log, offset: int) -> Segment | None:
    """The first segment with batches at or after `offset`."""
    return next((segment for segment in log.segments if segment.next_offset > offset), None)
