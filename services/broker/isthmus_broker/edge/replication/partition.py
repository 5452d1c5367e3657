"""A replica with its log on disk: writes accepted batches, carries out the core's decisions, and counts traffic."""

import logging
from collections.abc import Iterable, Sequence
from typing import Protocol
from uuid import UUID

from isthmus_model.clocks import MonotonicMs, Now
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.append_after import Following
from isthmus_wire.extensions.append_mirrored import PartitionAppend
from isthmus_wire.markers import Marker
from isthmus_wire.produce import ProduceResult
from isthmus_wire.records import batches

from isthmus_broker.core.log.batch_opening import Opened
from isthmus_broker.core.log.placement import Batch
from isthmus_broker.core.log.producer_state import RecentBatch, Refusal
from isthmus_broker.core.log.verification import NOT_VERIFIED
from isthmus_broker.core.replica.acceptance import (
    accept_after,
    accept_internal,
    accept_mirrored,
    accept_produced,
)
from isthmus_broker.core.replica.follower import AppendFetched, RestartAt, Truncate
from isthmus_broker.core.replica.leader import ActiveEpoch, IsrProposal
from isthmus_broker.core.replica.leadership import IsrRules, Leadership
from isthmus_broker.core.replica.replica import AbortTransactions, BeginEpoch, LogChange, Replica
from isthmus_broker.edge.storage.log import Log

logger = logging.getLogger(__name__)


class PartitionEvents(Protocol):
    """Called when a partition changes."""

    def isr_proposed(self, partition: "Partition", proposal: IsrProposal) -> None:
        """The leader proposes this ISR."""
        ...

    def truncated(self, partition: "Partition", end_offset: int) -> None:
        """The follower truncated the log to `end_offset`."""
        ...


class Partition(Replica[Log]):
    """A replica on this node.

    Counters begin when it is created: bytes and records from producers, bytes to consumers and to other replicas.
    """

    __slots__ = ("_events", "bytes_in", "bytes_out", "records_in", "replicated_out")

    def __init__(
        self,
        node_id: int,
        topic: str,
        index: int,
        topic_id: UUID,
        log: Log | None,
        active: ActiveEpoch,
        events: PartitionEvents,
    ) -> None:
        super().__init__(node_id, topic, index, topic_id, log, active, events.isr_proposed)
        self.bytes_in = self.records_in = 0
        self.bytes_out = self.replicated_out = 0
        self._events = events

    def take_leadership(self, leadership: Leadership, rules: IsrRules, backoff_ms: int, now: Now) -> None:
        """Take the role that the metadata log gives this replica; raises DiskFailure."""
        changes = self.assume_leadership(leadership, rules, backoff_ms, now)
        if changes is None:
            return
        for change in changes:
            self.change_log(change, (), now.monotonic)
        self.update_isr_rules(rules, now.monotonic)
        self.wake()

    # -- appends -------------------------------------------------------------------------------------------------------------

    def produce(
        self,
        records: memoryview | None,
        version: int,
        acks: int,
        now: Now,
        opened: Opened | None = None,
        verification: int = NOT_VERIFIED,
    ) -> ProduceResult:
        """Append a producer's batch; raises DiskFailure, and OpenFirst for one that must be opened elsewhere before."""
        accepted = accept_produced(self, records, version, acks, now, opened, verification)
        log = self.log
        if isinstance(accepted, Refusal):
            return self._refused(accepted)
        assert log is not None
        if isinstance(accepted, RecentBatch):
            return ProduceResult(self.index, 0, accepted.base_offset, accepted.timestamp, log.log_start_offset)
        batch, header = accepted
        log.append(batch, header, now.monotonic)
        self.bytes_in += len(batch)
        self.records_in += header.record_count
        self.appended(now.monotonic)
        append_time = now.wall if self.append_rules.append_time else -1
        return ProduceResult(self.index, 0, header.base_offset, append_time, log.log_start_offset)

    def _refused(self, refusal: Refusal) -> ProduceResult:
        start = self.log.log_start_offset if refusal.with_log_start and self.log is not None else -1
        moved = refusal.error is ErrorCode.not_leader_or_follower
        return ProduceResult(
            self.index,
            refusal.error.value,
            log_start_offset=start,
            record_errors=refusal.record_errors,
            error_message=refusal.message,
            current_leader=self.current_leader if moved else None,
        )

    def append_after(self, append: Following, now: Now, opened: Opened | None = None) -> Refusal | None:
        """Append batches that name the batch they follow, all or none; raises DiskFailure."""
        accepted = accept_after(self, append, now, opened)
        if isinstance(accepted, Refusal):
            return accepted
        if accepted:
            self._write(accepted, now.monotonic)
            self.bytes_in += sum(len(batch) for batch, _ in accepted)
            self.records_in += sum(header.record_count for _, header in accepted)
            self.appended(now.monotonic)
        return None

    def append_mirrored(self, link_id: UUID | None, append: PartitionAppend, now_ms: MonotonicMs) -> Refusal | None:
        """Append a link's batches unchanged, all or none, and record what the link reports of the source; raises DiskFailure."""
        accepted = accept_mirrored(self, link_id, append)
        if isinstance(accepted, Refusal):
            return accepted
        log, records = self.log, accepted.records
        assert log is not None
        if accepted.restart_at is not None:
            log.restart_at(accepted.restart_at, now_ms)
        if records:
            log.append_as_given(records, now_ms)
            self.bytes_in += len(records)
            self.records_in += sum(header.record_count for _, header in batches(records))
        if accepted.log_start is not None:
            log.raise_start(min(accepted.log_start, log.end_offset))
        if records or accepted.restart_at is not None:
            self.appended(now_ms)
        self.source.record_report(append.source_high_watermark, log.end_offset, now_ms)
        return None

    def append(
        self, batch: bytearray, now_ms: MonotonicMs, *, verification: int = NOT_VERIFIED, marker: Marker | None = None
    ) -> int | Refusal:
        """Append a batch that this node has built, such as a coordinator's; returns the last offset. Raises DiskFailure.

        `verification` is that of the batch's transaction; `marker` is what the batch contains.
        """
        accepted = accept_internal(self, batch, verification, marker)
        if isinstance(accepted, Refusal):
            return accepted
        self._write((accepted,), now_ms)
        self.appended(now_ms)
        return accepted[1].last_offset

    def _write(self, accepted: Iterable[Batch], now_ms: MonotonicMs) -> None:
        assert self.log is not None
        for batch, header in accepted:
            self.log.append(batch, header, now_ms)

    # -- decisions of the core -----------------------------------------------------------------------------------------------

    def change_log(self, change: LogChange, records: Sequence[memoryview | bytes], now_ms: MonotonicMs) -> None:
        """Make a change to the log; raises DiskFailure, and CorruptBatch if fetched records are damaged."""
        log = self.log
        assert log is not None
        match change:
            case AppendFetched():
                for chunk in records:
                    log.append_as_follower(chunk, self.leadership.leader_epoch, now_ms)
                self._update_watermarks(log, change)
            case Truncate(end_offset):
                self._log_truncation(log, end_offset)
                log.truncate_to(end_offset, now_ms)
                self._events.truncated(self, end_offset)
            case RestartAt(offset):
                log.restart_at(offset, now_ms)
            case BeginEpoch(epoch):
                log.begin_epoch(epoch)
            case AbortTransactions(markers):
                self._write(markers, now_ms)
                logger.warning("%s-%d: aborted %d transactions of the source", self.topic, self.index, len(markers))

    def _log_truncation(self, log: Log, end_offset: int) -> None:
        """Log a truncation: a warning below the high watermark, where only an unclean election loses records.

        After a start the high watermark may be too old to show a loss.
        """
        is_loss = end_offset < log.high_watermark
        logger.log(
            logging.WARNING if is_loss else logging.INFO,
            "%s-%d: truncating to %d: diverged from the leader; the log end offset is %d%s",
            self.topic, self.index, end_offset, log.end_offset, f", the high watermark is {log.high_watermark}" if is_loss else "",
        )  # fmt: skip

    def _update_watermarks(self, log: Log, fetched: AppendFetched) -> None:
        log_start, high_watermark = fetched.log_start(log), fetched.high_watermark(log)
        moved = high_watermark != log.high_watermark
        log.high_watermark = high_watermark
        if log_start > log.log_start_offset:
            log.raise_start(log_start)
        if moved:
            self.wake()
