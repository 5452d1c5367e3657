"""Which segments of a log the leader copies to the tier next, and how it describes them."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final
from uuid import UUID

from isthmus_model.clocks import WallMs
from isthmus_model.internal_topics import INTERNAL_TOPICS, METADATA_TOPIC, REMOTE_METADATA_TOPIC
from isthmus_tier.core.lineage import belongs, with_records
from isthmus_tier.core.partition_segments import PartitionSegments
from isthmus_tier.core.segments import EpochStart, Place, RemoteSegment

from isthmus_broker.core.config.topic_config import TopicConfig
from isthmus_broker.core.log.retention import SegmentFacts

_NEVER_TIERED: Final = frozenset({*INTERNAL_TOPICS, REMOTE_METADATA_TOPIC, METADATA_TOPIC})


def is_tiered(topic: str, config: TopicConfig) -> bool:
    """Whether the segments of a topic are copied, in a cluster that has tiered storage."""
    return config.remote_storage_enable and not config.compacts and topic not in _NEVER_TIERED


class Copied:
    """The offsets of a log that are readable in the tier, in segments that belong to the log.

    Not what was ever copied, but what is there now: a hole is filled as long as the log has the records.
    """

    def __init__(self, segments: PartitionSegments, chain: Sequence[EpochStart], log_end: int) -> None:
        self._ranges: list[tuple[int, int]] = []
        """From and to below an offset, with gaps between them."""
        for one in segments.readable():
            if belongs(one, chain, log_end):
                self._add(one.start_offset, one.end_offset + 1)

    def _add(self, start: int, end: int) -> None:
        """In the order of starts."""
        if self._ranges and start <= self._ranges[-1][1]:
            before = self._ranges.pop()
            start, end = before[0], max(end, before[1])
        self._ranges.append((start, end))

    def has(self, start: int, end: int) -> bool:
        """Whether all offsets from `start` to below `end` are there."""
        number = bisect_right(self._ranges, start, key=lambda one: one[0]) - 1
        return start >= end or (number >= 0 and end <= self._ranges[number][1])


def closed(local: Sequence[SegmentFacts]) -> list[SegmentFacts]:
    """The closed segments of a log; each ends where the next begins."""
    return [one._replace(next_offset=after.base_offset) for one, after in pairwise(local)]


def next_to_copy(
    local: Sequence[SegmentFacts], copied: Copied, log_start: int, last_stable: int
) -> Sequence[SegmentFacts]:
    """The segments to copy, in order: closed, below the last stable offset, and not copied from the log start on.

    Each is copied whole, even if an earlier leader has copied a part of it.
    """
    return [
        one
        for one in closed(local)
        if one.size
        and one.next_offset <= last_stable
        and not copied.has(max(one.base_offset, log_start), one.next_offset)
    ]


def describe(
    place: Place,
    segment: UUID,
    facts: SegmentFacts,
    chain: Sequence[EpochStart],
    broker_id: int,
    now: WallMs,
    *,
    has_aborted: bool,
) -> RemoteSegment:
    """The description of a copy that is about to begin."""
    return RemoteSegment(
        place=place,
        id=segment,
        start_offset=facts.base_offset,
        end_offset=facts.next_offset - 1,
        epochs=tuple(_epochs_between(chain, facts.base_offset, facts.next_offset)),
        size=facts.size,
        largest_timestamp=facts.largest_timestamp,
        broker_id=broker_id,
        changed_ms=now,
        has_aborted=has_aborted,
    )


def _epochs_between(chain: Sequence[EpochStart], start: int, end: int) -> list[EpochStart]:
    """The epochs of the records from `start` to below `end`; the first begins at `start`."""
    within = [EpochStart(epoch, max(offset, start)) for epoch, offset in chain if offset < end]
    return [one for one in with_records(within) if one.offset < end]


def epochs_below(chain: Sequence[EpochStart], end: int) -> list[EpochStart]:
    """The epochs that are stored with a segment that ends at `end`: all that begin before."""
    return [one for one in chain if one.offset < end]
