"""The group coordinators of this node: one runtime for each partition of __consumer_offsets that it leads.

A partition that this node begins to lead is read from its log into a fresh shard, in slices so that the loop keeps serving others.
Records that a shard produces are appended as one batch; a reply leaves when the partition's high watermark covers what it reflects.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from isthmus_model.clocks import Clocks
from isthmus_wire.errors import CorruptBatch, ErrorCode
from isthmus_wire.records import NewRecord, build_batch, iterate_records

from isthmus_broker.core.coordinator.result import RequestContext
from isthmus_broker.core.coordinator.runtime import Append, Runtime
from isthmus_broker.core.group.view import ClusterView
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.storage.files import DiskFailure

logger = logging.getLogger(__name__)

LOAD_SLICE: Final = 2_000
"""Records replayed before the loop serves somebody else."""

_LEVELS: Final = {"loaded": logging.DEBUG}

Answer = Callable[[object], None]
NewRuntime = Callable[[ClusterView], Runtime[ClusterView]]


@dataclass(slots=True)
class _Shard:
    """A runtime and the partition under it."""

    partition: Partition
    runtime: Runtime[ClusterView]
    loading: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    pumping: bool = False
    committed: Callable[[], None] | None = None
    """Called when the partition's high watermark moves."""


class GroupCoordinators:
    """Runtimes by partition of the offsets topic."""

    def __init__(
        self, new_runtime: NewRuntime, view: ClusterView, topic_partitions: Callable[[], int], clocks: Clocks
    ) -> None:
        self._clocks = clocks
        self._new_runtime = new_runtime
        self._view = view
        self.topic_partitions = topic_partitions
        self._shards: dict[int, _Shard] = {}
        self._waiting: dict[int, Answer] = {}
        self._next_token = 0

    # -- requests ------------------------------------------------------------------------------------------------------------

    def led(self) -> Iterable[int]:
        """The partitions whose groups this node coordinates."""
        return sorted(self._shards)

    def submit(self, partition: int, request: object, context: RequestContext, answer: Answer) -> bool:
        """Give a request to a shard, which answers now or later; False when this node does not lead the partition."""
        shard = self._shards.get(partition)
        if shard is None:
            return False
        self._next_token += 1
        self._waiting[self._next_token] = answer
        shard.runtime.submit(self._next_token, request, context, self._clocks.now())
        self._pump(shard)
        return True

    # -- following leadership and metadata -----------------------------------------------------------------------------------

    def leadership_changed(self, partition: Partition) -> None:
        """The partition's leader or epoch may be another one."""
        shard = self._shards.get(partition.index)
        if shard is not None and partition.is_led_here and shard.runtime.epoch == partition.leadership.leader_epoch:
            return
        if shard is not None:
            self.resign(partition)
        if partition.is_led_here and partition.log is not None:
            runtime = self._new_runtime(self._view)
            runtime.load_begin(partition.leadership.leader_epoch)
            shard = self._shards[partition.index] = _Shard(partition, runtime)
            shard.committed = partial(self._committed, shard)
            partition.watch(shard.committed)
            shard.loading = asyncio.get_running_loop().create_task(self._load(shard))

    def resign(self, partition: Partition) -> None:
        """This node does not lead the partition any more."""
        shard = self._shards.pop(partition.index, None)
        if shard is None:
            return
        if shard.committed is not None:
            partition.unwatch(shard.committed)
        if shard.loading is not None:
            shard.loading.cancel()
        if shard.timer is not None:
            shard.timer.cancel()
        shard.runtime.unload(self._clocks.now())
        self._pump(shard)

    def stop(self) -> None:
        """Answer everyone who waits: another broker, or this one later, goes on from the log."""
        for shard in list(self._shards.values()):
            self.resign(shard.partition)

    def metadata_changed(self, view: ClusterView) -> None:
        """Topics are not what they were."""
        self._view = view
        for shard in list(self._shards.values()):
            shard.runtime.metadata(view, self._clocks.now())
            self._pump(shard)

    async def _load(self, shard: _Shard) -> None:
        partition, runtime = shard.partition, shard.runtime
        log = partition.log
        assert log is not None
        loaded = 0
        try:
            for segment, (position, header) in log.placed_batches(log.log_start_offset):
                if header.is_control:
                    continue
                for record in iterate_records(segment.read(position, header.size)):
                    if record.key is not None:
                        runtime.load(record.offset, record.key, record.value, self._clocks.now())
                    loaded += 1
                    if loaded % LOAD_SLICE == 0:
                        await asyncio.sleep(0)
        except (DiskFailure, CorruptBatch):
            logger.exception("groups of %s-%d cannot be loaded", partition.topic, partition.index)
            self.resign(partition)
            return
        shard.loading = None
        runtime.committed(log.high_watermark, self._clocks.now())
        runtime.load_end(self._clocks.now())
        if loaded:
            logger.info("loaded %d records of groups from %s-%d", loaded, partition.topic, partition.index)
        self._pump(shard)

    # -- driving -------------------------------------------------------------------------------------------------------------

    def _committed(self, shard: _Shard) -> None:
        if shard.partition.log is not None:
            shard.runtime.committed(shard.partition.log.high_watermark, self._clocks.now())
            self._pump(shard)

    def _pump(self, shard: _Shard) -> None:
        """Append, report and reply until the runtime owes nothing, then set its timer."""
        if shard.pumping:
            return
        shard.pumping = True
        try:
            while True:
                ready = shard.runtime.take()
                if not (ready.appends or ready.replies or ready.notes):
                    break
                for note in ready.notes:
                    logger.log(
                        _LEVELS.get(note.event, logging.INFO), "group %s: %s %s", note.subject, note.event, note.detail
                    )
                for append in ready.appends:
                    self._append(shard, append)
                for token, response in ready.replies:
                    self._waiting.pop(token)(response)
        finally:
            shard.pumping = False
        self._arm(shard)

    def _append(self, shard: _Shard, append: Append) -> None:
        now = self._clocks.now()
        partition = shard.partition
        error = partition.refuses()
        if error is None and partition.log is not None:
            batch = bytearray(build_batch([NewRecord(key, value, now.wall) for key, value in append.records]))
            if len(batch) > partition.log.config.max_message_bytes:
                error = ErrorCode.message_too_large
            else:
                try:
                    last_offset = partition.append(batch, now.monotonic)
                except DiskFailure:
                    error = ErrorCode.kafka_storage_error
                else:
                    shard.runtime.appended(append.seq, last_offset, now)
                    shard.runtime.committed(partition.log.high_watermark, now)
                    return
        shard.runtime.append_failed(append.seq, error or ErrorCode.kafka_storage_error, now)

    def _arm(self, shard: _Shard) -> None:
        if shard.timer is not None:
            shard.timer.cancel()
            shard.timer = None
        deadline = shard.runtime.deadline()
        if deadline is not None and self._shards.get(shard.partition.index) is shard:
            delay = max(deadline - self._clocks.monotonic(), 0) / 1000
            shard.timer = asyncio.get_running_loop().call_later(delay, self._tick, shard)

    def _tick(self, shard: _Shard) -> None:
        shard.timer = None
        shard.runtime.tick(self._clocks.now())
        self._pump(shard)
