"""Which segments of a log the leader copies to the tier next, and how it describes them."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final
from uuid import UUID

from isthmus_model.clocks import WallMs
from isthmus_model.internal_topics import INTERNAL_TOPICS, METADATA_TOPIC, REMOTE_METADATA_TOPIC
from isthmus_tier.core.lineage import end_of, with_records
from isthmus_tier.core.partition_segments import PartitionSegments
from isthmus_tier.core.segments import EpochStart, Place, RemoteSegment

from isthmus_broker.core.config.topic_config import TopicConfig
from isthmus_broker.core.log.retention import SegmentFacts

NOTHING_COPIED: Final = -1
_NEVER_TIERED: Final = frozenset({*INTERNAL_TOPICS, REMOTE_METADATA_TOPIC, METADATA_TOPIC})


def is_tiered(topic: str, config: TopicConfig) -> bool:
    """Whether the segments of a topic are copied, in a cluster that has tiered storage."""
    return config.remote_storage_enable and not config.compacts and topic not in _NEVER_TIERED


def copied_to(segments: PartitionSegments, chain: Sequence[EpochStart], log_end: int) -> int:
    """The highest offset of the log that was ever copied, or -1. What a deposed leader copied of its own does not count."""
    for epoch, _ in reversed(chain):
        highest = segments.highest_offset(epoch)
        if highest >= 0:
            return min(highest, end_of(epoch, chain, log_end) - 1)
    return NOTHING_COPIED


def next_to_copy(
    local: Sequence[SegmentFacts], copied: int, log_start: int, last_stable: int
) -> Sequence[SegmentFacts]:
    """The segments to copy, in order: the closed ones below the last stable offset that have offsets which were not copied.

    The first of them is copied whole, even if an earlier leader has copied a part of it.
    """
    first = max(copied + 1, log_start)
    return [
        one._replace(next_offset=after.base_offset)
        for one, after in pairwise(local)
        if first < after.base_offset <= last_stable and one.size
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
