"""Whether a mirror topic may be promoted: nothing that the source has committed may be missing, by news that is fresh."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from isthmus_wire.extensions.mirrors import PartitionLag, PartitionProgress

FRESH_MS: Final = 10_000
"""What a worker told of the source longer ago than this counts as not told."""
UNKNOWN: Final = -1
Progress = Mapping[int, PartitionProgress | None]
"""By partition; None where no leader could be asked."""


def lags_of(progress: Progress) -> tuple[PartitionLag, ...]:
    """How many records each partition is behind, and up to which offset it has the source's."""
    return tuple(
        PartitionLag(
            index=index,
            lag=UNKNOWN if told is None else _lag(told),
            last_source_fetch_offset=UNKNOWN if told is None else told.log_end_offset,
        )
        for index, told in sorted(progress.items())
    )


def why_not_level(progress: Progress) -> str | None:
    """What keeps the topic from being promoted; None when it is level with its source."""
    for index, told in sorted(progress.items()):
        if told is None:
            return f"the leader of partition {index} cannot be asked how far it is"
        if told.source_high_watermark < 0 or not 0 <= told.last_heard_lag_ms <= FRESH_MS:
            return f"no worker has told of the source of partition {index} in the last {FRESH_MS // 1000} s"
        if _lag(told) > 0:
            return f"partition {index} is {_lag(told)} records behind its source"
    return None


def _lag(told: PartitionProgress) -> int:
    if told.source_high_watermark < 0:
        return UNKNOWN
    return max(told.source_high_watermark - told.high_watermark, 0)
