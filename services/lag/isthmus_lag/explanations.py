"""Definitions and labels of the numbers in the report."""

from typing import Final

from isthmus_lag.jobs.validity import GAP_FACTOR

DEFINITIONS: Final = {
    "objectives": "An objective bounds the loss. Each moment is met, missed or unknown. It is unknown if a partition has no valid sample "
    "and the other partitions do not miss the objective anyway; unknown moments count neither as met nor as missed. "
    "Time met is met / (met + missed).",
    "rpo": "The loss if the source had failed at a moment. A partition's lag is that of the group's most recent copy. The group loses the "
    "sum of its partitions' records, and the time of its partition with the highest lag. Partitions without valid samples are unknown "
    "and not included; see the gaps.",
    "lag": "Lag of single copies of partitions; each sample counts once. Lag in ms is the time since the copy was last caught up with its "
    "source; lag in records is the number of missing offsets.",
    "worst_copies": "Single copies of partitions: those that never caught up first, then by their highest lag.",
    "gaps": f"Times without samples of a partition, longer than {GAP_FACTOR} of its intervals. The lag in a gap is unknown, not 0. A gap "
    "that lasts to the end means that the worker or leader stopped reporting, or that the partition or its link was deleted.",
    "percentiles": "Percentiles are exact: the lowest measured value that at least 50, 95 or 99 % of the values do not exceed.",
    "never": "Never: samples (for RPO: moments) of copies that have not caught up since their first sample. Their lag in ms is unknown and "
    "in no percentile; their lag in records is known and included.",
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
    "silent_ms": "Without samples",
    "interval_ms": "Interval",
    "ended": "Ended",
    "worst_at_ms": "Worst at (UTC)",
    "lag_records_last": "rec. at last",
}
_SPREADS: Final = {"rpo_ms": "ms", "rpo_records": "rec.", "lag_ms": "ms", "lag_records": "rec."}
LABELS: Final = _LABELS | {
    f"{prefix}_{name}": f"{unit} {name}" for prefix, unit in _SPREADS.items() for name in ("p50", "p95", "p99", "max")
}
