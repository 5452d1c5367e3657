"""One partition as this node serves it: who leads it, its log, and who waits for its next records."""

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from isthmus_wire.compression import Compression
from isthmus_wire.errors import CorruptBatch, ErrorCode
from isthmus_wire.produce import ProduceResult
from isthmus_wire.records import BatchHeader, header_at, iterate_records, recompressed, stamp_append_time

from isthmus_broker.core.config.topic_config import TopicConfig
from isthmus_broker.core.log.append_check import AppendRules, check_batch, check_framing
from isthmus_broker.core.log.producer_state import Refusal, Remembered
from isthmus_broker.edge.disk.log import Log

ALL_IN_SYNC = -1
NO_EPOCH = -1
NO_EPOCH = -1


class Leadership(NamedTuple):
    """What the metadata log says of the partition."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Partition:
    """A replica on this node. `log` is None while its directory is offline."""

    __slots__ = ("_node_id", "_rules", "_watchers", "index", "leadership", "log", "on_appended", "topic", "topic_id")

    def __init__(
        self, node_id: int, topic: str, index: int, topic_id: UUID, leadership: Leadership, log: Log | None
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.leadership = leadership
        self.log = log
        self.on_appended: Callable[[Partition], None] | None = None
        self._node_id = node_id
        self._rules: tuple[TopicConfig, AppendRules] | None = None
        self._watchers: set[Callable[[], None]] = set()

    # -- leadership ----------------------------------------------------------------------------------------------------------

    @property
    def is_led_here(self) -> bool:
        """Whether this node takes its writes."""
        return self.leadership.leader == self._node_id

    def refuses(self, current_leader_epoch: int = NO_EPOCH) -> ErrorCode | None:
        """Why a request to the leader cannot be served here, if it cannot."""
        if self.log is None:
            return ErrorCode.kafka_storage_error
        if current_leader_epoch != NO_EPOCH:
            if current_leader_epoch < self.leadership.leader_epoch:
                return ErrorCode.fenced_leader_epoch
            if current_leader_epoch > self.leadership.leader_epoch:
                return ErrorCode.unknown_leader_epoch
        return None if self.is_led_here else ErrorCode.not_leader_or_follower

    def has_follower(self, replica_id: int) -> bool:
        """Whether that broker copies this partition from this one."""
        return replica_id in self.leadership.replicas and replica_id != self._node_id

    def take_leadership(self, leadership: Leadership) -> None:
        """What the metadata log says now; a leader notes where its epoch begins, as readers ask for it before the first record."""
        self.leadership = leadership
        if self.is_led_here and self.log is not None:
            self.log.begin_epoch(leadership.leader_epoch)

    # -- appending -----------------------------------------------------------------------------------------------------------

    def produce(self, records: memoryview | None, version: int, acks: int, now_ms: int) -> ProduceResult:
        """Take a client's batch; raises DiskFailure."""
        header = check_framing(records, version)
        if isinstance(header, Refusal):
            return self._refused(header)
        error = self.refuses()
        if error is None and acks == ALL_IN_SYNC:
            error = self._lacks_replicas()
        if error is not None:
            return ProduceResult(self.index, error.value)
        assert self.log is not None
        assert records is not None
        batch: memoryview | bytearray = records[: header.size]
        rules = self._append_rules(self.log.config)
        refusal = check_batch(batch, header, rules, now_ms) or self._check_keys(batch, header, rules)
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
            stamp_append_time(batch, header, now_ms)
            header = header_at(batch)
        base_offset = self.log.append_as_leader(batch, header, self.leadership.leader_epoch, now_ms)
        self.advance()
        append_time = now_ms if rules.append_time else -1
        return ProduceResult(self.index, 0, base_offset, append_time, self.log.log_start_offset)

    def append(self, batch: bytearray, now_ms: int) -> int:
        """Append a batch of this node's own, such as a coordinator's; returns the last offset."""
        assert self.log is not None
        self.log.append_as_leader(batch, header_at(batch), self.leadership.leader_epoch, now_ms)
        self.advance()
        return self.log.end_offset - 1

    def advance(self) -> None:
        """Move the high watermark to what every in-sync replica has, and wake who waited for it."""
        assert self.log is not None
        if self.leadership.isr == (self._node_id,):
            self.log.high_watermark = self.log.end_offset
        if self._watchers:
            self.wake()
        if self.on_appended is not None:
            self.on_appended(self)

    def _lacks_replicas(self) -> ErrorCode | None:
        assert self.log is not None
        enough = len(self.leadership.isr) >= min(self.log.config.min_insync_replicas, len(self.leadership.replicas))
        return None if enough else ErrorCode.not_enough_replicas

    def _append_rules(self, config: TopicConfig) -> AppendRules:
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

    def _check_keys(self, batch: memoryview | bytearray, header: BatchHeader, rules: AppendRules) -> Refusal | None:
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

    # -- waiting -------------------------------------------------------------------------------------------------------------

    def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever a reader may find more, or must look elsewhere."""
        self._watchers.add(wake)

    def unwatch(self, wake: Callable[[], None]) -> None:
        """No more."""
        self._watchers.discard(wake)

    def wake(self) -> None:
        """Let every waiting reader look again."""
        for wake in list(self._watchers):
            wake()


_ERRORS_SHOWN = 3
