"""Copying a link's partitions: fetches from the source's brokers on one side, appends to the destination's on the other.

Each source broker has one fetch under way over a session of its own, each destination broker a few appends. What is fetched, appended or
asked is decided by each partition's copy (`core/partition.py`); here the answers find their way. Batches stay views of what one socket
received, all the way to the other.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from isthmus_client.admin.mirrors import raise_leader_epochs
from isthmus_client.append_mirrored import Batches, LogEnd, append_to, progress
from isthmus_client.batch_io import Fetched, FetchFrom, FetchLimits, fetch_from
from isthmus_client.client import Client
from isthmus_client.clock import monotonic_ms
from isthmus_client.errors import ClientError, ConnectionFailed, Refused, RequestTimedOut
from isthmus_client.fetch_session import FetchSession
from isthmus_client.metadata import TopicPartition
from isthmus_copying.edge.leaders import Leaders, leaders_of
from isthmus_model.clocks import MonotonicMs
from isthmus_service.signal import Signal

from isthmus_linker.core.epochs import epoch_floor
from isthmus_linker.core.limits import APPEND_BYTES_MAX, APPEND_TIMEOUT_MS, APPENDS_MAX, SHORT_WAIT_MS
from isthmus_linker.core.partition import Append, Chunk, EndOfLog, FetchAt, News, PartitionCopy, Stage
from isthmus_linker.core.reachability import SourceReachability
from isthmus_linker.core.settings import LinkSettings
from isthmus_linker.edge.budget import Budget
from isthmus_linker.edge.source import source_ranges

logger = logging.getLogger(__name__)

_TICK_SECONDS: Final = 1.0
"""How often leaders and epochs are looked at when nothing asks for it before."""
_PAUSE_SECONDS: Final = 0.05
"""Between two looks that were asked for, and for partitions that pause."""
_IDLE_SECONDS: Final = 0.25
"""How often it is seen whether the destination is owed word of idle partitions; what was fetched does not wait for that."""


class Wanted(NamedTuple):
    """A partition that this worker is to copy. It is another task when the topic is made anew, or its mirror taken up again."""

    source: TopicPartition
    source_id: UUID | None
    destination: TopicPartition
    topic_id: UUID | None
    since_ms: int


@dataclass(slots=True, eq=False)
class Target:
    """A partition that is copied."""

    wanted: Wanted
    copy: PartitionCopy
    is_asking: bool = False


class LinkCopier:
    """Of one link. `assign` says what to copy, `run` copies it."""

    def __init__(
        self,
        name: str,
        link_id: UUID,
        source: Client,
        destination: Client,
        budget: Budget,
        reachability: SourceReachability,
    ) -> None:
        self.targets: dict[TopicPartition, Target] = {}
        """By the destination's partition."""
        self._name = name
        self._link_id = link_id
        self._source = source
        self._destination = destination
        self._budget = budget
        self._reachability = reachability
        self._settings: LinkSettings | None = None
        self._leads_source: Leaders = {}
        self._leads_destination: Leaders = {}
        self._fetching: set[int] = set()
        self._appending: set[int] = set()
        self._failing: set[int] = set()  # of the destination's brokers; the first failure is worth a warning
        self._changed = Signal()  # leaders, or what a copy asks for
        self._room = Signal()  # something can be fetched again
        self._work = Signal()  # something can be appended

    def assign(self, wanted: Collection[Wanted], settings: LinkSettings) -> None:
        """Copy exactly these from now on."""
        self._settings = settings
        keep = {one.destination: one for one in wanted}
        if keep.keys() != self.targets.keys():
            logger.info("link %s: this worker copies %d partitions", self._name, len(keep))
        for partition, target in list(self.targets.items()):
            if keep.get(partition) != target.wanted:
                target.copy.stop()
                del self.targets[partition]
        for partition, one in keep.items():
            if partition not in self.targets:
                copy = PartitionCopy(settings.retry_timeout_ms, settings.backoff_max_ms)
                self.targets[partition] = Target(one, copy)
                self._changed.ring()

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep_epochs())
                while True:
                    await self._find_leaders()
                    self._start_loops(group)
                    self._start_questions(group)
                    await self._changed.wait(_TICK_SECONDS if not self._has_questions() else _PAUSE_SECONDS)
                    await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            self.assign_nothing()

    def assign_nothing(self) -> None:
        """Let go of every partition."""
        for target in self.targets.values():
            target.copy.stop()
        self.targets.clear()

    @property
    def source_brokers(self) -> dict[int, bool]:
        """The brokers of the source that are fetched from, and whether the last fetch from each succeeded."""
        return {broker: broker not in self._reachability.unresponsive_brokers for broker in sorted(self._fetching)}

    # -- who leads -----------------------------------------------------------------------------------------------------------

    async def _find_leaders(self) -> None:
        sources = [target.wanted.source for target in self.targets.values()]
        now, led_before = monotonic_ms(), self._leads_destination
        if any(target.copy.is_overdue(now) for target in self.targets.values()):
            self._destination.invalidate(RequestTimedOut("an append is not answered"))
        self._leads_source, self._leads_destination = await asyncio.gather(
            leaders_of(self._source, sources, self._leads_source, f"link {self._name}, source"),
            leaders_of(
                self._destination, list(self.targets), self._leads_destination, f"link {self._name}, destination"
            ),
        )
        for partition, leader in led_before.items():
            target = self.targets.get(partition)
            if target is not None and self._leads_destination.get(partition) != leader:
                target.copy.leader_moved(monotonic_ms())

    def _start_loops(self, group: asyncio.TaskGroup) -> None:
        for broker in sorted(set(self._leads_source.values()) - self._fetching):
            self._fetching.add(broker)
            group.create_task(self._fetch_loop(broker))
        for broker in sorted(set(self._leads_destination.values()) - self._appending):
            self._appending.add(broker)
            group.create_task(self._append_loop(group, broker))

    # -- fetching ------------------------------------------------------------------------------------------------------------

    async def _fetch_loop(self, broker: int) -> None:
        """While this broker leads anything."""
        session = FetchSession()
        held: list[list[Chunk]] = []
        failures = 0
        self._budget.enter()
        try:
            while targets := self._led_by(broker):
                held = [chunks for chunks in held if not all(chunk.released for chunk in chunks)]
                wanted = self._fetchable(targets)
                limits = self._limits(targets)
                if not wanted or _bytes_of(held) > limits.max_bytes:
                    await self._room.wait(_PAUSE_SECONDS)
                    continue
                try:
                    held.append(await self._fetch(broker, wanted, limits, session))
                    failures = 0
                    self._reachability.unresponsive_brokers.discard(broker)
                except ClientError as error:
                    failures += 1
                    if isinstance(error, ConnectionFailed):
                        self._reachability.unresponsive_brokers.add(broker)
                    level = logging.WARNING if failures == 1 else logging.DEBUG
                    logger.log(level, "link %s: fetching from broker %d of the source: %s", self._name, broker, error)
                    self._changed.ring()
                    await asyncio.sleep(self._source.pause(failures))
        finally:
            self._budget.leave()
            self._fetching.discard(broker)
            self._reachability.unresponsive_brokers.discard(broker)

    def _led_by(self, broker: int) -> list[Target]:
        return [
            target
            for target in self.targets.values()
            if self._leads_source.get(target.wanted.source) == broker and self._is_same_source(target.wanted)
        ]

    def _is_same_source(self, wanted: Wanted) -> bool:
        """A topic made anew under the name has other records at the same offsets. Sources without ids cannot tell."""
        known = self._source.view.topics.get(wanted.source.topic)
        return known is None or None in (known.topic_id, wanted.source_id) or known.topic_id == wanted.source_id

    def _fetchable(self, targets: Sequence[Target]) -> list[tuple[Target, FetchAt]]:
        now = monotonic_ms()
        return [(target, at) for target in targets if (at := target.copy.fetch_at(now)) is not None]

    def _limits(self, targets: Sequence[Target]) -> FetchLimits:
        """A fetch does not wait long while a partition is left out that may have room again at any moment."""
        settings = self._settings
        assert settings is not None, "there are targets, so they were assigned"
        soon = any(target.copy.is_full for target in targets)
        return FetchLimits(
            wait_ms=min(SHORT_WAIT_MS, settings.fetch_wait_ms) if soon else settings.fetch_wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=self._budget.share(settings.fetch_bytes),
        )

    async def _fetch(
        self, broker: int, wanted: Sequence[tuple[Target, FetchAt]], limits: FetchLimits, session: FetchSession
    ) -> list[Chunk]:
        """One fetch; the chunks it brought."""
        assert self._settings is not None
        at = {
            target.wanted.source: FetchFrom(
                place.offset,
                self._settings.partition_bytes,
                _epoch(self._source, target.wanted.source),
                place.last_epoch,
            )
            for target, place in wanted
        }
        answer = await fetch_from(
            self._source, broker, at, limits, session=session, lane=f"fetch for link {self._name}"
        )
        now = monotonic_ms()
        chunks = [
            chunk
            for target, place in wanted
            # Looked at once more: ids are read from the metadata anew for every request.
            if self._is_same_source(target.wanted)
            and (chunk := self._fetched(target, place, at[target.wanted.source], answer, now)) is not None
        ]
        if any(target.copy.stage is Stage.ASK_SOURCE for target, _ in wanted):
            self._changed.ring()
        self._work.ring()
        return chunks

    def _fetched(
        self,
        target: Target,
        place: FetchAt,
        asked: FetchFrom,
        answer: Mapping[TopicPartition, Fetched | Refused],
        now: MonotonicMs,
    ) -> Chunk | None:
        got = answer.get(target.wanted.source)
        if got is None:
            target.copy.no_news(now)
            return None
        if isinstance(got, Refused):
            target.copy.fetch_refused(place, got.code, asked.leader_epoch, now)
            self._changed.ring()
            return None
        news = News(memoryview(got.records), got.high_watermark, got.leader_epoch, got.diverging_epoch)
        return target.copy.fetched(place, news, now)

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
        return any(self._leads_destination.get(partition) == broker for partition in self.targets)

    def _appendable(self, broker: int) -> list[tuple[Target, Append]]:
        """What can be sent now; what would make the request too long waits for the next."""
        now, size = monotonic_ms(), 0
        batch: list[tuple[Target, Append]] = []
        for partition, target in self.targets.items():
            if self._leads_destination.get(partition) != broker:
                continue
            wanted = target.copy.next_append(now)
            if wanted is None:
                continue
            batch.append((target, wanted))
            size += 0 if wanted.chunk is None else len(wanted.chunk.records)
            if size >= APPEND_BYTES_MAX:
                break
        return batch

    async def _append(self, broker: int, batch: Sequence[tuple[Target, Append]]) -> None:
        wanted = {
            target.wanted.destination: _batches(sent) for target, sent in batch if self._is_same_topic(target.wanted)
        }
        answers: dict[TopicPartition, LogEnd] = {}
        try:
            answers = await append_to(
                self._destination,
                broker,
                self._link_id,
                wanted,
                timeout_ms=APPEND_TIMEOUT_MS,
                lane=f"append for link {self._name}",
            )
        except ClientError as error:
            level = logging.DEBUG if broker in self._failing else logging.WARNING
            logger.log(level, "link %s: appending at broker %d: %s", self._name, broker, error)
            self._failing.add(broker)
            self._changed.ring()
        else:
            self._failing.discard(broker)
        now = monotonic_ms()
        for target, sent in batch:
            answer = answers.get(target.wanted.destination)
            if answer is None:
                target.copy.append_lost(sent, now)
            else:
                self._answered(target, sent, answer, now)
        self._work.ring()
        self._room.ring()

    def _is_same_topic(self, wanted: Wanted) -> bool:
        """Whether the id that goes along with an append is that of the topic this worker was told of."""
        known = self._destination.view.topics.get(wanted.destination.topic)
        return known is not None and known.topic_id == wanted.topic_id

    def _answered(self, target: Target, sent: Append, answer: LogEnd, now: MonotonicMs) -> None:
        log = EndOfLog(answer.log_end, answer.last_epoch)
        if answer.refused is None:
            target.copy.appended(sent, log)
            return
        logger.debug("link %s: append: %s", self._name, answer.refused)
        target.copy.append_refused(sent, answer.refused.code, log, now)
        self._changed.ring()

    # -- questions -----------------------------------------------------------------------------------------------------------

    def _has_questions(self) -> bool:
        return any(target.copy.stage in (Stage.ASK_DESTINATION, Stage.ASK_SOURCE) for target in self.targets.values())

    def _start_questions(self, group: asyncio.TaskGroup) -> None:
        """Each for the partitions of one leader that have it now, so that one without an answer holds up nobody else."""
        for targets in self._claim(Stage.ASK_DESTINATION, lambda t: self._leads_destination.get(t.wanted.destination)):
            group.create_task(self._ask_destination(targets))
        for targets in self._claim(Stage.ASK_SOURCE, lambda t: self._leads_source.get(t.wanted.source)):
            group.create_task(self._ask_source(targets))

    def _claim(self, stage: Stage, leader: Callable[[Target], int | None]) -> Iterable[list[Target]]:
        now = monotonic_ms()
        claimed: dict[int | None, list[Target]] = {}
        for target in self.targets.values():
            if not target.is_asking and target.copy.asks(stage, now):
                target.is_asking = True
                claimed.setdefault(leader(target), []).append(target)
        return claimed.values()

    async def _ask_destination(self, targets: Sequence[Target]) -> None:
        answers = await progress(self._destination, [target.wanted.destination for target in targets])
        now = monotonic_ms()
        for target in targets:
            target.is_asking = False
            answer = answers[target.wanted.destination]
            if isinstance(answer, ClientError):
                logger.debug("link %s: %s", self._name, answer)
                target.copy.asking_failed(now)
            else:
                ends = EndOfLog(answer.log_end_offset, answer.last_epoch)
                target.copy.destination_ends(ends, answer.high_watermark, now)
        self._changed.ring()
        self._room.ring()

    async def _ask_source(self, targets: Sequence[Target]) -> None:
        assert self._settings is not None
        wanted = [target.wanted.source for target in targets]
        answers = await source_ranges(self._source, wanted, self._settings.start)
        now = monotonic_ms()
        for target in targets:
            target.is_asking = False
            answer = answers[target.wanted.source]
            if isinstance(answer, ClientError) or not self._is_same_source(target.wanted):
                logger.debug("link %s: the source's range of %s: %s", self._name, target.wanted.source, answer)
                target.copy.asking_failed(now)
                continue
            lost = target.copy.counters.gap_offsets
            target.copy.source_has(answer, now)
            lost = target.copy.counters.gap_offsets - lost
            if lost:
                logger.warning(
                    "link %s: partition %s goes on at offset %d: the source's retention took %d offsets before they were copied",
                    self._name, target.wanted.destination, answer.start, lost,
                )  # fmt: skip
        self._room.ring()

    # -- leader epochs -------------------------------------------------------------------------------------------------------

    async def _keep_epochs(self) -> None:
        """The destination's leader epochs stay above the source's, before batches need it."""
        while True:
            floors = self._floors()
            if floors:
                await self._raise(floors)
            await self._changed.wait(_TICK_SECONDS)
            await asyncio.sleep(_PAUSE_SECONDS)

    def _floors(self) -> dict[TopicPartition, int]:
        floors: dict[TopicPartition, int] = {}
        for partition, target in self.targets.items():
            source = max(
                _epoch(self._source, target.wanted.source), target.copy.source_epoch, target.copy.needs_epoch_above
            )
            own = self._destination.view.leader(partition)
            floor = epoch_floor(source, own.leader_epoch) if own is not None else None
            if floor is not None:
                floors[partition] = floor
        return floors

    async def _raise(self, floors: Mapping[TopicPartition, int]) -> None:
        try:
            outcomes = await raise_leader_epochs(self._destination, floors)
            await self._destination.refresh({partition.topic for partition in floors})
        except ClientError as error:
            logger.warning("link %s: leader epochs are not raised: %s", self._name, error)
            return
        for refused in outcomes.values():
            if refused is not None:
                logger.warning("link %s: %s", self._name, refused)


def _epoch(client: Client, partition: TopicPartition) -> int:
    known = client.view.leader(partition)
    return -1 if known is None else known.leader_epoch


def _bytes_of(held: Sequence[Sequence[Chunk]]) -> int:
    """A chunk is a view of the whole answer, so that is what is held until the last of them is appended."""
    return sum(chunk.size for chunks in held for chunk in chunks)


def _batches(sent: Append) -> Batches:
    records = None if sent.chunk is None else sent.chunk.records
    return Batches(sent.expected_end, records, sent.high_watermark, sent.source_epoch, sent.start_offset)
