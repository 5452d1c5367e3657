"""What this broker has done in the tier since its start, by topic, and what its partitions had there at their last run."""

from collections import defaultdict
from dataclasses import dataclass, field

from isthmus_tier.core.segments import Place


@dataclass(slots=True)
class TopicCounts:
    """Calls of the store, and their failures."""

    copied_bytes: int = 0
    copies: int = 0
    copy_errors: int = 0
    deletions: int = 0
    deletion_errors: int = 0


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition that this broker leads, when its last run ended or failed."""

    lag_segments: int
    lag_bytes: int
    """Closed segments that are still to be copied."""
    segments: int
    """All that the metadata has a record of, copied or not."""
    size: int
    """The size of the copied segments in bytes, before compression."""


@dataclass(slots=True)
class TierCounts:
    """Topics and partitions without an entry had no run yet."""

    topics: defaultdict[str, TopicCounts] = field(default_factory=lambda: defaultdict(TopicCounts))
    partitions: dict[Place, PartitionState] = field(default_factory=dict)
