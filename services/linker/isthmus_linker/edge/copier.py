"""Copying a link's partitions: fetches from the source's brokers on one side, appends to the destination's on the other.

Each source broker has one fetch in flight in a session of its own, each destination broker a few appends. Each partition's copy
(`core/partition.py`) decides what to fetch, append and look up; this module sends requests and passes on responses. Batches stay views of
the received bytes, from one socket to the other.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from isthmus_client.admin.mirrors import raise_leader_epochs
from isthmus_client.append_mirrored import Batches, LogEnd, append_to, progress
from isthmus_client.batch_io import Fetched, FetchFrom, FetchLimits, fetch_from
from isthmus_client.client import Client
from isthmus_client.clock import monotonic_ms
from isthmus_client.errors import ClientError, ConnectionFailed, Refused, RequestTimedOut
from isthmus_client.fetch_session import FetchSession
from isthmus_client.metadata import TopicPartition
from isthmus_copying.core.assignments import drop_reassigned
from isthmus_copying.edge.append_loop import run_appends
from isthmus_copying.edge.copy_loops import PAUSE_SECONDS, TICK_SECONDS, CopyLoops
from isthmus_copying.edge.leaders import leaders_of
from isthmus_model.clocks import MonotonicMs

from isthmus_linker.core.epochs import epoch_floor
from isthmus_linker.core.limits import APPEND_BYTES_MAX, APPEND_TIMEOUT_MS, APPENDS_MAX, SHORT_WAIT_MS
from isthmus_linker.core.partition import Append, Chunk, EndOfLog, FetchAt, FetchResult, PartitionCopy, Stage
from isthmus_linker.core.reachability import SourceReachability
from isthmus_linker.core.settings import LinkSettings
from isthmus_linker.edge.budget import Budget
from isthmus_linker.edge.source import source_ranges

logger = logging.getLogger(__name__)


class Assignment(NamedTuple):
    """A partition assigned to this worker. A recreated topic or a resumed mirror topic is another assignment."""

    source: TopicPartition
    source_id: UUID | None
    destination: TopicPartition
    topic_id: UUID | None
    since_ms: int


@dataclass(slots=True, eq=False)
class Target:
    """An assigned partition and its copy."""

    assignment: Assignment
    copy: PartitionCopy
    is_looking_up: bool = False


class LinkCopier:
    """The copies of one link. `assign` sets the partitions, `run` copies them."""

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
        self._loops = CopyLoops(f"link {name}")

    def assign(self, assignments: Collection[Assignment], settings: LinkSettings) -> None:
        """Copy exactly these from now on."""
        self._settings = settings
        keep = {one.destination: one for one in assignments}
        if keep.keys() != self.targets.keys():
            logger.info("link %s: this worker copies %d partitions", self._name, len(keep))
        drop_reassigned(self.targets, keep)
        for partition, one in keep.items():
            if partition not in self.targets:
                copy = PartitionCopy(settings.retry_timeout_ms, settings.backoff_max_ms)
                self.targets[partition] = Target(one, copy)
                self._loops.changed.ring()

    async def run(self) -> None:
        """Copy the assigned partitions until cancelled."""
        try:
            await self._loops.run(self, self._keep_epochs())
        finally:
            self.assign_nothing()

    def assign_nothing(self) -> None:
        """Stop all copies."""
        for target in self.targets.values():
            target.copy.stop()
        self.targets.clear()

    @property
    def source_brokers(self) -> dict[int, bool]:
        """The brokers of the source that are fetched from, and whether the last fetch from each succeeded."""
        return {
            broker: broker not in self._reachability.unresponsive_brokers for broker in sorted(self._loops.fetching)
        }

    # -- leaders ------------------------------------------------------------------------------------------------------------

    async def find_leaders(self) -> None:
        sources = [target.assignment.source for target in self.targets.values()]
        now, led_before = monotonic_ms(), self._loops.leads_destination
        if any(target.copy.is_overdue(now) for target in self.targets.values()):
            self._destination.invalidate(RequestTimedOut("no response to an append"))
        self._loops.leads_source, self._loops.leads_destination = await asyncio.gather(
            leaders_of(self._source, sources, self._loops.leads_source, f"link {self._name}, source"),
            leaders_of(
                self._destination, list(self.targets), self._loops.leads_destination, f"link {self._name}, destination"
            ),
        )
        for partition, leader in led_before.items():
            target = self.targets.get(partition)
            if target is not None and self._loops.leads_destination.get(partition) != leader:
                target.copy.leader_moved(monotonic_ms())

    # -- fetching ------------------------------------------------------------------------------------------------------------

    async def fetch_loop(self, broker: int) -> None:
        """Run while this broker is a leader of any partition."""
        session = FetchSession()
        in_memory: list[list[Chunk]] = []
        failures = 0
        self._budget.enter()
        try:
            while targets := self._led_by(broker):
                in_memory = [chunks for chunks in in_memory if not all(chunk.released for chunk in chunks)]
                fetches = self._fetchable(targets)
                limits = self._limits(targets)
                if not fetches or _bytes_of(in_memory) > limits.max_bytes:
                    await self._loops.room.wait(PAUSE_SECONDS)
                    continue
                try:
                    in_memory.append(await self._fetch(broker, fetches, limits, session))
                    failures = 0
                    self._reachability.unresponsive_brokers.discard(broker)
                except ClientError as error:
                    failures += 1
                    if isinstance(error, ConnectionFailed):
                        self._reachability.unresponsive_brokers.add(broker)
                    level = logging.WARNING if failures == 1 else logging.DEBUG
                    logger.log(level, "link %s: fetching from broker %d of the source: %s", self._name, broker, error)
                    self._loops.changed.ring()
                    await asyncio.sleep(self._source.pause(failures))
        finally:
            self._budget.leave()
            self._reachability.unresponsive_brokers.discard(broker)

    def _led_by(self, broker: int) -> list[Target]:
        return [
            target
            for target in self.targets.values()
            if self._loops.leads_source.get(target.assignment.source) == broker
            and self._is_same_source(target.assignment)
        ]

    def _is_same_source(self, assignment: Assignment) -> bool:
        """A recreated topic has other records at the same offsets; undetected at sources without topic ids."""
        current = self._source.view.topics.get(assignment.source.topic)
        return (
            current is None
            or None in (current.topic_id, assignment.source_id)
            or current.topic_id == assignment.source_id
        )

    def _fetchable(self, targets: Sequence[Target]) -> list[tuple[Target, FetchAt]]:
        now = monotonic_ms()
        return [(target, at) for target in targets if (at := target.copy.fetch_at(now)) is not None]

    def _limits(self, targets: Sequence[Target]) -> FetchLimits:
        """Shorten the wait while the fetch omits a full partition, which may have room again at any moment."""
        settings = self._settings
        assert settings is not None, "there are targets, so they were assigned"
        soon = any(target.copy.is_full for target in targets)
        return FetchLimits(
            wait_ms=min(SHORT_WAIT_MS, settings.fetch_wait_ms) if soon else settings.fetch_wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=self._budget.share(settings.fetch_bytes),
        )

    async def _fetch(
        self, broker: int, fetches: Sequence[tuple[Target, FetchAt]], limits: FetchLimits, session: FetchSession
    ) -> list[Chunk]:
        """Fetch once and return the new chunks."""
        assert self._settings is not None
        at = {
            target.assignment.source: FetchFrom(
                place.offset,
                self._settings.partition_bytes,
                _epoch(self._source, target.assignment.source),
                place.last_epoch,
            )
            for target, place in fetches
        }
        response = await fetch_from(
            self._source, broker, at, limits, session=session, lane=f"fetch for link {self._name}"
        )
        now = monotonic_ms()
        chunks = [
            chunk
            for target, place in fetches
            # Checked again: the request used the topic ids of the metadata at that moment.
            if self._is_same_source(target.assignment)
            and (chunk := self._fetched(target, place, at[target.assignment.source], response, now)) is not None
        ]
        if any(target.copy.stage is Stage.LOOK_UP_SOURCE for target, _ in fetches):
            self._loops.changed.ring()
        self._loops.work.ring()
        return chunks

    def _fetched(
        self,
        target: Target,
        place: FetchAt,
        request: FetchFrom,
        response: Mapping[TopicPartition, Fetched | Refused],
        now: MonotonicMs,
    ) -> Chunk | None:
        result = response.get(target.assignment.source)
        if result is None:
            target.copy.source_unchanged(now)
            return None
        if isinstance(result, Refused):
            target.copy.fetch_refused(place, result.code, request.leader_epoch, now)
            self._loops.changed.ring()
            return None
        fetched = FetchResult(
            memoryview(result.records), result.high_watermark, result.leader_epoch, result.diverging_epoch
        )
        return target.copy.fetched(place, fetched, now)

    # -- appending -----------------------------------------------------------------------------------------------------------

    async def append_loop(self, group: asyncio.TaskGroup, broker: int) -> None:
        """Run while this broker is a leader of any partition."""

        async def next_append() -> Coroutine[None, None, None] | None:
            batch = self._appendable(broker)
            return self._append(broker, batch) if batch else None

        await run_appends(group, lambda: self._has_appends_for(broker), next_append, self._loops.work, APPENDS_MAX)

    def _has_appends_for(self, broker: int) -> bool:
        return any(self._loops.leads_destination.get(partition) == broker for partition in self.targets)

    def _appendable(self, broker: int) -> list[tuple[Target, Append]]:
        """The appends that can be sent now, up to the size limit of a request."""
        now, size = monotonic_ms(), 0
        batch: list[tuple[Target, Append]] = []
        for partition, target in self.targets.items():
            if self._loops.leads_destination.get(partition) != broker:
                continue
            append = target.copy.next_append(now)
            if append is None:
                continue
            batch.append((target, append))
            size += 0 if append.chunk is None else len(append.chunk.records)
            if size >= APPEND_BYTES_MAX:
                break
        return batch

    async def _append(self, broker: int, batch: Sequence[tuple[Target, Append]]) -> None:
        batches = {
            target.assignment.destination: _batches(sent)
            for target, sent in batch
            if self._is_same_topic(target.assignment)
        }
        responses: dict[TopicPartition, LogEnd] = {}
        try:
            responses = await append_to(
                self._destination,
                broker,
                self._link_id,
                batches,
                timeout_ms=APPEND_TIMEOUT_MS,
                lane=f"append for link {self._name}",
            )
        except ClientError as error:
            self._loops.append_failed(broker, error)
        else:
            self._loops.append_succeeded(broker)
        now = monotonic_ms()
        for target, sent in batch:
            response = responses.get(target.assignment.destination)
            if response is None:
                target.copy.append_lost(sent, now)
            else:
                self._handle_appended(target, sent, response, now)
        self._loops.work.ring()
        self._loops.room.ring()

    def _is_same_topic(self, assignment: Assignment) -> bool:
        """Whether the metadata still has the topic id that was assigned; an append carries the id from the metadata."""
        current = self._destination.view.topics.get(assignment.destination.topic)
        return current is not None and current.topic_id == assignment.topic_id

    def _handle_appended(self, target: Target, sent: Append, response: LogEnd, now: MonotonicMs) -> None:
        log = EndOfLog(response.log_end, response.last_epoch)
        if response.refused is None:
            target.copy.appended(sent, log)
            return
        logger.debug("link %s: append: %s", self._name, response.refused)
        target.copy.append_refused(sent, response.refused.code, log, now)
        self._loops.changed.ring()

    # -- lookups -------------------------------------------------------------------------------------------------------------

    def start_lookups(self, group: asyncio.TaskGroup) -> bool:
        """Start one lookup per leader, so that an unresponsive leader does not delay the others."""
        for targets in self._claim(
            Stage.LOOK_UP_DESTINATION, lambda t: self._loops.leads_destination.get(t.assignment.destination)
        ):
            group.create_task(self._look_up_destination(targets))
        for targets in self._claim(Stage.LOOK_UP_SOURCE, lambda t: self._loops.leads_source.get(t.assignment.source)):
            group.create_task(self._look_up_source(targets))
        return any(
            target.copy.stage in (Stage.LOOK_UP_DESTINATION, Stage.LOOK_UP_SOURCE) for target in self.targets.values()
        )

    def _claim(self, stage: Stage, leader: Callable[[Target], int | None]) -> Iterable[list[Target]]:
        now = monotonic_ms()
        claimed: dict[int | None, list[Target]] = {}
        for target in self.targets.values():
            if not target.is_looking_up and target.copy.needs_lookup(stage, now):
                target.is_looking_up = True
                claimed.setdefault(leader(target), []).append(target)
        return claimed.values()

    async def _look_up_destination(self, targets: Sequence[Target]) -> None:
        responses = await progress(self._destination, [target.assignment.destination for target in targets])
        now = monotonic_ms()
        for target in targets:
            target.is_looking_up = False
            response = responses[target.assignment.destination]
            if isinstance(response, ClientError):
                logger.debug("link %s: %s", self._name, response)
                target.copy.lookup_failed(now)
            else:
                ends = EndOfLog(response.log_end_offset, response.last_epoch)
                target.copy.destination_ends(ends, response.high_watermark, now)
        self._loops.changed.ring()
        self._loops.room.ring()

    async def _look_up_source(self, targets: Sequence[Target]) -> None:
        assert self._settings is not None
        partitions = [target.assignment.source for target in targets]
        responses = await source_ranges(self._source, partitions, self._settings.start)
        now = monotonic_ms()
        for target in targets:
            target.is_looking_up = False
            response = responses[target.assignment.source]
            if isinstance(response, ClientError) or not self._is_same_source(target.assignment):
                logger.debug("link %s: the source's range of %s: %s", self._name, target.assignment.source, response)
                target.copy.lookup_failed(now)
                continue
            lost = target.copy.counters.gap_offsets
            target.copy.source_has(response, now)
            lost = target.copy.counters.gap_offsets - lost
            if lost:
                logger.warning(
                    "link %s: partition %s continues at offset %d: the source's retention removed %d offsets before they were copied",
                    self._name, target.assignment.destination, response.start, lost,
                )  # fmt: skip
        self._loops.room.ring()

    # -- leader epochs -------------------------------------------------------------------------------------------------------

    async def _keep_epochs(self) -> None:
        """Keep the destination's leader epochs above the source's, before batches need it."""
        while True:
            floors = self._floors()
            if floors:
                await self._raise(floors)
            await self._loops.changed.wait(TICK_SECONDS)
            await asyncio.sleep(PAUSE_SECONDS)

    def _floors(self) -> dict[TopicPartition, int]:
        floors: dict[TopicPartition, int] = {}
        for partition, target in self.targets.items():
            source = max(
                _epoch(self._source, target.assignment.source), target.copy.source_epoch, target.copy.needs_epoch_above
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
            logger.warning("link %s: cannot raise leader epochs: %s", self._name, error)
            return
        for refused in outcomes.values():
            if refused is not None:
                logger.warning("link %s: %s", self._name, refused)


def _epoch(client: Client, partition: TopicPartition) -> int:
    current = client.view.leader(partition)
    return -1 if current is None else current.leader_epoch


def _bytes_of(in_memory: Sequence[Sequence[Chunk]]) -> int:
    """Bytes in memory: a chunk is a view of its whole response, which stays until its last chunk is appended."""
    return sum(chunk.size for chunks in in_memory for chunk in chunks)


def _batches(sent: Append) -> Batches:
    records = None if sent.chunk is None else sent.chunk.records
    return Batches(sent.expected_end, records, sent.high_watermark, sent.source_epoch, sent.start_offset)
