"""The progress of a mirror topic's partition, as its leader reports it (DescribeMirrorProgress)."""

from typing import Any

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.mirrors import PartitionProgress

from isthmus_broker.core.replica.mirror_source import UNKNOWN, age_ms
from isthmus_broker.core.replica.replica import Replica


def mirror_progress(replica: Replica[Any] | ErrorCode, index: int, now_ms: MonotonicMs) -> PartitionProgress:
    """The offsets of the copy and the link's last report of the source, or the error why this node does not know them."""
    error = replica if isinstance(replica, ErrorCode) else replica.refuses()
    if isinstance(replica, ErrorCode) or error is not None or replica.log is None or replica.mirror is None:
        return _failed(index, error or ErrorCode.invalid_request)
    log, source = replica.log, replica.source
    return PartitionProgress(
        index=index,
        error_code=ErrorCode.none,
        leader_epoch=replica.leadership.leader_epoch,
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
        log_end_offset=log.end_offset,
        last_epoch=log.epochs.latest_epoch,
        source_high_watermark=source.high_watermark,
        last_heard_lag_ms=age_ms(source.reported_ms, now_ms),
        caught_up_lag_ms=age_ms(source.caught_up_ms, now_ms),
    )


def _failed(index: int, error: ErrorCode) -> PartitionProgress:
    return PartitionProgress(
        index=index,
        error_code=error,
        leader_epoch=UNKNOWN,
        log_start_offset=UNKNOWN,
        high_watermark=UNKNOWN,
        log_end_offset=UNKNOWN,
        last_epoch=UNKNOWN,
        source_high_watermark=UNKNOWN,
        last_heard_lag_ms=UNKNOWN,
        caught_up_lag_ms=UNKNOWN,
    )
