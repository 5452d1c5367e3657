"""Copying a flow's partitions: fetches from the source's brokers on one side, appends to the target's on the other.

Each source broker has one fetch in flight in a session of its own, each target broker a few appends. Each partition's copy
(`core/partition.py`) decides what to fetch, append and look up; this module sends requests and passes on responses.
"""

import asyncio
import logging
from collections.abc import Collection, Coroutine, Sequence
from typing import Final

from isthmus_client.append_after import BatchesAfter, append_after, supports_append_after
from isthmus_client.batch_io import Appended, Fetched, FetchFrom, FetchLimits, fetch_from, produce_to
from isthmus_client.client import Client
from isthmus_client.clock import monotonic_ms, wall_ms
from isthmus_client.errors import ClientError, Refused, RequestTimedOut
from isthmus_client.fetch_session import FetchSession
from isthmus_client.metadata import TopicPartition
from isthmus_copying.core.assignments import drop_reassigned
from isthmus_copying.edge.append_loop import run_appends
from isthmus_copying.edge.copy_loops import PAUSE_SECONDS, TICK_SECONDS, CopyLoops
from isthmus_copying.edge.leaders import leaders_of
from isthmus_model.clocks import MonotonicMs
from isthmus_service.signal import Signal
from isthmus_wire.errors import ErrorCode

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
from isthmus_mirror.core.outbox import Stretch
from isthmus_mirror.core.partition import FetchResult, PartitionCopy, Stage
from isthmus_mirror.edge.lookups import Lookups
from isthmus_mirror.edge.progress_log import ProgressLog
from isthmus_mirror.edge.targets import Assignment, Target, is_same_source

logger = logging.getLogger(__name__)

_TOO_LARGE: Final = (ErrorCode.message_too_large, ErrorCode.record_list_too_large)
_OMITTED: Final = ClientError("the broker omitted the partition from its response")


class FlowCopier:
    """The copies of one flow. `assign` sets the partitions, `run` copies them."""

    def __init__(
        self, name: str, source: Client, target: Client, log: ProgressLog, *, read_committed: bool, begin_at_end: bool
    ) -> None:
        self.targets: dict[TopicPartition, Target] = {}
        """By the source's partition."""
        self._name = name
        self._append_lane = f"append for {name}"
        self._source = source
        self._target = target
        self._log = log
        self._read_committed = read_committed
        self._loops = CopyLoops(name)
        self._lookups = Lookups(
            name, source, target, log, self._wake_all, read_committed=read_committed, begin_at_end=begin_at_end
        )
        self._to_record = Signal()

    def assign(self, assignments: Collection[Assignment]) -> None:
        """Copy exactly these from now on."""
        keep = {one.source: one for one in assignments}
        if keep.keys() != self.targets.keys():
            logger.info("%s: this mirror copies %d partitions", self._name, len(keep))
        drop_reassigned(self.targets, keep)
        for partition, one in keep.items():
            if partition not in self.targets:
                copy = PartitionCopy(one.producer_id, one.target_producer_id, self._read_committed)
                self.targets[partition] = Target(one, copy)
                self._loops.changed.ring()

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            await self._loops.run(self, self._record_jumps(), self._lookups.watch_ends(self.targets.values))
        finally:
            self.assign(())

    def _wake_all(self) -> None:
        """Wake all loops: a lookup of a copy has completed."""
        self._loops.wake()
        self._to_record.ring()

    def start_lookups(self, group: asyncio.TaskGroup) -> bool:
        """Log the failures of copies, and look up what the others need."""
        self._log_failures()
        self._lookups.start(group, self.targets.values(), self._loops.leads_source, self._loops.leads_destination)
        return self._lookups.are_pending(self.targets.values())

    def _log_failures(self) -> None:
        for target in self.targets.values():
            if target.copy.failure and not target.failure_logged:
                target.failure_logged = True
                logger.error(
                    "%s: partition %s is not copied: %s", self._name, target.assignment.source, target.copy.failure
                )

    # -- leaders ------------------------------------------------------------------------------------------------------------

    async def find_leaders(self) -> None:
        now, led_before = monotonic_ms(), self._loops.leads_destination
        if any(target.copy.is_overdue(now) for target in self.targets.values()):
            self._target.invalidate(RequestTimedOut("no response to an append"))
        copies = {target.assignment.target: target.copy for target in self.targets.values()}
        self._loops.leads_source, self._loops.leads_destination = await asyncio.gather(
            leaders_of(self._source, list(self.targets), self._loops.leads_source, self._name),
            leaders_of(self._target, list(copies), self._loops.leads_destination, self._name),
        )
        for partition, leader in self._loops.leads_destination.items():
            if leader != led_before.get(partition, leader) and partition in copies:
                copies[partition].leader_moved(monotonic_ms())

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
                logger.log(level, "%s: fetching from broker %d of the source: %s", self._name, broker, error)
                self._loops.changed.ring()
                await asyncio.sleep(self._source.pause(failures))

    def _led_by(self, broker: int) -> list[Target]:
        return [
            target
            for partition, target in self.targets.items()
            if self._loops.leads_source.get(partition) == broker and is_same_source(self._source, target.assignment)
        ]

    def _limits(self, targets: Sequence[Target]) -> FetchLimits:
        """Shorten the wait while the fetch omits a full partition, which may have room again at any moment."""
        soon = any(target.copy.is_full for target in targets)
        share = max(IN_FLIGHT_BYTES_MAX // (2 * max(len(self._loops.fetching), 1)), FETCH_BYTES_LEAST)
        return FetchLimits(
            wait_ms=SHORT_WAIT_MS if soon else FETCH_WAIT_MS,
            max_bytes=min(FETCH_BYTES_MAX, share),
            read_committed=self._read_committed,
        )

    async def _fetch(
        self, broker: int, fetches: Sequence[tuple[Target, tuple[int, int]]], limits: FetchLimits, session: FetchSession
    ) -> None:
        """Fetch once and pass the results to the copies."""
        at = {
            target.assignment.source: FetchFrom(
                offset, PARTITION_BYTES, _epoch(self._source, target.assignment.source), last_epoch
            )
            for target, (offset, last_epoch) in fetches
        }
        response = await fetch_from(self._source, broker, at, limits, session=session, lane=f"fetch for {self._name}")
        now = monotonic_ms()
        for target, (offset, _) in fetches:
            # Checked again: the request used the topic ids of the metadata at that moment.
            if not is_same_source(self._source, target.assignment):
                continue
            self._fetched(target, offset, response.get(target.assignment.source), now)
        if any(target.copy.stage is Stage.LOOK_UP_SOURCE for target, _ in fetches):
            self._loops.changed.ring()
        self._loops.work.ring()

    def _fetched(self, target: Target, offset: int, result: Fetched | Refused | None, now: MonotonicMs) -> None:
        copy = target.copy
        if result is None:
            copy.source_unchanged(now)
            return
        if isinstance(result, Refused):
            copy.fetch_refused(offset, result.code, now)
            self._loops.changed.ring()
            return
        end = result.last_stable_offset if self._read_committed else result.high_watermark
        at = wall_ms()
        fetched = FetchResult(memoryview(result.records), end, at, tuple(result.aborted), result.diverging_epoch)
        buffered = copy.fetched(offset, fetched, now)
        if buffered:
            target.latency.fetched(copy.newest_timestamp, at)
            self._to_record.ring()

    # -- jumps ---------------------------------------------------------------------------------------------------------------

    async def _record_jumps(self) -> None:
        """Write proposed jumps before their batches are sent, and certain ones after they were appended."""
        while True:
            proposed = [(t, jump) for t in self.targets.values() for jump in t.copy.jumps_to_record()]
            certain = [(t, jump) for t in self.targets.values() for jump in t.copy.jumps_to_confirm()]
            if not proposed and not certain:
                await self._to_record.wait(TICK_SECONDS)
                continue
            try:
                await self._log.propose([(t.assignment.as_copy, jump) for t, jump in proposed])
                for target, jump in proposed:
                    target.copy.recorded([jump])
                self._loops.work.ring()
                await self._log.confirm([(t.assignment.as_copy, jump) for t, jump in certain])
                for target, jump in certain:
                    target.copy.confirmed([jump])
            except ClientError as error:
                logger.warning("%s: cannot write progress: %s", self._name, error)
                await asyncio.sleep(PAUSE_SECONDS)

    # -- appending -----------------------------------------------------------------------------------------------------------

    async def append_loop(self, group: asyncio.TaskGroup, broker: int) -> None:
        """Run while this broker is a leader of any partition."""

        async def next_append() -> Coroutine[None, None, None] | None:
            batch = self._appendable(broker, await self._is_chained(broker))
            return self._append(broker, batch) if batch else None

        await run_appends(group, lambda: self._has_appends_for(broker), next_append, self._loops.work, APPENDS_MAX)

    def _has_appends_for(self, broker: int) -> bool:
        return any(
            self._loops.leads_destination.get(target.assignment.target) == broker for target in self.targets.values()
        )

    async def _is_chained(self, broker: int) -> bool | None:
        """Whether the broker supports AppendAfter; None while it is unreachable."""
        try:
            return await supports_append_after(self._target, broker, lane=self._append_lane)
        except ClientError as error:
            self._broker_fails(broker, error)
            return None

    def _broker_fails(self, broker: int, error: ClientError) -> None:
        self._target.invalidate(error)
        self._loops.append_failed(broker, error)

    def _appendable(self, broker: int, chained: bool | None) -> list[tuple[Target, Stretch]]:
        """The appends that can be sent now, up to the size limit of a request."""
        now, size = monotonic_ms(), 0
        batch: list[tuple[Target, Stretch]] = []
        for target in self.targets.values() if chained is not None else ():
            if self._loops.leads_destination.get(target.assignment.target) != broker or not self._is_same_target(
                target.assignment
            ):
                continue
            stretch = target.copy.next_append(now, chained=bool(chained))
            if stretch is None:
                continue
            batch.append((target, stretch))
            size += stretch.size
            if size >= APPEND_BYTES_MAX:
                break
        return batch

    def _is_same_target(self, assignment: Assignment) -> bool:
        current = self._target.view.topics.get(assignment.target.topic)
        return current is not None and current.topic_id == assignment.target_id

    async def _append(self, broker: int, batch: Sequence[tuple[Target, Stretch]]) -> None:
        try:
            if batch[0][1].is_chained:
                await self._append_chained(broker, batch)
            else:
                await self._append_singly(broker, batch)
        except ClientError as error:
            self._broker_fails(broker, error)
            for target, sent in batch:
                target.copy.append_refused(sent, monotonic_ms())
        else:
            self._loops.append_succeeded(broker)
        if any(target.copy.stage is not Stage.COPY for target, _ in batch):
            self._loops.changed.ring()
        if any(target.copy.jumps_to_confirm() for target, _ in batch):
            self._to_record.ring()
        self._loops.work.ring()
        self._loops.room.ring()

    async def _append_chained(self, broker: int, batch: Sequence[tuple[Target, Stretch]]) -> None:
        appends = {
            target.assignment.target: BatchesAfter(sent.base, sent.after_crc, [out.data for out in sent.batches])
            for target, sent in batch
        }
        responses = await append_after(
            self._target, broker, appends, timeout_ms=APPEND_TIMEOUT_MS, lane=self._append_lane
        )
        for target, sent in batch:
            refused = responses.get(target.assignment.target, _OMITTED)
            if refused is not None:
                self._refused(target, sent, refused)
                continue
            target.copy.followed(sent, monotonic_ms())
            target.latency.appended(sent.newest_timestamp, wall_ms())

    async def _append_singly(self, broker: int, batch: Sequence[tuple[Target, Stretch]]) -> None:
        batches = {target.assignment.target: sent.batches[0].data for target, sent in batch}
        responses = await produce_to(
            self._target, broker, batches, timeout_ms=APPEND_TIMEOUT_MS, lane=self._append_lane
        )
        for target, sent in batch:
            response = responses.get(target.assignment.target, _OMITTED)
            if not isinstance(response, Appended):
                self._refused(target, sent, response)
                continue
            target.copy.appended(sent, response.base_offset, response.log_append_time, monotonic_ms())
            target.latency.appended(sent.newest_timestamp, wall_ms())

    def _refused(self, target: Target, sent: Stretch, why: ClientError) -> None:
        logger.debug("%s: append at %d of %s: %s", self._name, sent.base, target.assignment.target, why)
        is_too_large = isinstance(why, Refused) and why.code in _TOO_LARGE
        target.copy.append_refused(sent, monotonic_ms(), is_too_large=is_too_large)


def _epoch(client: Client, partition: TopicPartition) -> int:
    current = client.view.leader(partition)
    return -1 if current is None else current.leader_epoch
