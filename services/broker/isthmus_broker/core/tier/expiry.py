"""Which segments the leader deletes from the tier: too old, too many, below the log start, or left behind by an interrupted copy."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from isthmus_model.clocks import WallMs
from isthmus_tier.core.lineage import belongs
from isthmus_tier.core.segments import EpochStart, RemoteSegment, State

ABANDONED_MS: Final = 3_600_000
"""After this time another broker, which has lost the leadership, is not expected to complete a copy any more."""


class Limits(NamedTuple):
    """The topic's retention; below zero means unlimited."""

    retention_ms: int
    retention_bytes: int


KEEP_ALL: Final = Limits(-1, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """The properties of the leader's log that expiry needs."""

    broker_id: int
    """The leader."""
    chain: Sequence[EpochStart]
    """The leader epochs that have records."""
    log_start: int
    log_end: int
    only_local: int
    """The bytes of the segments that are not in the tier."""


class Expiry(NamedTuple):
    """What to do, in this order: raise the log start, then delete."""

    log_start: int
    doomed: Sequence[RemoteSegment]
    reasons: Mapping[str, int]
    """How many segments for each reason."""


def expire(segments: Iterable[RemoteSegment], log: LogFacts, limits: Limits, now: WallMs) -> Expiry:
    """The segments to delete, of all segments in the order of their start offsets.

    A segment that another broker may still be copying is kept: objects that arrive after the deletion would never be deleted. If the log
    has no leader epoch, nothing is deleted, because no segment can be compared with it.
    """
    if not log.chain:
        return Expiry(log.log_start, [], {})
    listed = [one for one in segments if not _is_being_copied(one, log, now)]
    excess = _excess(listed, log, limits.retention_bytes)
    start, doomed, reasons = log.log_start, [], dict[str, int]()
    may_expire = True
    for segment in listed:
        reason = _leftover(segment, log)
        if reason is None and may_expire and belongs(segment, log.chain, log.log_end):
            reason = _expired(segment, limits, excess, now)
            may_expire = reason is not None
            if reason is not None:
                excess -= segment.size
                start = max(start, segment.end_offset + 1)
        if reason is not None:
            doomed.append(segment)
            reasons[reason] = reasons.get(reason, 0) + 1
    return Expiry(start, doomed, reasons)


def _is_being_copied(segment: RemoteSegment, log: LogFacts, now: WallMs) -> bool:
    """Whether a deposed leader may be at it. This broker is not: it copies when it has deleted."""
    is_ours = segment.broker_id == log.broker_id
    return segment.state is State.COPY_STARTED and not is_ours and now - segment.changed_ms <= ABANDONED_MS


def _leftover(segment: RemoteSegment, log: LogFacts) -> str | None:
    """Why a segment is of no use to the log, whatever the limits are."""
    if segment.state is State.DELETE_STARTED:
        return "its deletion was interrupted"
    if segment.state is State.COPY_STARTED:
        return "its copy was interrupted"
    if segment.end_offset < log.log_start:
        return "below the log start offset"
    if all(one.epoch < log.chain[0].epoch for one in segment.epochs):
        return "of leader epochs that ended below the log start offset"
    return None


def _expired(segment: RemoteSegment, limits: Limits, excess: int, now: WallMs) -> str | None:
    if 0 <= limits.retention_ms < now - segment.largest_timestamp:
        return f"older than retention.ms {limits.retention_ms}"
    if excess >= segment.size:
        return f"above retention.bytes {limits.retention_bytes}"
    return None


def _excess(segments: Iterable[RemoteSegment], log: LogFacts, retention_bytes: int) -> int:
    """The bytes above retention.bytes. What is both here and in the tier counts once."""
    if retention_bytes < 0:
        return -1
    remote = sum(
        one.size
        for one in segments
        if one.state is State.COPY_FINISHED and belongs(one, log.chain, log.log_end) and one.end_offset >= log.log_start
    )
    return log.only_local + remote - retention_bytes
