"""Checks whether a mirror topic may be promoted: it has every record that the source has committed, and this information is not stale."""

from __future__ import annotations

from collections.abc import Mapping

from isthmus_model.freshness import STALE_MS, is_stale
from isthmus_model.lag import mirror_lag, number_or_none, partition_lag
from isthmus_wire.extensions.mirrors import PartitionLag, PartitionProgress

TopicProgress = Mapping[int, PartitionProgress | None]
"""By partition; None where the leader did not respond."""


def lags_of(progress: TopicProgress) -> tuple[PartitionLag, ...]:
    """The lag of each partition."""
    return tuple(partition_lag(index, of_partition) for index, of_partition in sorted(progress.items()))


def why_not_caught_up(progress: TopicProgress) -> str | None:
    """Return what prevents the promotion; None if the topic has caught up with its source."""
    for index, of_partition in sorted(progress.items()):
        if of_partition is None:
            return f"the leader of partition {index} does not respond"
        lag = mirror_lag(of_partition)
        if lag is None or is_stale(number_or_none(of_partition.last_heard_lag_ms)):
            return f"the source position of partition {index} is stale (older than {STALE_MS // 1000} s)"
        if lag > 0:
            return f"partition {index} is {lag} records behind its source"
    return None
