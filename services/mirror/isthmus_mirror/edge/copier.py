"""Copying a flow's partitions: fetches from the source's brokers.

Each source broker has one fetch in flight in a session of its own. Each partition's copy (`core/partition.py`) decides what to fetch and
look up; this module sends requests and passes on responses. How copies are written is decided by subclasses: `edge/sequenced_copier.py` and
`edge/transactional_copier.py`.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Generic, TypeVar

from isthmus_client.batch_io import Fetched, FetchFrom, FetchLimits, fetch_from
from isthmus_client.client import Client
from isthmus_client.clock import monotonic_ms, wall_ms
from isthmus_client.errors import ClientError, Refused
from isthmus_client.fetch_session import FetchSession
from isthmus_client.metadata import TopicPartition
from isthmus_copying.core.assignments import drop_reassigned
from isthmus_copying.edge.copy_loops import PAUSE_SECONDS, CopyLoops
from isthmus_model.clocks import MonotonicMs

from isthmus_mirror.core.limits import (
    FETCH_BYTES_LEAST,
    FETCH_BYTES_MAX,
    FETCH_WAIT_MS,
    IN_FLIGHT_BYTES_MAX,
    PARTITION_BYTES,
    SHORT_WAIT_MS,
)
from isthmus_mirror.core.partition import FetchResult, PartitionCopy, Stage
from isthmus_mirror.edge.lookups import SourceLookups
from isthmus_mirror.edge.targets import Assignment, Route, Target, is_same_source

logger = logging.getLogger(__name__)

C = TypeVar("C", bound=PartitionCopy)
_LOOKED_UP = (Stage.PLACE, Stage.LOOK_UP_SOURCE, Stage.CHECK)


class FlowCopier(ABC, Generic[C]):
    """The copies of one flow. `assign` sets the partitions, `run` copies them."""

    def __init__(self, route: Route) -> None:
        self.targets: dict[TopicPartition, Target[C]] = {}
        """By the source's partition."""
        self._route = route
        self._loops = CopyLoops(route.name)
        self._source_lookups = SourceLookups(route, self._looked_up)

    @abstractmethod
    async def run(self) -> None:
        """Run until cancelled."""

    @abstractmethod
    def _new_copy(self, assignment: Assignment) -> C:
        """The copy of a partition that was assigned."""

    @abstractmethod
    def _place_copies(self, group: asyncio.TaskGroup) -> None:
        """Start the lookups in the target that copies need."""

    @abstractmethod
    async def find_leaders(self) -> None:
        """Update the leaders of both sides."""

    @abstractmethod
    async def append_loop(self, group: asyncio.TaskGroup, broker: int) -> None:
        """Append while this broker of the target leads any partition."""

    def _looked_up(self) -> None:
        """Wake all loops: a lookup of a copy has completed."""
        self._loops.wake()

    @abstractmethod
    def _buffered(self) -> None:
        """React to fetched batches."""

    async def learn_origins(self) -> None:
        """Learn where the source's committed records were produced; raises ClientError."""

    async def _prepare(self, fetched: Collection[Fetched]) -> None:
        """Look up what is needed to copy these; raises ClientError."""

    def assign(self, assignments: Collection[Assignment]) -> None:
        """Copy exactly these from now on."""
        keep = {one.source: one for one in assignments}
        if keep.keys() != self.targets.keys():
            logger.info("%s: this mirror copies %d partitions", self._route.name, len(keep))
        drop_reassigned(self.targets, keep)
        for partition, one in keep.items():
            if partition not in self.targets:
                self.targets[partition] = Target(one, self._new_copy(one))
                self._loops.changed.ring()

    def start_lookups(self, group: asyncio.TaskGroup) -> bool:
        """Log the failures of copies, and look up what the others need."""
        self._log_failures()
        self._source_lookups.start(group, self.targets.values(), self._loops.leads_source)
        self._place_copies(group)
        return any(target.copy.stage in _LOOKED_UP for target in self.targets.values())

    def _log_failures(self) -> None:
        for target in self.targets.values():
            if target.copy.failure and not target.failure_logged:
                target.failure_logged = True
                logger.error(
                    "%s: partition %s is not copied: %s",
                    self._route.name,
                    target.assignment.source,
                    target.copy.failure,
                )

    # -- fetching ------------------------------------------------------------------------------------------------------------

    async def fetch_loop(self, broker: int) -> None:
        """Run while this broker is a leader of any partition."""
        session = FetchSession()
        failures = 0
        while targets := self._led_by(broker):
            fetches = [(target, at) for target in targets if (at := target.copy.fetch_at(monotonic_ms())) is not None]
            limits = self._limits(targets)
            if not fetches or sum(target.copy.buffered_bytes for target in targets) > limits.max_bytes:
                await self._loops.room.wait(PAUSE_SECONDS)
                continue
            try:
                await self._fetch(broker, fetches, limits, session)
                failures = 0
            except ClientError as error:
                failures += 1
                level = logging.WARNING if failures == 1 else logging.DEBUG
                logger.log(level, "%s: fetching from broker %d of the source: %s", self._route.name, broker, error)
                self._loops.changed.ring()
                await asyncio.sleep(self._route.source.pause(failures))

    def _led_by(self, broker: int) -> list[Target[C]]:
        return [
            target
            for partition, target in self.targets.items()
            if self._loops.leads_source.get(partition) == broker
            and is_same_source(self._route.source, target.assignment)
        ]

    def _limits(self, targets: Sequence[Target[C]]) -> FetchLimits:
        """Shorten the wait while the fetch omits a full partition, which may have room again at any moment."""
        soon = any(target.copy.is_full for target in targets)
        share = max(IN_FLIGHT_BYTES_MAX // (2 * max(len(self._loops.fetching), 1)), FETCH_BYTES_LEAST)
        return FetchLimits(
            wait_ms=SHORT_WAIT_MS if soon else FETCH_WAIT_MS,
            max_bytes=min(FETCH_BYTES_MAX, share),
            read_committed=self._route.read_committed,
        )

    async def _fetch(
        self,
        broker: int,
        fetches: Sequence[tuple[Target[C], tuple[int, int]]],
        limits: FetchLimits,
        session: FetchSession,
    ) -> None:
        """Fetch once and pass the results to the copies."""
        at = {
            target.assignment.source: FetchFrom(
                offset, PARTITION_BYTES, _epoch(self._route.source, target.assignment.source), last_epoch
            )
            for target, (offset, last_epoch) in fetches
        }
        response = await fetch_from(
            self._route.source, broker, at, limits, session=session, lane=f"fetch for {self._route.name}"
        )
        await self._prepare([result for result in response.values() if isinstance(result, Fetched)])
        now = monotonic_ms()
        for target, (offset, _) in fetches:
            # Checked again: the request used the topic ids of the metadata at that moment.
            if not is_same_source(self._route.source, target.assignment):
                continue
            self._fetched(target, offset, response.get(target.assignment.source), now)
        if any(target.copy.stage is Stage.LOOK_UP_SOURCE for target, _ in fetches):
            self._loops.changed.ring()
        self._loops.work.ring()

    def _fetched(self, target: Target[C], offset: int, result: Fetched | Refused | None, now: MonotonicMs) -> None:
        copy = target.copy
        if result is None:
            copy.source_unchanged(now)
            return
        if isinstance(result, Refused):
            copy.fetch_refused(offset, result.code, now)
            self._loops.changed.ring()
            return
        end = result.last_stable_offset if self._route.read_committed else result.high_watermark
        at = wall_ms()
        fetched = FetchResult(memoryview(result.records), end, at, tuple(result.aborted), result.diverging_epoch)
        buffered = copy.fetched(offset, fetched, now)
        if buffered:
            target.latency.fetched(copy.newest_timestamp, at)
            self._buffered()


def _epoch(client: Client, partition: TopicPartition) -> int:
    current = client.view.leader(partition)
    return -1 if current is None else current.leader_epoch
