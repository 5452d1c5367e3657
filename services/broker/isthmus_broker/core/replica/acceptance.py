"""Validation and placement of appends at the leader of a partition: the one path of every append.

There are four kinds: a producer's batch (Produce), batches that name the batch they follow (AppendAfter), a link's batches from the source
(AppendMirrored), and a coordinator's own. All pass the same steps: check this replica's role, validate the batches, check the producer's
sequence numbers, and place the batches. The caller writes the accepted batches, in order, before any other change to the log; a refused
append changes nothing. A placed batch has its offset, leader epoch and timestamps, and its header determines the new producer state.
"""

from typing import Any, Final, NamedTuple
from uuid import UUID

from isthmus_model.clocks import Now
from isthmus_wire.errors import CorruptBatch, ErrorCode
from isthmus_wire.extensions.append_after import NO_BATCH, Following
from isthmus_wire.extensions.append_mirrored import PartitionAppend
from isthmus_wire.markers import Marker
from isthmus_wire.records import (
    TRANSACTIONAL_BIT,
    BatchHeader,
    batches,
    header_at,
    next_sequence,
    stamp_append_time,
)

from isthmus_broker.core.log.append_check import AppendRules, check_batch, check_framing, is_quick
from isthmus_broker.core.log.batch_opening import ACCEPTED, Opened, must_open, open_batch
from isthmus_broker.core.log.mirrored_check import check_mirrored
from isthmus_broker.core.log.placement import Batch, place
from isthmus_broker.core.log.producer_state import ProducerState, RecentBatch, Refusal
from isthmus_broker.core.log.verification import NOT_VERIFIED
from isthmus_broker.core.replica.log_view import ReplicaLog
from isthmus_broker.core.replica.replica import Replica

ALL_IN_SYNC: Final = -1
_TORN: Final = Refusal(ErrorCode.corrupt_message, "The last batch is incomplete.")


class OpenFirst(Exception):
    """The batch must be opened by these rules before it can be accepted, and not on the event loop."""

    def __init__(self, rules: AppendRules) -> None:
        super().__init__()
        self.rules = rules


class Mirrored(NamedTuple):
    """A link's batches, which keep the source's offsets and epochs."""

    records: memoryview
    restart_at: int | None
    """The offset at which an empty log restarts before the append."""
    log_start: int | None
    """The log start offset after the append, if the append sets one."""


# -- the four kinds ----------------------------------------------------------------------------------------------------------


def accept_produced(
    replica: Replica[Any],
    records: memoryview | None,
    version: int,
    acks: int,
    now: Now,
    opened: Opened | None = None,
    verification: int = NOT_VERIFIED,
) -> Batch | RecentBatch | Refusal:
    """Accept a producer's batch; returns the earlier batch if this one repeats it. Raises OpenFirst.

    `verification` is the number under which the batch's transaction was verified.
    """
    header = check_framing(records, version)
    if isinstance(header, Refusal):
        return header
    refusal = _refuse_writes(replica, acks_all=acks == ALL_IN_SYNC)
    if refusal is not None:
        return refusal
    log, rules = replica.log, replica.append_rules
    assert log is not None
    assert records is not None
    batch: memoryview | bytearray = records[: header.size]
    refusal = check_batch(batch, header, rules, now.wall)
    if refusal is not None:
        return refusal
    if rules.may_open and must_open(header, rules):
        if opened is None:
            if not is_quick(header):
                raise OpenFirst(rules)
            opened = open_batch(batch, header, rules, replica.topic, replica.index)
        if opened.refusal is not None:
            return opened.refusal
    if header.producer_id >= 0:
        verdict: RecentBatch | Refusal | None = log.producers.check(header, verification)
        if verdict is not None:
            return verdict
    if opened is not None and opened.batch is not None:
        batch, header = opened.batch, header_at(opened.batch)
    if rules.append_time:
        stamp_append_time(batch, header, now.wall)
        header = header_at(batch)
    return batch, place(batch, header, log.end_offset, replica.leadership.leader_epoch)


def accept_after(
    replica: Replica[Any], append: Following, now: Now, opened: Opened | None = None
) -> list[Batch] | Refusal:
    """Accept all batches if the log end is the one that the sender expects. Those of a compacted topic were opened before."""
    refusal = _refuse_writes(replica, acks_all=True)
    if refusal is not None:
        return refusal
    log, rules = replica.log, replica.append_rules
    assert log is not None
    refusal = _check_end(log, append)
    if refusal is not None:
        return refusal
    sent = _split(
        memoryview(append.records[0] if append.records else b"")
    )  # records of a decoded request are one piece
    if isinstance(sent, Refusal):
        return sent
    if rules.keys_required and opened is None:
        return Refusal(ErrorCode.request_timed_out, f"Topic {replica.topic} became compacted during the request.")
    if opened is not None and opened.refusal is not None:
        return opened.refusal
    before: BatchHeader | None = None
    for batch, header in sent:
        refusal = (
            check_batch(batch, header, rules, now.wall)
            or _check_stored_unchanged(replica, header, rules)
            or (_check_first(log, header) if before is None else _check_next(before, header))
        )
        if refusal is not None:
            return refusal
        before = header
    return _place_all(replica, log, sent)


def open_produced(records: memoryview, rules: AppendRules, topic: str, index: int) -> Opened:
    """Open the batch that a producer has sent."""
    header = header_at(records)
    return open_batch(records[: header.size], header, rules, topic, index)


def open_following(append: Following, rules: AppendRules, topic: str, index: int) -> Opened:
    """Open every batch; the first refusal counts."""
    sent = _split(memoryview(append.records[0] if append.records else b""))
    opened = () if isinstance(sent, Refusal) else (open_batch(*one, rules, topic, index) for one in sent)
    return next((one for one in opened if one.refusal is not None), ACCEPTED)


def accept_internal(
    replica: Replica[Any], batch: bytearray, verification: int = NOT_VERIFIED, marker: Marker | None = None
) -> Batch | Refusal:
    """Accept a batch that a coordinator of this node has built; as with acks=all, the ISR must have min.insync.replicas.

    `verification` is that of the batch's transaction; `marker` is what the batch contains.
    """
    refusal = _refuse_writes(replica, acks_all=True)
    if refusal is not None:
        return refusal
    header, log = header_at(batch), replica.log
    assert log is not None
    if header.size > log.config.max_message_bytes:
        return Refusal(ErrorCode.message_too_large)
    producers: ProducerState = log.producers
    refusal = producers.check_own(header, verification) if marker is None else producers.check_marker(marker)
    if refusal is not None:
        return refusal
    return batch, place(batch, header, log.end_offset, replica.leadership.leader_epoch)


def accept_mirrored(replica: Replica[Any], link_id: UUID | None, append: PartitionAppend) -> Mirrored | Refusal:
    """Accept a link's batches at the offsets that they have at the source.

    An empty log begins at the source's log start, even if the source has no records: offsets that groups committed there must exist here.
    """
    refusal = _refuse_mirrored(replica, link_id, append)
    if refusal is not None:
        return refusal
    log, records = replica.log, memoryview(append.records or b"")
    assert log is not None
    end = log.end_offset
    begins = append.start_offset > end == log.log_start_offset
    if not records and not begins:
        return Mirrored(records, None, None)
    if append.expected_end_offset != end:
        why = f"The log ends at {end}, not at {append.expected_end_offset}."
        return Refusal(ErrorCode.offset_out_of_range, why)
    # A copy that begins in the middle of a batch contains the whole batch; its log start offset lies inside it.
    first = max(end, min(append.start_offset, _base_offset(records, append.start_offset))) if begins else end
    refusal = check_mirrored(records, first, log.epochs.latest_epoch, replica.leadership.leader_epoch)
    if refusal is not None:
        return refusal
    return Mirrored(records, first if begins else None, append.start_offset if begins else None)


# -- role --------------------------------------------------------------------------------------------------------------------


def _refuse_writes(replica: Replica[Any], *, acks_all: bool) -> Refusal | None:
    error = replica.refuses()
    if error is None and acks_all and replica.leader is not None and not replica.leader.has_enough_in_sync:
        error = ErrorCode.not_enough_replicas
    if error is not None:
        return Refusal(error)
    return Refusal(ErrorCode.policy_violation, replica.read_only_message()) if replica.is_mirror else None


def _refuse_mirrored(replica: Replica[Any], link_id: UUID | None, append: PartitionAppend) -> Refusal | None:
    error = replica.refuses()
    if error is not None:
        return Refusal(error)
    role, epoch = replica.mirror, replica.leadership.leader_epoch
    if role is None or role.link_id != link_id or not role.accepts_copies:
        state = "is not a mirror topic" if role is None else f"is {role.state} under link '{role.link_name}'"
        return Refusal(
            ErrorCode.policy_violation, f"Topic {replica.topic} {state}: it accepts no batches of this link."
        )
    if append.source_leader_epoch > epoch:
        why = f"The source's leader epoch {append.source_leader_epoch} is above the partition's {epoch}; raise that first."
        return Refusal(ErrorCode.fenced_leader_epoch, why)
    if replica.leader is not None and not replica.leader.has_enough_in_sync:
        return Refusal(ErrorCode.not_enough_replicas)
    return None


# -- validation --------------------------------------------------------------------------------------------------------------


def _check_end(log: ReplicaLog, append: Following) -> Refusal | None:
    last = log.last_batch
    if (log.end_offset, NO_BATCH if last is None else last.crc) == (append.after_offset, append.after_crc):
        return None
    why = f"The log ends at {log.end_offset}, not at {append.after_offset} after the named batch."
    return Refusal(ErrorCode.offset_out_of_range, why)


def _split(data: memoryview) -> list[tuple[memoryview, BatchHeader]] | Refusal:
    try:
        sent = [(data[at : at + header.size], header) for at, header in batches(data)]
    except CorruptBatch:
        return _TORN
    return sent if sum(len(batch) for batch, _ in sent) == len(data) else _TORN


def _check_stored_unchanged(replica: Replica[Any], header: BatchHeader, rules: AppendRules) -> Refusal | None:
    """Refuse batches that the topic would change: the sender identifies batches by their checksums."""
    if rules.append_time or (rules.compression is not None and rules.compression != header.compression):
        setting = "message.timestamp.type" if rules.append_time else "compression.type"
        why = f"Topic {replica.topic} has a {setting} that changes batches."
        return Refusal(ErrorCode.policy_violation, why)
    if header.attributes & TRANSACTIONAL_BIT:
        return Refusal(ErrorCode.invalid_record, "Transactional batches are accepted by Produce only.")
    return None


def _check_first(log: ReplicaLog, header: BatchHeader) -> Refusal | None:
    verdict = log.producers.check(header)
    if verdict is None or isinstance(verdict, Refusal):
        return verdict
    return Refusal(ErrorCode.duplicate_sequence_number)


def _check_next(before: BatchHeader, header: BatchHeader) -> Refusal | None:
    expected = (before.producer_id, before.producer_epoch, next_sequence(before.last_sequence, 1))
    if expected == (header.producer_id, header.producer_epoch, header.base_sequence):
        return None
    return Refusal(ErrorCode.out_of_order_sequence_number)


def _base_offset(records: memoryview, default: int) -> int:
    return int.from_bytes(records[:8], signed=True) if records else default


# -- placement ---------------------------------------------------------------------------------------------------------------


def _place_all(replica: Replica[Any], log: ReplicaLog, sent: list[tuple[memoryview, BatchHeader]]) -> list[Batch]:
    placed: list[Batch] = []
    offset = log.end_offset
    for batch, header in sent:
        placed.append((batch, place(batch, header, offset, replica.leadership.leader_epoch)))
        offset = placed[-1][1].last_offset + 1
    return placed
