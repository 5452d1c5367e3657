"""One partition as this node holds it: its log, its part as leader or follower, and who waits for its next records."""

import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol
from uuid import UUID

from isthmus_model.clocks import MonotonicMs, Now
from isthmus_wire.compression import Compression
from isthmus_wire.errors import CorruptBatch, ErrorCode
from isthmus_wire.produce import ProduceResult
from isthmus_wire.records import BatchHeader, header_at, iterate_records, recompressed, stamp_append_time

from isthmus_broker.core.config.topic_config import TopicConfig
from isthmus_broker.core.log.append_check import AppendRules, check_batch, check_framing
from isthmus_broker.core.log.producer_state import Refusal, Remembered
from isthmus_broker.core.replica.follower import Append, ReplicaFollower, RestartAt, Step, Truncate
from isthmus_broker.core.replica.leader import ActiveEpoch, IsrProposal, ReplicaLeader
from isthmus_broker.core.replica.leadership import NOBODY, IsrRules, Leadership
from isthmus_broker.core.replica.mirror_source import MirrorRole, SourceProgress
from isthmus_broker.edge.replication.open_transactions import abort_open_transactions
from isthmus_broker.edge.storage.log import Log

logger = logging.getLogger(__name__)

ALL_IN_SYNC: Final = -1
NO_EPOCH: Final = -1
NO_LEADER: Final = -1


class PartitionEvents(Protocol):
    """Is informed of what happens to a partition."""

    def isr_proposed(self, partition: "Partition", proposal: IsrProposal) -> None:
        """Its leader wants this ISR."""
        ...

    def truncated(self, partition: "Partition", end_offset: int) -> None:
        """Its follower truncated the log to `end_offset`."""
        ...


class Partition:
    """A replica on this node: leader, follower, or neither. `log` is None while its directory is offline.

    It counts what came and went since it was made: bytes and records of producers, bytes to consumers and to other replicas.
    """

    __slots__ = (
        "_active",
        "_append_watchers",
        "_events",
        "_node_id",
        "_rules",
        "_watchers",
        "bytes_in",
        "bytes_out",
        "follower",
        "index",
        "leader",
        "leadership",
        "log",
        "mirror",
        "records_in",
        "replicated_out",
        "source",
        "topic",
        "topic_id",
    )

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
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.leadership = NOBODY
        self.log = log
        self.bytes_in = self.records_in = 0
        self.bytes_out = self.replicated_out = 0
        self.mirror: MirrorRole | None = None
        self.source = SourceProgress()
        self.leader: ReplicaLeader | None = None
        self.follower: ReplicaFollower | None = None
        self._events = events
        self._active = active
        self._node_id = node_id
        self._rules: tuple[TopicConfig, AppendRules] | None = None
        self._watchers: dict[Callable[[], None], None] = {}  # in the order of their coming
        self._append_watchers: dict[Callable[[], None], None] = {}

    # -- leadership ----------------------------------------------------------------------------------------------------------

    @property
    def is_led_here(self) -> bool:
        """Whether this node takes its writes."""
        return self.leadership.leader == self._node_id

    @property
    def leader_now(self) -> tuple[int, int]:
        """Whom the metadata log says to ask, and since which epoch."""
        return self.leadership.leader, self.leadership.leader_epoch

    def refuses(self, current_leader_epoch: int = NO_EPOCH, *, leader_only: bool = True) -> ErrorCode | None:
        """Why a request cannot be served here, if it cannot; most are for the leader alone."""
        if self.log is None:
            return ErrorCode.kafka_storage_error
        if current_leader_epoch != NO_EPOCH:
            if current_leader_epoch < self.leadership.leader_epoch:
                return ErrorCode.fenced_leader_epoch
            if current_leader_epoch > self.leadership.leader_epoch:
                return ErrorCode.unknown_leader_epoch
        return None if not leader_only or self.is_led_here else ErrorCode.not_leader_or_follower

    def refuses_replica(self, replica_id: int, broker_epoch: int, current_leader_epoch: int) -> ErrorCode | None:
        """Why another replica's fetch cannot be served here, if it cannot."""
        error = self.refuses(current_leader_epoch)
        if error is not None or self.leader is None:
            return error or ErrorCode.not_leader_or_follower
        return self.leader.refuses(replica_id, broker_epoch, with_leader_epoch=current_leader_epoch != NO_EPOCH)

    def take_leadership(self, leadership: Leadership, rules: IsrRules, backoff_ms: int, now: Now) -> None:
        """Be what the metadata log says now. News that an answer of the controller brought before changes nothing."""
        epoch, known = leadership.leader_epoch, self.leadership
        if (epoch, leadership.partition_epoch) < (known.leader_epoch, known.partition_epoch):
            return
        begins = epoch != known.leader_epoch or leadership.leader != known.leader
        self.leadership = leadership
        if self.log is None:
            self.leader = self.follower = None
        elif self.is_led_here:
            self._lead(self.log, leadership, rules, now, begins=begins)
        elif begins:
            self._follow(self.log, leadership, backoff_ms, now.monotonic)
        self.wake()

    def _lead(self, log: Log, leadership: Leadership, rules: IsrRules, now: Now, *, begins: bool) -> None:
        """A leader notes where its epoch begins before the first record: readers and followers ask for it."""
        self.follower = None
        if begins or self.leader is None:
            if not self.is_copied:
                log.begin_epoch(leadership.leader_epoch)
            before, end = self.leader, log.end_offset
            self.leader = ReplicaLeader(self._node_id, leadership, rules, self._active, end, now.monotonic, before)
            self._leave_source(log, now)
        else:
            self.leader.take(leadership)
        self.take_rules(rules, now.monotonic)

    def _leave_source(self, log: Log, now: Now) -> None:
        """What was heard of a source is a former leader's news; what a source that was left has open is ended."""
        self.source = SourceProgress()
        stop = None if self.mirror is None else self.mirror.stop
        if stop is not None:
            aborted = abort_open_transactions(log, self.index, stop, self.leadership.leader_epoch, now)
            if aborted:
                told = "%s-%d: %d transactions left open by the source are aborted"
                logger.warning(told, self.topic, self.index, aborted)

    @property
    def is_copied(self) -> bool:
        """Whether this is a partition of a mirror topic, whose log is the source's, and no client's to change."""
        return self.mirror is not None and not self.mirror.is_stopped

    def why_copied(self) -> str:
        """What to tell a client that wants to change it."""
        assert self.mirror is not None
        return f"Topic {self.topic} is a mirror topic of link '{self.mirror.link_name}': it is read-only until it is promoted."

    def take_rules(self, rules: IsrRules, now_ms: MonotonicMs) -> None:
        """Decide by these from now on who is in sync, if this node leads."""
        if self.leader is not None:
            self.leader.rules = rules
            self.advance(now_ms)
            self.propose(now_ms)

    def _follow(self, log: Log, leadership: Leadership, backoff_ms: int, now_ms: MonotonicMs) -> None:
        """Follow whoever leads: who led before cuts its log as the new leader's answers say."""
        self.leader = self.follower = None
        if leadership.leader != NO_LEADER:
            self.follower = ReplicaFollower(leadership.leader, leadership.leader_epoch, backoff_ms)
            self.follow(self.follower.begin(log), (), now_ms)

    def leave(self) -> None:
        """The replica or its log is gone from here."""
        self.leader = self.follower = None
        self.leadership = self.leadership._replace(leader=NO_LEADER)
        self.wake()

    # -- appending -----------------------------------------------------------------------------------------------------------

    def produce(self, records: memoryview | None, version: int, acks: int, now: Now) -> ProduceResult:
        """Take a client's batch; raises DiskFailure."""
        header = check_framing(records, version)
        if isinstance(header, Refusal):
            return self._refused(header)
        error = self.refuses()
        if error is None and acks == ALL_IN_SYNC and self.leader is not None and not self.leader.has_enough_in_sync:
            error = ErrorCode.not_enough_replicas
        if error is None and self.is_copied:
            return self._refused(Refusal(ErrorCode.policy_violation, self.why_copied()))
        if error is not None:
            moved = error is ErrorCode.not_leader_or_follower
            return ProduceResult(self.index, error.value, current_leader=self.leader_now if moved else None)
        assert self.log is not None
        assert records is not None
        batch: memoryview | bytearray = records[: header.size]
        rules = self.append_rules(self.log.config)
        refusal = check_batch(batch, header, rules, now.wall) or self.check_keys(batch, header, rules)
        if refusal is not None:
            return self._refused(refusal)
        if header.producer_id >= 0:
            verdict = self.log.producers.check(header)
            if isinstance(verdict, Refusal):
                return self._refused(verdict)
            if verdict is not None:
                return self._repeated(verdict)
        if rules.compression is not None and rules.compression != header.compression:
            batch = recompressed(batch, header, rules.compression)
            header = header_at(batch)
        if rules.append_time:
            stamp_append_time(batch, header, now.wall)
            header = header_at(batch)
        base_offset = self.log.append_as_leader(batch, header, self.leadership.leader_epoch, now.monotonic)
        self.bytes_in += len(batch)
        self.records_in += header.record_count
        self.appended(now.monotonic)
        append_time = now.wall if rules.append_time else -1
        return ProduceResult(self.index, 0, base_offset, append_time, self.log.log_start_offset)

    def append(self, batch: bytearray, now_ms: MonotonicMs) -> int:
        """Append a batch of this node's own, such as a coordinator's; returns the last offset."""
        assert self.log is not None
        self.log.append_as_leader(batch, header_at(batch), self.leadership.leader_epoch, now_ms)
        self.appended(now_ms)
        return self.log.end_offset - 1

    def appended(self, now_ms: MonotonicMs) -> None:
        """The log has grown: let followers fetch, and see what is committed by it."""
        if self._append_watchers:
            for wake in list(self._append_watchers):
                wake()
        self.advance(now_ms)

    def advance(self, now_ms: MonotonicMs) -> None:
        """Move the high watermark to what every in-sync replica has, and wake who waited for it."""
        log, leader = self.log, self.leader
        assert log is not None
        if leader is None:
            return
        high_watermark = leader.high_watermark(log, now_ms)
        if high_watermark != log.high_watermark:
            log.high_watermark = high_watermark
            if self._watchers:
                self.wake()

    @property
    def has_uncommitted(self) -> bool:
        """Whether the log ends above the high watermark."""
        return self.log is not None and self.log.high_watermark < self.log.end_offset

    def append_rules(self, config: TopicConfig) -> AppendRules:
        """What its topic demands of clients' batches."""
        if self._rules is None or self._rules[0] is not config:
            kept = config.compression_type in ("producer", "uncompressed")
            codec = None if kept else Compression[config.compression_type.upper()].value
            if config.compression_type == "uncompressed":
                codec = Compression.NONE.value
            rules = AppendRules(
                max_message_bytes=config.max_message_bytes,
                segment_bytes=config.segment_size,
                timestamp_before_max_ms=config.message_timestamp_before_max_ms,
                timestamp_after_max_ms=config.message_timestamp_after_max_ms,
                append_time=config.message_timestamp_type == "LogAppendTime",
                compression=codec,
                keys_required=config.compacts,
                batch_bytes_max=min(config.max_message_bytes, config.segment_size),
            )
            self._rules = (config, rules)
        return self._rules[1]

    def check_keys(self, batch: memoryview | bytearray, header: BatchHeader, rules: AppendRules) -> Refusal | None:
        """Records of a compacted topic need keys: the one case in which a produced batch is opened."""
        if not rules.keys_required:
            return None
        try:
            missing = [number for number, record in enumerate(iterate_records(batch)) if record.key is None]
        except CorruptBatch:
            return Refusal(ErrorCode.corrupt_message)
        if not missing:
            return None
        why = f"Compacted topic cannot accept message without key in topic partition {self.topic}-{self.index}"
        shown = ", ".join(f"RecordError(batchIndex={number}, message='{why}')" for number in missing[:_ERRORS_SHOWN])
        message = (
            f"One or more records have been rejected due to {len(missing)} record errors in total, "
            f"and only showing the first three errors at most: [{shown}]"
        )
        return Refusal(ErrorCode.invalid_record, message, tuple((n, why) for n in missing), tells_start=True)

    def _refused(self, refusal: Refusal) -> ProduceResult:
        start = self.log.log_start_offset if refusal.tells_start and self.log is not None else -1
        return ProduceResult(
            self.index,
            refusal.error.value,
            log_start_offset=start,
            record_errors=refusal.record_errors,
            error_message=refusal.message,
        )

    def _repeated(self, batch: Remembered) -> ProduceResult:
        assert self.log is not None
        return ProduceResult(self.index, 0, batch.base_offset, batch.timestamp, self.log.log_start_offset)

    # -- leading -------------------------------------------------------------------------------------------------------------

    def replica_fetched(
        self, replica_id: int, broker_epoch: int, offset: int, log_start: int, now_ms: MonotonicMs
    ) -> None:
        """A follower, whose fetch was not refused, has everything below `offset`."""
        log, leader = self.log, self.leader
        assert log is not None
        assert leader is not None
        progress = leader.progress[replica_id]
        log_start_before = progress.log_start
        high_watermark = leader.fetched(replica_id, broker_epoch, offset, log_start, log, now_ms)
        if high_watermark != log.high_watermark:
            self.advance(now_ms)
        elif log_start_before != log_start:
            self.wake()
        if replica_id not in leader.leadership.isr:
            self.propose(now_ms)

    def owes_news(self, replica_id: int) -> bool:
        """Whether this node leads, and the replica was not told all about the watermarks."""
        return self.leader is not None and self.log is not None and self.leader.owes_news(replica_id, self.log)

    def told(self, replica_id: int) -> None:
        """An answer with the watermarks goes to the replica."""
        if self.leader is not None and self.log is not None:
            self.leader.told(replica_id, self.log)

    def is_level_with(self, replica_id: int) -> bool:
        """Whether this node leads, and the replica has and knows all there is."""
        return self.leader is not None and self.log is not None and self.leader.is_level_with(replica_id, self.log)

    def propose(self, now_ms: MonotonicMs) -> None:
        """Ask the controller for another ISR if it should be another one."""
        if (
            self.leader is None
            or self.log is None
            or (len(self.leadership.replicas) == 1 and not self.leadership.recovering)
        ):
            return
        proposal = self.leader.propose(self.log, now_ms)
        if proposal is not None:
            self._events.isr_proposed(self, proposal)

    def isr_decided(self, leader: ReplicaLeader, leadership: Leadership, now_ms: MonotonicMs) -> None:
        """The controller granted what this leader proposed."""
        if self.leader is leader and leader.take(leadership):
            self.leadership = leadership
            self.advance(now_ms)
            self.propose(now_ms)
            self.wake()

    # -- following -----------------------------------------------------------------------------------------------------------

    def follow(self, step: Step, records: Sequence[memoryview | bytes], now_ms: MonotonicMs) -> None:
        """Do what the follower decided; raises DiskFailure, and CorruptBatch for records that cannot be taken."""
        log = self.log
        assert log is not None
        match step:
            case Append():
                for chunk in records:
                    log.append_as_follower(chunk, self.leadership.leader_epoch, now_ms)
                self._take_watermarks(log, step)
            case Truncate(end_offset):
                self._tell_of_cut(log, end_offset)
                log.truncate_to(end_offset, now_ms)
                self._events.truncated(self, end_offset)
            case RestartAt(offset):
                log.restart_at(offset, now_ms)

    def _tell_of_cut(self, log: Log, end_offset: int) -> None:
        """What is known to have been committed is lost by unclean elections alone; one read at a start may be too old to tell."""
        is_loss = end_offset < log.high_watermark
        logger.log(
            logging.WARNING if is_loss else logging.INFO,
            "%s-%d is cut at %d%s: its leader has not what follows up to %d",
            self.topic, self.index, end_offset, f", below its high watermark {log.high_watermark}" if is_loss else "", log.end_offset,
        )  # fmt: skip

    def _take_watermarks(self, log: Log, step: Append) -> None:
        log_start, high_watermark = step.log_start(log), step.high_watermark(log)
        moved = high_watermark != log.high_watermark
        log.high_watermark = high_watermark
        if log_start > log.log_start_offset:
            log.raise_start(log_start)
        if moved and self._watchers:
            self.wake()

    # -- waiting -------------------------------------------------------------------------------------------------------------

    def watch(self, wake: Callable[[], None], *, appends_too: bool = False) -> None:
        """Call `wake` when the high watermark moves or who leads changes; followers want to know of every append."""
        self._watchers[wake] = None
        if appends_too:
            self._append_watchers[wake] = None

    def unwatch(self, wake: Callable[[], None]) -> None:
        """No more."""
        self._watchers.pop(wake, None)
        self._append_watchers.pop(wake, None)

    def wake(self) -> None:
        """Let everybody who waits look again."""
        for wake in list(self._watchers):
            wake()


_ERRORS_SHOWN: Final = 3
