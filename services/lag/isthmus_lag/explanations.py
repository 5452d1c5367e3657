"""What the numbers of the report mean, in words that stand beside them on the page."""

from typing import Final

from isthmus_lag.jobs.validity import GAP_FACTOR

DEFINITIONS: Final = {
    "objectives": "An objective bounds what would be lost. At every moment it is met or missed by what is known then; a moment at which "
    "nothing is told of some partition, and which is not missed anyway, is unknown and counts for neither. Time met is met of met and "
    "missed.",
    "rpo": "What would have been lost, had the source gone at a moment. A partition is as far behind as the best copy of the group; the "
    "group loses the records of all its partitions together, and goes back as long as the partition that is furthest behind.",
    "lag": "How far single copies of partitions were behind, each sample counting once. Lag in ms is how long ago the copy last had all "
    "that its source had; in records it is the offsets it lacked.",
    "worst_copies": "Single copies of partitions: those never seen with everything first, then by their highest lag.",
    "gaps": f"Stretches in which nobody told of a partition for longer than {GAP_FACTOR} of its intervals. That is no lag of 0: nothing "
    "is known. A gap that lasts to the end is a teller that is gone, or a partition that was deleted, or whose link was.",
    "percentiles": "Percentiles are exact: the least measured value that at least 50, 95 or 99 % do not exceed.",
    "never": "Never: samples (for RPO: moments) of copies that were not seen with everything since they are told of. Their ms are not "
    "known and are in no percentile; their records are.",
}

_LABELS: Final = {
    "kind": "Kind",
    "link": "Link",
    "source_cluster": "From cluster",
    "target_cluster": "To cluster",
    "source_region": "From region",
    "target_region": "To region",
    "topic": "Topic",
    "partition": "Partition",
    "target_broker": "Broker",
    "samples": "Samples",
    "copies": "Copies",
    "moments": "Moments",
    "never": "Never",
    "met": "Met",
    "missed": "Missed",
    "unknown": "Unknown",
    "met_share": "Time met",
    "from_ms": "From (UTC)",
    "to_ms": "To (UTC)",
    "silent_ms": "Silent for",
    "interval_ms": "Interval",
    "ended": "Told again",
    "worst_at_ms": "Worst at (UTC)",
    "lag_records_last": "rec. at last",
}
_SPREADS: Final = {"rpo_ms": "ms", "rpo_records": "rec.", "lag_ms": "ms", "lag_records": "rec."}
LABELS: Final = _LABELS | {
    f"{prefix}_{name}": f"{unit} {name}" for prefix, unit in _SPREADS.items() for name in ("p50", "p95", "p99", "max")
}
