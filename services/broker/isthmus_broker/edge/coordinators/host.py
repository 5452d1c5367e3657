"""The host of a coordinator topic: one runtime, with its shard, for each partition of the topic that this node leads.

When this node becomes a partition's leader, its log is replayed into a fresh shard, in slices so that the loop keeps serving requests; the
shard serves once the whole log is replayed. A shard's records are appended as one batch; a response is sent when the high watermark covers
everything it reflects.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

from isthmus_model.clocks import Clocks, WallMs
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import ProducerId, build_marker, marker_of
from isthmus_wire.records import TRANSACTIONAL_BIT, NewRecord, build_batch, iterate_records

from isthmus_broker.core.coordinator.result import Note, RequestContext
from isthmus_broker.core.coordinator.runtime import BatchAppend, Runtime, Shard
from isthmus_broker.core.log.producer_state import Refusal
from isthmus_broker.edge.background import background
from isthmus_broker.edge.coordinators.counts import LoadTimes
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.storage.files import DiskFailure
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.log_scan import scan

logger = logging.getLogger(__name__)

LOAD_SLICE: Final = 2_000
"""Records replayed before the loop serves other work."""

_LEVELS: Final = {"loaded": logging.DEBUG}

V = TypeVar("V")
Respond = Callable[[object], None]


@dataclass(slots=True)
class _HostedShard(Generic[V]):
    """A runtime and the partition under it."""

    partition: Partition
    runtime: Runtime[V]
    loading: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    driving: bool = False
    on_high_watermark: Callable[[], None] | None = None


class CoordinatorHost(Generic[V]):
    """Runtimes by partition of one topic. `V` is the shards' view of the cluster's metadata."""

    def __init__(
        self,
        topic: str,
        new_runtime: Callable[[V], Runtime[V]],
        view: V,
        clocks: Clocks,
        topic_partitions: Callable[[], int],
        on_disk_failure: Callable[[Partition, DiskFailure], None],
        on_effect: Callable[[int, object], None] = lambda _partition, _effect: None,
        on_unload: Callable[[int], None] = lambda _partition: None,
        on_note: Callable[[Shard[V], Note], None] = lambda _shard, _note: None,
    ) -> None:
        """`topic_partitions` is the topic's partition count, or the one it will be created with.

        `on_disk_failure` takes the directory of a partition's log offline. `on_effect` carries out an effect of the partition's shard;
        `on_unload` ends what is under way for it. `on_note` gets what a shard reports, after the records are appended that were returned
        with it.
        """
        self.topic = topic
        self.load_times = LoadTimes()
        self.topic_partitions = topic_partitions
        self._new_runtime = new_runtime
        self.view = view
        self._clocks = clocks
        self._on_disk_failure = on_disk_failure
        self._on_effect = on_effect
        self._on_unload = on_unload
        self._on_note = on_note
        self._shards: dict[int, _HostedShard[V]] = {}
        self._responders: dict[int, Respond] = {}
        self._next_token = 0

    # -- requests ------------------------------------------------------------------------------------------------------------

    def partitions(self) -> Iterable[int]:
        """The partitions whose shards live on this node."""
        return sorted(self._shards)

    def shards(self) -> Iterable[Shard[V]]:
        """The shards that serve requests, for metrics."""
        return [shard for hosted in self._shards.values() if (shard := hosted.runtime.shard) is not None]

    @property
    def loading(self) -> int:
        """The number of partitions whose shards do not serve requests yet."""
        return sum(hosted.loading is not None for hosted in self._shards.values())

    def submit(self, partition: int, request: object, context: RequestContext, respond: Respond) -> bool:
        """Pass a request to a shard, which responds now or later; False when this node is not the partition's leader."""
        shard = self._shards.get(partition)
        if shard is None:
            return False
        self._next_token += 1
        self._responders[self._next_token] = respond
        shard.runtime.submit(self._next_token, request, context, self._clocks.now())
        self._drive(shard)
        return True

    # -- leadership and metadata ---------------------------------------------------------------------------------------------

    def leadership_changed(self, partition: Partition) -> None:
        """Load or unload the partition's shard when its leader or leader epoch changed."""
        shard = self._shards.get(partition.index)
        if shard is not None and partition.is_led_here and shard.runtime.epoch == partition.leadership.leader_epoch:
            return
        self.unload(partition)
        if partition.is_led_here and partition.log is not None:
            runtime = self._new_runtime(self.view)
            log = partition.log
            runtime.load_begin(partition.leadership.leader_epoch, partial(_batch_bytes_max, partition))
            shard = self._shards[partition.index] = _HostedShard(partition, runtime)
            shard.on_high_watermark = partial(self._high_watermark_moved, shard)
            partition.watch(shard.on_high_watermark)
            shard.loading = background(self._load(shard, log))

    def unload(self, partition: Partition) -> None:
        """Unload the partition's shard, if there is one: this node is no longer its leader."""
        shard = self._shards.pop(partition.index, None)
        if shard is None:
            return
        if shard.on_high_watermark is not None:
            partition.unwatch(shard.on_high_watermark)
        if shard.loading is not None:
            shard.loading.cancel()
        if shard.timer is not None:
            shard.timer.cancel()
        shard.runtime.unload(self._clocks.now())
        self._on_unload(partition.index)
        self._drive(shard)

    def stop(self) -> None:
        """Unload all shards; the next leaders load them from their logs."""
        for shard in list(self._shards.values()):
            self.unload(shard.partition)

    def metadata_changed(self, view: V) -> None:
        """Pass a new view of the metadata to the shards."""
        self.view = view
        for shard in list(self._shards.values()):
            shard.runtime.metadata(view, self._clocks.now())
            self._drive(shard)

    # -- loading -------------------------------------------------------------------------------------------------------------

    async def _load(self, shard: _HostedShard[V], log: Log) -> None:
        partition, runtime = shard.partition, shard.runtime
        began = self._clocks.monotonic()
        try:
            loaded = await self._replay(runtime, log)
        except Exception:
            # A shard with part of its state must not serve: requests are refused with NOT_COORDINATOR, as in Kafka.
            logger.exception(
                "coordinator of %s-%d failed to load; it serves nothing until the partition's leader or ISR changes",
                partition.topic,
                partition.index,
            )
            self.unload(partition)
            if partition.log is not log:  # it has moved to another directory
                self.leadership_changed(partition)
            return
        shard.loading = None
        runtime.committed(log.end_offset if runtime.trusts_log_end else log.high_watermark, self._clocks.now())
        runtime.load_end(self._clocks.now())
        self.load_times.record(began, self._clocks.monotonic())
        if loaded:
            logger.info("loaded %d records of %s-%d", loaded, partition.topic, partition.index)
        self._drive(shard)

    async def _replay(self, runtime: Runtime[V], log: Log) -> int:
        """Replay all of the log's records and transaction markers into the shard; returns how many there were."""
        loaded = 0
        runtime.committed(log.high_watermark, self._clocks.now())
        for header, batch in scan(log, log.log_start_offset):
            producer = ProducerId(header.producer_id, header.producer_epoch) if header.is_transactional else None
            for record in iterate_records(batch):
                if header.is_control:
                    marker = marker_of(header, record)
                    if marker is not None:
                        runtime.load_marker(record.offset, marker, self._clocks.now())
                elif record.key is not None:
                    runtime.load(record.offset, record.key, record.value, producer, self._clocks.now())
                loaded += 1
                if loaded % LOAD_SLICE == 0:
                    await asyncio.sleep(0)
        return loaded

    # -- driving -------------------------------------------------------------------------------------------------------------

    def _high_watermark_moved(self, shard: _HostedShard[V]) -> None:
        if shard.partition.log is not None:
            shard.runtime.committed(shard.partition.log.high_watermark, self._clocks.now())
            self._drive(shard)

    def _drive(self, shard: _HostedShard[V]) -> None:
        """Append, report and respond until the runtime has no more output, then set its timer."""
        if shard.driving:
            return
        shard.driving = True
        try:
            while ready := shard.runtime.take():
                for note in ready.notes:
                    self._log(note)
                for append in ready.appends:
                    self._append(shard, append)
                if shard.runtime.shard is not None:
                    for note in ready.notes:
                        self._on_note(shard.runtime.shard, note)
                for token, response in ready.replies:
                    self._responders.pop(token)(response)
                for effect in ready.effects:
                    self._on_effect(shard.partition.index, effect)
        finally:
            shard.driving = False
        self._set_timer(shard)

    def _log(self, note: Note) -> None:
        level = _LEVELS.get(note.event, logging.INFO)
        logger.log(level, "%s: %s: %s %s", self.topic, note.subject, note.event, note.detail)

    def _append(self, shard: _HostedShard[V], append: BatchAppend) -> None:
        now, partition = self._clocks.now(), shard.partition
        try:
            outcome = partition.append(
                _batch_of(append, now.wall), now.monotonic, verification=append.verification, marker=append.marker
            )
        except DiskFailure as failure:
            shard.runtime.append_failed(append.seq, ErrorCode.kafka_storage_error, now)
            self._on_disk_failure(partition, failure)
            return
        if isinstance(outcome, Refusal):
            shard.runtime.append_failed(append.seq, outcome.error, now)
            return
        assert partition.log is not None
        shard.runtime.appended(append.seq, outcome, now)
        shard.runtime.committed(partition.log.high_watermark, now)

    def _set_timer(self, shard: _HostedShard[V]) -> None:
        if shard.timer is not None:
            shard.timer.cancel()
            shard.timer = None
        deadline = shard.runtime.deadline()
        if deadline is not None and self._shards.get(shard.partition.index) is shard:
            delay = max(deadline - self._clocks.monotonic(), 0) / 1000
            shard.timer = asyncio.get_running_loop().call_later(delay, self._tick, shard)

    def _tick(self, shard: _HostedShard[V]) -> None:
        shard.timer = None
        shard.runtime.tick(self._clocks.now())
        self._drive(shard)


def _batch_bytes_max(partition: Partition) -> int:
    return 0 if partition.log is None else partition.append_rules.batch_bytes_max


def _batch_of(append: BatchAppend, timestamp: WallMs) -> bytearray:
    if append.marker is not None:
        return bytearray(build_marker(append.marker, timestamp))
    records = [NewRecord(key, value, timestamp) for key, value in append.records]
    if append.producer is None:
        return bytearray(build_batch(records))
    producer_id, epoch = append.producer  # the sequence is not used, and Kafka writes 0
    return bytearray(
        build_batch(
            records, attributes=TRANSACTIONAL_BIT, producer_id=producer_id, producer_epoch=epoch, base_sequence=0
        )
    )
