"""The tier of one partition that this broker leads: copies what is due, deletes what is of no use any more."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

from isthmus_model.clocks import Clocks
from isthmus_tier.core.lineage import with_records
from isthmus_tier.core.partition_segments import PartitionSegments
from isthmus_tier.core.records import Update
from isthmus_tier.core.segments import EpochStart, Place, RemoteSegment, State
from isthmus_tier.edge.metadata_log import MetadataLog
from isthmus_tier.edge.store import StoreError
from isthmus_tier.edge.upload import delete

from isthmus_broker.core.log.retention import SegmentFacts
from isthmus_broker.core.tier.copying import Copied, describe, epochs_below, next_to_copy
from isthmus_broker.core.tier.expiry import KEEP_ALL, LogFacts, expire
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.tier.counts import PartitionState, TierCounts
from isthmus_broker.edge.tier.segment_copy import Destination, SegmentGone, copy_segment

logger = logging.getLogger(__name__)


class Deposed(Exception):
    """This broker does not lead the partition any more, or its log was replaced."""


class PartitionTier:
    """Runs one after another; each begins with what the metadata says by then."""

    def __init__(
        self,
        broker_id: int,
        place: Place,
        metadata: MetadataLog,
        destination: Destination,
        threads: ThreadPoolExecutor,
        clocks: Clocks,
        counts: TierCounts,
    ) -> None:
        self._broker_id = broker_id
        self.place = place
        self._metadata = metadata
        self._destination = destination
        self._threads = threads
        self._clocks = clocks
        self._counts = counts

    async def run(self, partition: Partition, copies: Callable[[], bool]) -> None:
        """Delete what is of no use, then copy what is due while `copies`; raises StoreError, NotRecorded and OSError."""
        segments = await self._metadata.loaded(self.place)
        if partition.log is None:
            return
        led = _Led(partition, partition.log)
        try:
            await self._expire(led, segments)
            if copies():
                await self._copy(led, segments, copies)
        except Deposed:
            logger.debug("%s-%d is led elsewhere: no more copies", self.place.topic, self.place.partition)
        finally:
            if led.is_current:
                self._record_state(led, segments)

    async def delete_all(self) -> None:
        """Delete everything of the partition; raises StoreError and NotRecorded."""
        segments = await self._metadata.loaded(self.place)
        await self._delete(segments.all())

    async def _copy(self, led: "_Led", segments: PartitionSegments, copies: Callable[[], bool]) -> None:
        log = led.log
        for facts in self._due(led, segments):
            if not copies():
                return
            led.check()
            has_aborted = any(one.base_offset == facts.base_offset and len(one.aborted) for one in log.segments)
            chain = led.chain()
            segment = describe(
                self.place, uuid4(), facts, chain, self._broker_id, self._clocks.wall(), has_aborted=has_aborted
            )
            await self._copy_one(led, segment, chain)

    def _due(self, led: "_Led", segments: PartitionSegments) -> Sequence[SegmentFacts]:
        log = led.log
        copied = Copied(segments, led.chain(), log.end_offset)
        return next_to_copy(led.local(), copied, log.log_start_offset, log.last_stable_offset)

    def _record_state(self, led: "_Led", segments: PartitionSegments) -> None:
        due = self._due(led, segments)
        self._counts.partitions[self.place] = PartitionState(
            len(due), sum(one.size for one in due), len(segments), sum(one.size for one in segments.readable())
        )

    async def _copy_one(self, led: "_Led", segment: RemoteSegment, chain: Sequence[EpochStart]) -> None:
        """Announce, copy, confirm. What is announced and not confirmed is deleted by a later run."""
        await self._metadata.write(segment)
        led.check()
        epochs, counts = epochs_below(chain, segment.end_offset + 1), self._counts.topics[self.place.topic]
        counts.copies += 1
        try:
            stored = await self._in_thread(
                copy_segment, led.log.pool.files, led.log.directory, segment, epochs, self._destination
            )
        except SegmentGone:
            return
        except StoreError:
            counts.copy_errors += 1
            raise
        led.check()
        await self._metadata.write(self._to(segment, State.COPY_FINISHED))
        counts.copied_bytes += segment.size
        logger.info(
            "copied %s-%d, offsets %d to %d: %d bytes, %d stored",
            self.place.topic, self.place.partition, segment.start_offset, segment.end_offset, segment.size, stored,
        )  # fmt: skip

    async def _expire(self, led: "_Led", segments: PartitionSegments) -> None:
        log, chain = led.log, led.chain()
        copied = Copied(segments, chain, log.end_offset)
        facts = LogFacts(
            broker_id=self._broker_id,
            chain=chain,
            log_start=log.log_start_offset,
            log_end=log.end_offset,
            only_local=sum(one.size for one in led.local() if not copied.has(one.base_offset, one.next_offset)),
        )
        expiry = expire(segments.all(), facts, KEEP_ALL, self._clocks.wall())
        for reason, count in expiry.reasons.items():
            logger.info("deleting %d segments of %s-%d in the tier: %s", count, *self.place[::2], reason)
        await self._delete(expiry.doomed)

    async def _delete(self, doomed: Sequence[RemoteSegment]) -> None:
        counts = self._counts.topics[self.place.topic]
        for segment in doomed:
            if segment.state is not State.DELETE_STARTED:
                await self._metadata.write(self._to(segment, State.DELETE_STARTED))
            counts.deletions += 1
            try:
                await self._in_thread(delete, self._destination.store, self._destination.cluster_id, segment)
            except StoreError:
                counts.deletion_errors += 1
                raise
            await self._metadata.write(self._to(segment, State.DELETE_FINISHED))

    def _to(self, segment: RemoteSegment, state: State) -> Update:
        return Update(self.place, segment.id, self._broker_id, self._clocks.wall(), state)

    async def _in_thread(self, work: Callable[..., object], *arguments: object) -> object:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)


class _Led:
    """The log of a partition while this broker leads it in one epoch."""

    def __init__(self, partition: Partition, log: Log) -> None:
        self._partition = partition
        self.log = log
        self._epoch = partition.leadership.leader_epoch

    @property
    def is_current(self) -> bool:
        """Whether this broker still leads it in that epoch, with the same log."""
        partition = self._partition
        is_led = partition.is_led_here and partition.leadership.leader_epoch == self._epoch
        return is_led and partition.log is self.log

    def check(self) -> None:
        """Raise Deposed if it does not."""
        if not self.is_current:
            raise Deposed

    def chain(self) -> list[EpochStart]:
        """The leader epochs that have records."""
        return with_records([EpochStart(*one) for one in self.log.epochs.entries])

    def local(self) -> list[SegmentFacts]:
        """The segments of the log."""
        return [one.facts() for one in self.log.segments]
