"""Copying a flow's partitions: fetches from the source's brokers on one side, appends to the target's on the other.

Each source broker has one fetch under way over a session of its own, each target broker a few requests of appends. What is fetched,
appended or asked is decided by each partition's copy (`core/partition.py`); here the answers find their way.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from isthmus_client.client import Client
from isthmus_client.errors import ClientError, Refused
from isthmus_client.fetch_session import FetchSession
from isthmus_client.metadata import Broker, TopicPartition
from isthmus_client.raw import Appended, Fetched, FetchFrom, FetchLimits, fetch_from, produce_to
from isthmus_service.signal import Signal

from isthmus_mirror.core.limits import (
    APPEND_BYTES_MAX,
    APPEND_TIMEOUT_MS,
    APPENDS_MAX,
    FETCH_BYTES_LEAST,
    FETCH_BYTES_MAX,
    FETCH_WAIT_MS,
    IN_FLIGHT_BYTES_MAX,
    PARTITION_BYTES,
    SHORT_WAIT_MS,
)
from isthmus_mirror.core.partition import News, Outgoing, PartitionCopy, Placed, SourceRange, Stage, Tail
from isthmus_mirror.core.progress import Ambiguous, Ask, Jump, Place, settle, still_needed
from isthmus_mirror.edge.latency import Latency
from isthmus_mirror.edge.looks import batch_at, crc_at, extents
from isthmus_mirror.edge.progress_log import ProgressLog

logger = logging.getLogger(__name__)

_TICK_SECONDS: Final = 1.0
"""How often leaders are looked at when nothing asks for it before."""
_PAUSE_SECONDS: Final = 0.05
"""Between two looks that were asked for, and for partitions that pause."""
_IDLE_SECONDS: Final = 0.25
_LOOKS_AT_ONCE: Final = 16


class Wanted(NamedTuple):
    """A partition that this mirror is to copy. It is another task when either topic is made anew."""

    source: TopicPartition
    source_id: UUID | None
    target: TopicPartition
    target_id: UUID | None
    producer_id: int
    target_producer_id: int

    @property
    def place(self) -> Place:
        """As progress names it."""
        return Place(*self.source)


@dataclass(slots=True, eq=False)
class Target:
    """A partition that is copied."""

    wanted: Wanted
    copy: PartitionCopy
    is_asking: bool = False
    latency: Latency = field(default_factory=Latency)
    failure_told: bool = False


class FlowCopier:
    """Of one flow. `assign` says what to copy, `run` copies it."""

    def __init__(
        self, name: str, source: Client, target: Client, log: ProgressLog, *, read_committed: bool, begin_at_end: bool
    ) -> None:
        self.targets: dict[TopicPartition, Target] = {}
        """By the source's partition."""
        self._name = name
        self._source = source
        self._target = target
        self._log = log
        self._read_committed = read_committed
        self._begin_at_end = begin_at_end
        self._leads_source: dict[TopicPartition, int] = {}
        self._leads_target: dict[TopicPartition, int] = {}
        self._fetching: set[int] = set()
        self._appending: set[int] = set()
        self._failing: set[int] = set()  # of the target's brokers; the first failure is worth a warning
        self._looks = asyncio.Semaphore(_LOOKS_AT_ONCE)
        self._changed = Signal()  # leaders, or what a copy asks for
        self._room = Signal()  # something can be fetched again
        self._work = Signal()  # something can be appended
        self._to_record = Signal()

    def assign(self, wanted: Collection[Wanted]) -> None:
        """Copy exactly these from now on."""
        keep = {one.source: one for one in wanted}
        if keep.keys() != self.targets.keys():
            logger.info("%s: this mirror copies %d partitions", self._name, len(keep))
        for partition, target in list(self.targets.items()):
            if keep.get(partition) != target.wanted:
                target.copy.stop()
                del self.targets[partition]
        for partition, one in keep.items():
            if partition not in self.targets:
                copy = PartitionCopy(one.producer_id, one.target_producer_id, self._read_committed)
                self.targets[partition] = Target(one, copy)
                self._changed.ring()

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._record_jumps())
                while True:
                    await self._find_leaders()
                    self._tell_failures()
                    self._start_loops(group)
                    self._start_questions(group)
                    await self._changed.wait(_TICK_SECONDS if not self._has_questions() else _PAUSE_SECONDS)
                    await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            self.assign(())

    def _tell_failures(self) -> None:
        for target in self.targets.values():
            if target.copy.failure and not target.failure_told:
                target.failure_told = True
                logger.error(
                    "%s: partition %s is not copied: %s", self._name, target.wanted.source, target.copy.failure
                )

    # -- who leads -----------------------------------------------------------------------------------------------------------

    async def _find_leaders(self) -> None:
        targets = [target.wanted.target for target in self.targets.values()]
        self._leads_source, self._leads_target = await asyncio.gather(
            self._leaders(self._source, list(self.targets)), self._leaders(self._target, targets)
        )

    async def _leaders(self, client: Client, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        try:
            found = await client.leaders(partitions)
        except ClientError as error:
            logger.debug("%s: leaders are not known: %s", self._name, error)
            return {}
        for refused in found.values():
            if isinstance(refused, Refused):
                client.suspect(refused)
        return {partition: leader.node_id for partition, leader in found.items() if isinstance(leader, Broker)}

    def _start_loops(self, group: asyncio.TaskGroup) -> None:
        for broker in sorted(set(self._leads_source.values()) - self._fetching):
            self._fetching.add(broker)
            group.create_task(self._fetch_loop(broker))
        for broker in sorted(set(self._leads_target.values()) - self._appending):
            self._appending.add(broker)
            group.create_task(self._append_loop(group, broker))

    # -- fetching ------------------------------------------------------------------------------------------------------------

    async def _fetch_loop(self, broker: int) -> None:
        """While this broker leads anything."""
        session = FetchSession()
        failures = 0
        try:
            while targets := self._led_by(broker):
                wanted = [(target, at) for target in targets if (at := target.copy.fetch_at(now_ms())) is not None]
                limits = self._limits(targets)
                if not wanted or sum(target.copy.held for target in targets) > limits.max_bytes:
                    await self._room.wait(_PAUSE_SECONDS)
                    continue
                try:
                    await self._fetch(broker, wanted, limits, session)
                    failures = 0
                except ClientError as error:
                    failures += 1
                    level = logging.WARNING if failures == 1 else logging.DEBUG
                    logger.log(level, "%s: fetching from broker %d of the source: %s", self._name, broker, error)
                    self._changed.ring()
                    await asyncio.sleep(self._source.pause(failures))
        finally:
            self._fetching.discard(broker)

    def _led_by(self, broker: int) -> list[Target]:
        return [
            target
            for partition, target in self.targets.items()
            if self._leads_source.get(partition) == broker and self._is_same_source(target.wanted)
        ]

    def _is_same_source(self, wanted: Wanted) -> bool:
        """A topic made anew under the name has other records at the same offsets. Sources without ids cannot tell."""
        known = self._source.view.topics.get(wanted.source.topic)
        return known is None or known.topic_id == wanted.source_id

    def _limits(self, targets: Sequence[Target]) -> FetchLimits:
        """A fetch does not wait long while a partition is left out that may have room again at any moment."""
        soon = any(target.copy.is_full for target in targets)
        share = max(IN_FLIGHT_BYTES_MAX // (2 * max(len(self._fetching), 1)), FETCH_BYTES_LEAST)
        return FetchLimits(
            wait_ms=SHORT_WAIT_MS if soon else FETCH_WAIT_MS,
            max_bytes=min(FETCH_BYTES_MAX, share),
            read_committed=self._read_committed,
        )

    async def _fetch(
        self, broker: int, wanted: Sequence[tuple[Target, tuple[int, int]]], limits: FetchLimits, session: FetchSession
    ) -> None:
        """One fetch, handed to whom it concerns."""
        at = {
            target.wanted.source: FetchFrom(
                offset, PARTITION_BYTES, _epoch(self._source, target.wanted.source), last_epoch
            )
            for target, (offset, last_epoch) in wanted
        }
        answer = await fetch_from(self._source, broker, at, limits, session=session, lane=f"fetch for {self._name}")
        now = now_ms()
        for target, (offset, _) in wanted:
            # Looked at once more: ids are read from the metadata anew for every request.
            if not self._is_same_source(target.wanted):
                continue
            self._fetched(target, offset, answer.get(target.wanted.source), now)
        if any(target.copy.stage is Stage.ASK_SOURCE for target, _ in wanted):
            self._changed.ring()
        self._work.ring()

    def _fetched(self, target: Target, offset: int, got: Fetched | Refused | None, now: int) -> None:
        copy = target.copy
        if got is None:
            copy.no_news(now)
            return
        if isinstance(got, Refused):
            copy.fetch_refused(offset, got.code, now)
            self._changed.ring()
            return
        end = got.last_stable_offset if self._read_committed else got.high_watermark
        at = int(time.time() * 1000)
        news = News(memoryview(got.records), end, at, tuple(got.aborted), got.diverging_epoch)
        taken = copy.fetched(offset, news, now)
        if taken:
            target.latency.fetched(copy.newest_timestamp, at)
            self._to_record.ring()

    # -- jumps ---------------------------------------------------------------------------------------------------------------

    async def _record_jumps(self) -> None:
        """What must be durable before batches are sent."""
        while True:
            wanted = [(t, jumps) for t in self.targets.values() if (jumps := t.copy.jumps_to_record())]
            if not wanted:
                await self._to_record.wait(_TICK_SECONDS)
                continue
            entries: list[tuple[Place, Jump]] = [(t.wanted.place, jump) for t, jumps in wanted for jump in jumps]
            try:
                await self._log.record(entries)
            except ClientError as error:
                logger.warning("%s: progress cannot be written: %s", self._name, error)
                for target, _ in wanted:
                    target.copy.doubt(now_ms())
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            for target, jumps in wanted:
                target.copy.recorded(jumps)
            self._work.ring()

    # -- appending -----------------------------------------------------------------------------------------------------------

    async def _append_loop(self, group: asyncio.TaskGroup, broker: int) -> None:
        """While this broker leads anything."""
        under_way: set[asyncio.Task[None]] = set()
        try:
            while self._has_appends_for(broker) or under_way:
                if len(under_way) < APPENDS_MAX and (batch := self._appendable(broker)):
                    task = group.create_task(self._append(broker, batch))
                    under_way.add(task)
                    task.add_done_callback(under_way.discard)
                    continue
                await self._work.wait(_IDLE_SECONDS)
        finally:
            self._appending.discard(broker)

    def _has_appends_for(self, broker: int) -> bool:
        return any(self._leads_target.get(target.wanted.target) == broker for target in self.targets.values())

    def _appendable(self, broker: int) -> list[tuple[Target, Outgoing]]:
        """What can be sent now; what would make the request too long waits for the next."""
        now, size = now_ms(), 0
        batch: list[tuple[Target, Outgoing]] = []
        for target in self.targets.values():
            if self._leads_target.get(target.wanted.target) != broker or not self._is_same_target(target.wanted):
                continue
            outgoing = target.copy.next_append(now)
            if outgoing is None:
                continue
            batch.append((target, outgoing))
            size += outgoing.size
            if size >= APPEND_BYTES_MAX:
                break
        return batch

    def _is_same_target(self, wanted: Wanted) -> bool:
        known = self._target.view.topics.get(wanted.target.topic)
        return known is not None and known.topic_id == wanted.target_id

    async def _append(self, broker: int, batch: Sequence[tuple[Target, Outgoing]]) -> None:
        wanted = {target.wanted.target: sent.data for target, sent in batch}
        answers: dict[TopicPartition, Appended | ClientError] = {}
        try:
            answers = await produce_to(
                self._target, broker, wanted, timeout_ms=APPEND_TIMEOUT_MS, lane=f"append for {self._name}"
            )
        except ClientError as error:
            level = logging.DEBUG if broker in self._failing else logging.WARNING
            logger.log(level, "%s: appending at broker %d: %s", self._name, broker, error)
            self._failing.add(broker)
            self._changed.ring()
        else:
            self._failing.discard(broker)
        now = now_ms()
        for target, sent in batch:
            self._answered(target, sent, answers.get(target.wanted.target), now)
        self._work.ring()
        self._room.ring()

    def _answered(self, target: Target, sent: Outgoing, answer: Appended | ClientError | None, now: int) -> None:
        if isinstance(answer, Appended):
            target.copy.appended(sent, answer.base_offset, answer.log_append_time, now)
            target.latency.appended(sent.max_timestamp, int(time.time() * 1000))
        else:
            if answer is not None:
                logger.debug("%s: append at %d: %s", self._name, sent.base, answer)
            target.copy.append_refused(sent, now)
        if target.copy.stage is not Stage.COPY:
            self._changed.ring()

    # -- questions -----------------------------------------------------------------------------------------------------------

    def _has_questions(self) -> bool:
        asking = (Stage.PLACE, Stage.ASK_SOURCE, Stage.CHECK)
        return any(target.copy.stage in asking for target in self.targets.values())

    def _start_questions(self, group: asyncio.TaskGroup) -> None:
        """Each for the partitions that have it now, so that one without a leader holds up nobody who asks later."""
        if asking := self._claim(Stage.PLACE):
            group.create_task(self._place(asking))
        if asking := self._claim(Stage.ASK_SOURCE):
            group.create_task(self._ask_source(asking))
        for target in self._claim(Stage.CHECK):
            group.create_task(self._check(target))

    def _claim(self, stage: Stage) -> list[Target]:
        now = now_ms()
        claimed = [t for t in self.targets.values() if not t.is_asking and t.copy.asks(stage, now)]
        for target in claimed:
            target.is_asking = True
        return claimed

    async def _place(self, targets: Sequence[Target]) -> None:
        """The ends first and the jumps after them: what is in a copy had its jump before."""
        try:
            found = await extents(self._target, [target.wanted.target for target in targets])
            await self._log.read_to_end()
        except ClientError as error:
            logger.warning("%s: the target does not say where copies end: %s", self._name, error)
            self._failed(targets)
            return
        await asyncio.gather(*(self._settle(target, found.get(target.wanted.target)) for target in targets))
        self._changed.ring()
        self._room.ring()

    async def _settle(self, target: Target, extent: tuple[int, int] | None) -> None:
        try:
            async with self._looks:
                if extent is None:
                    target.copy.asking_failed(now_ms())
                else:
                    await self._settle_within(target, *extent)
        except ClientError as error:
            logger.debug("%s: looking at %s: %s", self._name, target.wanted.target, error)
            target.copy.asking_failed(now_ms())
        finally:
            target.is_asking = False

    async def _settle_within(self, target: Target, start: int, end: int) -> None:
        partition, place = target.wanted.target, target.wanted.place
        seen: dict[int, int | None] = {}
        while isinstance(settled := settle(self._log.jumps(place), start, end, seen), Ask):
            seen[settled.base] = await crc_at(self._target, partition, settled.base)
        if isinstance(settled, Ambiguous):
            marks = ", ".join(str(jump.mark.base) for jump in settled.jumps)
            target.copy.fail(f"retention took what would tell which progress took effect (offsets {marks} of the copy)")
            return
        tail = None
        if end > start:
            last = await batch_at(self._target, partition, end - 1)
            if last is None or last.last_offset != end - 1:
                target.copy.asking_failed(now_ms())  # it has grown since
                return
            tail = Tail(last.producer_id, last.last_sequence)
        chain = still_needed(settled.chain, start)
        forgotten = (*settled.void, *settled.chain[: len(settled.chain) - len(chain)])
        if forgotten:
            await self._log.delete(place, forgotten)
        target.copy.placed(Placed(start, end, chain, tail))

    async def _ask_source(self, targets: Sequence[Target]) -> None:
        try:
            partitions = [target.wanted.source for target in targets]
            found = await extents(self._source, partitions, read_committed=self._read_committed)
        except ClientError as error:
            logger.warning("%s: the source does not say what it has: %s", self._name, error)
            self._failed(targets)
            return
        now = now_ms()
        for target in targets:
            target.is_asking = False
            extent = found.get(target.wanted.source)
            if extent is None or not self._is_same_source(target.wanted):
                target.copy.asking_failed(now)
                continue
            lost = target.copy.counters.gap_offsets
            begin = extent[1] if self._begin_at_end else extent[0]
            target.copy.source_has(SourceRange(extent[0], begin, extent[1]), now)
            lost = target.copy.counters.gap_offsets - lost
            if lost:
                logger.warning(
                    "%s: partition %s goes on at offset %d: the source's retention took %d offsets before they were copied",
                    self._name, target.wanted.source, extent[0], lost,
                )  # fmt: skip
        self._room.ring()

    async def _check(self, target: Target) -> None:
        sent = target.copy.to_check
        try:
            if sent is not None:
                target.copy.checked(sent, await crc_at(self._target, target.wanted.target, sent.base), now_ms())
        except ClientError as error:
            logger.debug("%s: looking at %s: %s", self._name, target.wanted.target, error)
            target.copy.asking_failed(now_ms())
        finally:
            target.is_asking = False
            self._work.ring()

    def _failed(self, targets: Sequence[Target]) -> None:
        for target in targets:
            target.is_asking = False
            target.copy.asking_failed(now_ms())


def now_ms() -> int:
    """A clock that never goes back."""
    return int(asyncio.get_running_loop().time() * 1000)


def _epoch(client: Client, partition: TopicPartition) -> int:
    known = client.view.leader(partition)
    return -1 if known is None else known.leader_epoch
