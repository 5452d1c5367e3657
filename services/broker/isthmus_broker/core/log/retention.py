"""Which old segments to delete: a pure function of their sizes, ages and the topic's limits."""

from collections.abc import Sequence
from typing import NamedTuple

from isthmus_model.clocks import WallMs


class SegmentFacts(NamedTuple):
    """The properties of a segment that retention needs."""

    base_offset: int
    next_offset: int
    size: int
    largest_timestamp: int


def expired(
    segments: Sequence[SegmentFacts],
    *,
    now_ms: WallMs,
    retention_ms: int,
    retention_bytes: int,
    log_start_offset: int,
    high_watermark: int,
) -> tuple[int, str]:
    """The number of segments to delete from the start, and the rule that applies; limits below zero mean unlimited.

    A segment is deleted only if all of it is below the high watermark. The last segment may be deleted as well if all its records are too
    old: the log then continues with an empty one.
    """
    excess = sum(segment.size for segment in segments) - retention_bytes if retention_bytes >= 0 else -1
    count = 0
    reason = ""
    for segment in segments:
        if segment.next_offset > high_watermark or segment.size == 0:
            break
        if segment.next_offset <= log_start_offset:
            reason = reason or "before the log start offset"
        elif 0 <= retention_ms < now_ms - segment.largest_timestamp:
            reason = reason or f"older than retention.ms {retention_ms}"
        elif excess >= segment.size:
            reason = reason or f"above retention.bytes {retention_bytes}"
        else:
            break
        excess -= segment.size
        count += 1
    return count, reason
