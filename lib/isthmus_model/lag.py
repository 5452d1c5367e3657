"""Lag: how much of its source a copy is missing. The one definition for metrics, REST, command line, console and the promotion of mirror
topics.

The source's end is its high watermark, or the last stable offset where only committed transactions are copied: records beyond it may still
vanish there. The copy's end is the offset up to which it holds the source's records for good; for a mirror topic that is the destination's
high watermark. None is unknown, which is neither zero nor caught up.
"""

from typing import Final

from isthmus_wire.extensions.mirrors import PartitionLag, PartitionProgress

UNKNOWN: Final = -1
"""How requests, responses and samples write None."""
BEHIND_MS: Final = 10_000
"""A copy that was caught up longer ago is behind."""


def number_or_none(number: int) -> int | None:
    """A number of a response or a sample, where -1 is unknown."""
    return None if number < 0 else number


def lag_records(source_end: int, copied_to: int) -> int | None:
    """Offsets that the copy is missing."""
    return None if source_end < 0 or copied_to < 0 else max(source_end - copied_to, 0)


def mirror_lag(progress: PartitionProgress | None) -> int | None:
    """Offsets that one partition of a mirror topic is missing, by the progress that its leader reports; None if it did not respond."""
    return None if progress is None else lag_records(progress.source_high_watermark, progress.high_watermark)


def partition_lag(index: int, progress: PartitionProgress | None) -> PartitionLag:
    """The same as a response has it."""
    lag = mirror_lag(progress)
    fetched = UNKNOWN if progress is None else progress.log_end_offset
    return PartitionLag(index=index, lag=UNKNOWN if lag is None else lag, last_source_fetch_offset=fetched)


def is_behind(lag_ms: int | None, records: int | None) -> bool:
    """Whether a copy is known to be behind: last caught up too long ago, or never and missing records."""
    return bool(records) if lag_ms is None else lag_ms > BEHIND_MS
