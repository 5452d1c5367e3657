"""Which segments of the tier belong to the history of a log.

After an unclean election, the tier may have segments of a leader whose last records are no longer in the log. A segment belongs to the log
if its leader epochs are the log's, each with the same first offset, and it ends within the last of them. The log's epochs begin at its log
start; what a segment has before that is not compared.
"""

from bisect import bisect_right
from collections.abc import Sequence

from isthmus_tier.core.segments import EpochStart, RemoteSegment


def with_records(epochs: Sequence[EpochStart]) -> list[EpochStart]:
    """The epochs that have records: of several that begin at one offset, only the last does."""
    following = [*epochs[1:], None]
    return [one for one, after in zip(epochs, following, strict=False) if after is None or after.offset > one.offset]


def belongs(segment: RemoteSegment, chain: Sequence[EpochStart], log_end: int) -> bool:
    """Whether the segment is part of the log that has these leader epochs, all with records, and ends there."""
    if not chain or segment.end_offset >= log_end:
        return False
    ours = [one for one in with_records(segment.epochs) if one.epoch >= chain[0].epoch]
    if not ours:
        return False
    first, last = ours[0], ours[-1]
    theirs = [one for one in chain if first.epoch <= one.epoch <= last.epoch]
    if [one.epoch for one in ours] != [one.epoch for one in theirs] or ours[1:] != theirs[1:]:
        return False
    starts_within = first.epoch == chain[0].epoch or first.offset >= theirs[0].offset
    return starts_within and segment.end_offset < end_of(last.epoch, chain, log_end)


def end_of(epoch: int, chain: Sequence[EpochStart], log_end: int) -> int:
    """The offset after the last record of the epoch."""
    after = bisect_right(chain, epoch, key=lambda one: one.epoch)
    return chain[after].offset if after < len(chain) else log_end
