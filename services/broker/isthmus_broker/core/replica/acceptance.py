"""What a leader does with batches that name the batch they follow: take all of them behind it, or none."""

from typing import Final

from isthmus_model.clocks import Now, WallMs
from isthmus_wire.errors import CorruptBatch, ErrorCode
from isthmus_wire.extensions.append_after import NO_BATCH, Following
from isthmus_wire.records import TRANSACTIONAL_BIT, BatchHeader, batches, next_sequence

from isthmus_broker.core.log.append_check import AppendRules, check_batch
from isthmus_broker.core.log.producer_state import Refusal
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.storage.log import Log

_TORN: Final = Refusal(ErrorCode.corrupt_message, "The batches end in the middle of one.")
Batch = tuple[memoryview, BatchHeader]


def append_after(partition: Partition, asked: Following, now: Now) -> Refusal | None:
    """Append what a client sent, or say why not; raises DiskFailure."""
    refusal = _refuses(partition)
    if refusal is not None:
        return refusal
    log = partition.log
    assert log is not None
    refusal = _check_end(log, asked)
    if refusal is not None:
        return refusal
    found = _split(memoryview(asked.records[0] if asked.records else b""))  # one piece, as it was received
    if isinstance(found, Refusal):
        return found
    refusal = _check_batches(partition, log, found, now.wall)
    if refusal is not None or not found:
        return refusal
    for batch, header in found:
        log.append_as_leader(batch, header, partition.leadership.leader_epoch, now.monotonic)
        partition.bytes_in += len(batch)
        partition.records_in += header.record_count
    partition.appended(now.monotonic)
    return None


def _refuses(partition: Partition) -> Refusal | None:
    error = partition.refuses()
    if error is None and partition.leader is not None and not partition.leader.has_enough_in_sync:
        error = ErrorCode.not_enough_replicas
    if error is not None:
        return Refusal(error)
    return Refusal(ErrorCode.policy_violation, partition.why_copied()) if partition.is_copied else None


def _check_end(log: Log, asked: Following) -> Refusal | None:
    last = log.last_batch
    if (log.end_offset, NO_BATCH if last is None else last.crc) == (asked.after_offset, asked.after_crc):
        return None
    why = f"The log ends at {log.end_offset}, not at {asked.after_offset} behind the batch that was named."
    return Refusal(ErrorCode.offset_out_of_range, why)


def _split(data: memoryview) -> list[Batch] | Refusal:
    try:
        found = [(data[at : at + header.size], header) for at, header in batches(data)]
    except CorruptBatch:
        return _TORN
    return found if sum(len(batch) for batch, _ in found) == len(data) else _TORN


def _check_batches(partition: Partition, log: Log, found: list[Batch], now_ms: WallMs) -> Refusal | None:
    """Each as Produce would look at it, and all as one producer's sequence, the first of which the log goes on with."""
    rules = partition.append_rules(log.config)
    before: BatchHeader | None = None
    for batch, header in found:
        refusal = (
            check_batch(batch, header, rules, now_ms)
            or partition.check_keys(batch, header, rules)
            or _check_kept(partition, header, rules)
            or (_check_first(log, header) if before is None else _check_next(before, header))
        )
        if refusal is not None:
            return refusal
        before = header
    return None


def _check_kept(partition: Partition, header: BatchHeader, rules: AppendRules) -> Refusal | None:
    """Who names batches by their checksums needs them stored as they are."""
    if rules.append_time or (rules.compression is not None and rules.compression != header.compression):
        settings = "message.timestamp.type" if rules.append_time else "compression.type"
        return Refusal(
            ErrorCode.policy_violation, f"Topic {partition.topic} has {settings} set so that batches change."
        )
    if header.attributes & TRANSACTIONAL_BIT:
        return Refusal(ErrorCode.invalid_record, "Batches of transactions come by Produce.")
    return None


def _check_first(log: Log, header: BatchHeader) -> Refusal | None:
    verdict = log.producers.check(header)
    if verdict is None or isinstance(verdict, Refusal):
        return verdict
    return Refusal(ErrorCode.duplicate_sequence_number)


def _check_next(before: BatchHeader, header: BatchHeader) -> Refusal | None:
    expected = (before.producer_id, before.producer_epoch, next_sequence(before.last_sequence, 1))
    if expected == (header.producer_id, header.producer_epoch, header.base_sequence):
        return None
    return Refusal(ErrorCode.out_of_order_sequence_number)
