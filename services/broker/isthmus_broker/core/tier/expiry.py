"""Which segments the leader deletes from the tier: too old, too many, below the log start, or left behind by an interrupted copy."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from isthmus_model.clocks import WallMs
from isthmus_tier.core.lineage import belongs
from isthmus_tier.core.segments import EpochStart, RemoteSegment, State

from isthmus_broker.core.log.retention import SegmentFacts

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
    local: Sequence[SegmentFacts]


class Expiry(NamedTuple):
    """What to do, in this order: raise the log start, then delete."""

    log_start: int
    doomed: Sequence[RemoteSegment]
    reasons: Mapping[str, int]
    """How many segments for each reason."""


def expire(
    segments: Iterable[RemoteSegment], log: LogFacts, copied: int, limits: Limits, now: WallMs, busy: UUID | None = None
) -> Expiry:
    """The segments to delete, of all segments in the order of their start offsets. `busy` is being copied.

    Without a leader epoch nothing is deleted: no segment can be compared with the log.
    """
    if not log.chain:
        return Expiry(log.log_start, [], {})
    listed = list(segments)
    excess = _excess(listed, log, copied, limits.retention_bytes)
    start, doomed, reasons = log.log_start, [], dict[str, int]()
    may_expire = True
    for segment in listed:
        if segment.id == busy:
            may_expire = False
            continue
        reason = _leftover(segment, log, now)
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


def _leftover(segment: RemoteSegment, log: LogFacts, now: WallMs) -> str | None:
    """Why a segment is of no use to the log, whatever the limits are."""
    if segment.state is State.DELETE_STARTED:
        return "its deletion was interrupted"
    is_abandoned = segment.broker_id == log.broker_id or now - segment.changed_ms > ABANDONED_MS
    if segment.state is State.COPY_STARTED and is_abandoned:
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


def _excess(segments: Iterable[RemoteSegment], log: LogFacts, copied: int, retention_bytes: int) -> int:
    """The bytes above retention.bytes. What is both here and in the tier counts once."""
    if retention_bytes < 0:
        return -1
    local = sum(one.size for one in log.local if one.base_offset > copied)
    remote = sum(
        one.size
        for one in segments
        if one.state is State.COPY_FINISHED and belongs(one, log.chain, log.log_end) and one.end_offset >= log.log_start
    )
    return local + remote - retention_bytes
