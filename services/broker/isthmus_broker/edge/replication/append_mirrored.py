"""What the leader of a mirror topic's partition does: take the source's batches, tell how far the copy is, and leave the source behind."""

from uuid import UUID

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.append_mirrored import PartitionAppend
from isthmus_wire.extensions.mirrors import PartitionProgress
from isthmus_wire.records import batches

from isthmus_broker.core.log.mirrored_check import check_mirrored
from isthmus_broker.core.log.producer_state import Refusal
from isthmus_broker.core.replica.mirror_source import UNKNOWN, age
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.storage.log import Log


def append_mirrored(
    partition: Partition, link_id: UUID | None, asked: PartitionAppend, now_ms: MonotonicMs
) -> Refusal | None:
    """Append the source's batches as they are, or say why not; raises DiskFailure. Without batches it hears of the source, and an
    empty log begins where a source begins that has no records: offsets that groups committed there must exist here."""
    log = partition.log
    refusal = _refuses(partition, link_id, asked)
    if refusal is not None:
        return refusal
    assert log is not None
    if asked.records or _begins(log, asked):
        refusal = _append(partition, log, asked, memoryview(asked.records or b""), now_ms)
    if refusal is None:
        partition.source.heard(asked.source_high_watermark, log.end_offset, now_ms)
    return refusal


def _refuses(partition: Partition, link_id: UUID | None, asked: PartitionAppend) -> Refusal | None:
    error = partition.refuses()
    if error is not None:
        return Refusal(error)
    role, epoch = partition.mirror, partition.leadership.leader_epoch
    if role is None or role.link_id != link_id or not role.takes_copies:
        state = "is no mirror topic" if role is None else f"is {role.state} under link '{role.link_name}'"
        return Refusal(
            ErrorCode.policy_violation, f"Topic {partition.topic} {state}, and takes no batches of this link."
        )
    if asked.source_leader_epoch > epoch:
        why = f"The source's leader epoch is {asked.source_leader_epoch}, above the partition's {epoch}; raise that first."
        return Refusal(ErrorCode.fenced_leader_epoch, why)
    if partition.leader is not None and not partition.leader.has_enough_in_sync:
        return Refusal(ErrorCode.not_enough_replicas)
    return None


def _append(
    partition: Partition, log: Log, asked: PartitionAppend, records: memoryview, now_ms: MonotonicMs
) -> Refusal | None:
    end, begins = log.end_offset, _begins(log, asked)
    if asked.expected_end_offset != end:
        why = f"The log ends at {end}, not at {asked.expected_end_offset}."
        return Refusal(ErrorCode.offset_out_of_range, why)
    # A copy that begins in the middle of a batch has the whole batch, and its log starts inside it.
    first = max(end, min(asked.start_offset, _base_offset(records, asked.start_offset))) if begins else end
    refusal = check_mirrored(records, first, log.epochs.latest_epoch, partition.leadership.leader_epoch)
    if refusal is not None:
        return refusal
    if begins:
        log.restart_at(first, now_ms)
    if records:
        log.append_as_given(records, now_ms)
    if begins:
        log.raise_start(min(asked.start_offset, log.end_offset))
    partition.bytes_in += len(records)
    partition.records_in += sum(header.record_count for _, header in batches(records))
    partition.appended(now_ms)
    return None


def _begins(log: Log, asked: PartitionAppend) -> bool:
    return asked.start_offset > log.end_offset == log.log_start_offset


def _base_offset(records: memoryview, otherwise: int) -> int:
    return int.from_bytes(records[:8], signed=True) if records else otherwise


def progress_of(partition: Partition | ErrorCode, index: int, now_ms: MonotonicMs) -> PartitionProgress:
    """How far the copy is, as its leader knows it."""
    error = partition if isinstance(partition, ErrorCode) else partition.refuses()
    if isinstance(partition, ErrorCode) or error is not None or partition.log is None or partition.mirror is None:
        return _no_progress(index, error or ErrorCode.invalid_request)
    log, source = partition.log, partition.source
    return PartitionProgress(
        index=index,
        error_code=ErrorCode.none,
        leader_epoch=partition.leadership.leader_epoch,
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
        log_end_offset=log.end_offset,
        last_epoch=log.epochs.latest_epoch,
        source_high_watermark=source.high_watermark,
        last_heard_lag_ms=age(source.heard_ms, now_ms),
        caught_up_lag_ms=age(source.caught_up_ms, now_ms),
    )


def _no_progress(index: int, error: ErrorCode) -> PartitionProgress:
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
