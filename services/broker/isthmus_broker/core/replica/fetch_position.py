"""Checks the position of a fetch: below the log start, above the log end, after a divergent record, or at a readable offset.

A consumer or follower below the log start, or above the log end, gets OFFSET_OUT_OF_RANGE: a consumer then resets its position, and a
follower looks up the leader's offsets (`ReplicaFollower.handle_offsets`). A follower whose last record diverges gets the epoch and offset
up to which the two logs may agree.
"""

from collections.abc import Sequence
from typing import Any

from isthmus_wire.errors import ErrorCode
from isthmus_wire.fetch import FetchedPartition, FetchPartition

from isthmus_broker.core.replica.log_view import ReplicaLog

NO_REPLICA = -1


def check_position(log: ReplicaLog, part: FetchPartition) -> FetchedPartition | None:
    """The response to a fetch that cannot be read from its offset; None when it can."""
    if part.last_fetched_epoch >= 0:
        epoch, end_offset = log.epochs.end_offset(part.last_fetched_epoch, log.end_offset)
        if end_offset < 0:
            return _out_of_range(part)
        if epoch < part.last_fetched_epoch or end_offset < part.fetch_offset:
            return response(log, part, diverging_epoch=(epoch, end_offset))
    if part.fetch_offset < log.log_start_offset or part.fetch_offset > log.end_offset:
        return _out_of_range(part)
    return None


def _out_of_range(part: FetchPartition) -> FetchedPartition:
    return FetchedPartition(part.partition, ErrorCode.offset_out_of_range.value)


def response(
    log: ReplicaLog,
    part: FetchPartition,
    *,
    aborted: Sequence[tuple[int, int]] | None = None,
    records: Sequence[Any] = (),
    diverging_epoch: tuple[int, int] | None = None,
    preferred: int = NO_REPLICA,
) -> FetchedPartition:
    """A response without an error."""
    return FetchedPartition(
        part.partition,
        0,
        log.high_watermark,
        log.last_stable_offset,
        log.log_start_offset,
        aborted=aborted,
        preferred_read_replica=preferred,
        records=records,
        diverging_epoch=diverging_epoch,
    )
