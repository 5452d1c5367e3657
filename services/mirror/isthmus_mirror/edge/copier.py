"""Copying a flow's partitions: fetches from the source's brokers on one side, appends to the target's on the other.

Each source broker has one fetch under way over a session of its own, each target broker a few requests of appends. What is fetched,
appended or asked is decided by each partition's copy (`core/partition.py`); here the answers find their way.
"""

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import Final

from isthmus_client.append_after import BatchesAfter, append_after, supports_append_after
from isthmus_client.batch_io import Appended, Fetched, FetchFrom, FetchLimits, fetch_from, produce_to
from isthmus_client.client import Client
from isthmus_client.clock import monotonic_ms, wall_ms
from isthmus_client.errors import ClientError, Refused, RequestTimedOut
from isthmus_client.fetch_session import FetchSession
from isthmus_client.metadata import TopicPartition
from isthmus_copying.edge.leaders import Leaders, leaders_of
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
from isthmus_mirror.edge.lookups import Questions
from isthmus_mirror.edge.progress_log import ProgressLog
from isthmus_mirror.edge.targets import Assignment, Target, is_same_source

logger = logging.getLogger(__name__)

_TICK_SECONDS: Final = 1.0
"""How often leaders are looked at when nothing asks for it before."""
_PAUSE_SECONDS: Final = 0.05
"""Between two looks that were asked for, and for partitions that pause."""
_IDLE_SECONDS: Final = 0.25
_TOO_LARGE: Final = (ErrorCode.message_too_large, ErrorCode.record_list_too_large)
_NO_ANSWER: Final = ClientError("the broker left it out of its answer")


class FlowCopier:
    """Of one flow. `assign` says what to copy, `run` copies it."""

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
        self._leads_source: Leaders = {}
        self._leads_target: Leaders = {}
        self._fetching: set[int] = set()
        self._appending: set[int] = set()
        self._failing: set[int] = set()  # of the target's brokers; the first failure is worth a warning
        self._questions = Questions(
            name, source, target, log, self._answered, read_committed=read_committed, begin_at_end=begin_at_end
        )
        self._changed = Signal()  # leaders, or what a copy asks for
        self._room = Signal()  # something can be fetched again
        self._work = Signal()  # something can be appended
        self._to_record = Signal()

    def assign(self, wanted: Collection[Assignment]) -> None:
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
                group.create_task(self._questions.keep_looking(self.targets.values))
                while True:
                    await self._find_leaders()
                    self._tell_failures()
                    self._start_loops(group)
                    self._questions.start(group, self.targets.values(), self._leads_source, self._leads_target)
                    needs_lookup = self._questions.are_open(self.targets.values())
                    await self._changed.wait(_PAUSE_SECONDS if needs_lookup else _TICK_SECONDS)
                    await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            self.assign(())

    def _answered(self) -> None:
        """A copy knows more than before."""
        for signal in (self._changed, self._room, self._work, self._to_record):
            signal.ring()

    def _tell_failures(self) -> None:
        for target in self.targets.values():
            if target.copy.failure and not target.failure_told:
                target.failure_told = True
                logger.error(
                    "%s: partition %s is not copied: %s", self._name, target.wanted.source, target.copy.failure
                )

    # -- who leads -----------------------------------------------------------------------------------------------------------

    async def _find_leaders(self) -> None:
        now, led_before = monotonic_ms(), self._leads_target
        if any(target.copy.is_overdue(now) for target in self.targets.values()):
            self._target.invalidate(RequestTimedOut("an append is not answered"))
        copies = {target.wanted.target: target.copy for target in self.targets.values()}
        self._leads_source, self._leads_target = await asyncio.gather(
            leaders_of(self._source, list(self.targets), self._leads_source, self._name),
            leaders_of(self._target, list(copies), self._leads_target, self._name),
        )
        for partition, leader in self._leads_target.items():
            if leader != led_before.get(partition, leader) and partition in copies:
                copies[partition].leader_moved(monotonic_ms())

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
                wanted = [
                    (target, at) for target in targets if (at := target.copy.fetch_at(monotonic_ms())) is not None
                ]
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
            if self._leads_source.get(partition) == broker and is_same_source(self._source, target.wanted)
        ]

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
        now = monotonic_ms()
        for target, (offset, _) in wanted:
            # Looked at once more: ids are read from the metadata anew for every request.
            if not is_same_source(self._source, target.wanted):
                continue
            self._fetched(target, offset, answer.get(target.wanted.source), now)
        if any(target.copy.stage is Stage.LOOK_UP_SOURCE for target, _ in wanted):
            self._changed.ring()
        self._work.ring()

    def _fetched(self, target: Target, offset: int, got: Fetched | Refused | None, now: MonotonicMs) -> None:
        copy = target.copy
        if got is None:
            copy.source_unchanged(now)
            return
        if isinstance(got, Refused):
            copy.fetch_refused(offset, got.code, now)
            self._changed.ring()
            return
        end = got.last_stable_offset if self._read_committed else got.high_watermark
        at = wall_ms()
        result = FetchResult(memoryview(got.records), end, at, tuple(got.aborted), got.diverging_epoch)
        taken = copy.fetched(offset, result, now)
        if taken:
            target.latency.fetched(copy.newest_timestamp, at)
            self._to_record.ring()

    # -- jumps ---------------------------------------------------------------------------------------------------------------

    async def _record_jumps(self) -> None:
        """What must be durable before batches are sent, and what is certain since they came."""
        while True:
            proposed = [(t, jump) for t in self.targets.values() for jump in t.copy.jumps_to_record()]
            certain = [(t, jump) for t in self.targets.values() for jump in t.copy.jumps_to_confirm()]
            if not proposed and not certain:
                await self._to_record.wait(_TICK_SECONDS)
                continue
            try:
                await self._log.propose([(t.wanted.as_copy, jump) for t, jump in proposed])
                for target, jump in proposed:
                    target.copy.recorded([jump])
                self._work.ring()
                await self._log.confirm([(t.wanted.as_copy, jump) for t, jump in certain])
                for target, jump in certain:
                    target.copy.confirmed([jump])
            except ClientError as error:
                logger.warning("%s: progress cannot be written: %s", self._name, error)
                await asyncio.sleep(_PAUSE_SECONDS)

    # -- appending -----------------------------------------------------------------------------------------------------------

    async def _append_loop(self, group: asyncio.TaskGroup, broker: int) -> None:
        """While this broker leads anything."""
        under_way: set[asyncio.Task[None]] = set()
        try:
            while self._has_appends_for(broker) or under_way:
                if len(under_way) < APPENDS_MAX and (
                    wanted := self._appendable(broker, await self._is_chained(broker))
                ):
                    task = group.create_task(self._append(broker, wanted))
                    under_way.add(task)
                    task.add_done_callback(under_way.discard)
                    continue
                await self._work.wait(_IDLE_SECONDS)
        finally:
            self._appending.discard(broker)

    def _has_appends_for(self, broker: int) -> bool:
        return any(self._leads_target.get(target.wanted.target) == broker for target in self.targets.values())

    async def _is_chained(self, broker: int) -> bool | None:
        """Whether it takes batches behind a batch; None when it cannot be asked now."""
        try:
            return await supports_append_after(self._target, broker, lane=self._append_lane)
        except ClientError as error:
            self._broker_fails(broker, error)
            return None

    def _broker_fails(self, broker: int, error: ClientError) -> None:
        level = logging.DEBUG if broker in self._failing else logging.WARNING
        logger.log(level, "%s: appending at broker %d: %s", self._name, broker, error)
        self._failing.add(broker)
        self._target.invalidate(error)
        self._changed.ring()

    def _appendable(self, broker: int, chained: bool | None) -> list[tuple[Target, Stretch]]:
        """What can be sent now; what would make the request too long waits for the next."""
        now, size = monotonic_ms(), 0
        wanted: list[tuple[Target, Stretch]] = []
        for target in self.targets.values() if chained is not None else ():
            if self._leads_target.get(target.wanted.target) != broker or not self._is_same_target(target.wanted):
                continue
            stretch = target.copy.next_append(now, chained=bool(chained))
            if stretch is None:
                continue
            wanted.append((target, stretch))
            size += stretch.size
            if size >= APPEND_BYTES_MAX:
                break
        return wanted

    def _is_same_target(self, wanted: Assignment) -> bool:
        known = self._target.view.topics.get(wanted.target.topic)
        return known is not None and known.topic_id == wanted.target_id

    async def _append(self, broker: int, wanted: Sequence[tuple[Target, Stretch]]) -> None:
        try:
            if wanted[0][1].is_chained:
                await self._append_chained(broker, wanted)
            else:
                await self._append_singly(broker, wanted)
        except ClientError as error:
            self._broker_fails(broker, error)
            for target, sent in wanted:
                target.copy.append_refused(sent, monotonic_ms())
        else:
            self._failing.discard(broker)
        if any(target.copy.stage is not Stage.COPY for target, _ in wanted):
            self._changed.ring()
        if any(target.copy.jumps_to_confirm() for target, _ in wanted):
            self._to_record.ring()
        self._work.ring()
        self._room.ring()

    async def _append_chained(self, broker: int, wanted: Sequence[tuple[Target, Stretch]]) -> None:
        following = {
            target.wanted.target: BatchesAfter(sent.base, sent.after_crc, [out.data for out in sent.batches])
            for target, sent in wanted
        }
        answers = await append_after(
            self._target, broker, following, timeout_ms=APPEND_TIMEOUT_MS, lane=self._append_lane
        )
        for target, sent in wanted:
            refused = answers.get(target.wanted.target, _NO_ANSWER)
            if refused is not None:
                self._refused(target, sent, refused)
                continue
            target.copy.followed(sent, monotonic_ms())
            target.latency.appended(sent.newest_timestamp, wall_ms())

    async def _append_singly(self, broker: int, wanted: Sequence[tuple[Target, Stretch]]) -> None:
        batches = {target.wanted.target: sent.batches[0].data for target, sent in wanted}
        answers = await produce_to(self._target, broker, batches, timeout_ms=APPEND_TIMEOUT_MS, lane=self._append_lane)
        for target, sent in wanted:
            answer = answers.get(target.wanted.target, _NO_ANSWER)
            if not isinstance(answer, Appended):
                self._refused(target, sent, answer)
                continue
            target.copy.appended(sent, answer.base_offset, answer.log_append_time, monotonic_ms())
            target.latency.appended(sent.newest_timestamp, wall_ms())

    def _refused(self, target: Target, sent: Stretch, why: ClientError) -> None:
        logger.debug("%s: append at %d of %s: %s", self._name, sent.base, target.wanted.target, why)
        is_too_large = isinstance(why, Refused) and why.code in _TOO_LARGE
        target.copy.append_refused(sent, monotonic_ms(), is_too_large=is_too_large)


def _epoch(client: Client, partition: TopicPartition) -> int:
    known = client.view.leader(partition)
    return -1 if known is None else known.leader_epoch
