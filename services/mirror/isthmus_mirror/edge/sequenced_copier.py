"""Writing copies that only mirrors write: a few appends in flight to each broker of the target, and the record of progress.

Each partition's copy (`core/sequenced.py`) decides what to append and look up; this module sends requests and passes on responses.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Final

from isthmus_client.append_after import BatchesAfter, append_after, supports_append_after
from isthmus_client.batch_io import Appended, produce_to
from isthmus_client.clock import monotonic_ms, wall_ms
from isthmus_client.errors import ClientError, Refused, RequestTimedOut
from isthmus_copying.edge.append_loop import run_appends
from isthmus_copying.edge.copy_loops import PAUSE_SECONDS, TICK_SECONDS
from isthmus_copying.edge.leaders import leaders_of
from isthmus_service.signal import Signal
from isthmus_wire.errors import ErrorCode

from isthmus_mirror.core.limits import APPEND_BYTES_MAX, APPEND_TIMEOUT_MS, APPENDS_MAX
from isthmus_mirror.core.outbox import Stretch
from isthmus_mirror.core.partition import Stage
from isthmus_mirror.core.sequenced import SequencedCopy
from isthmus_mirror.edge.copier import FlowCopier
from isthmus_mirror.edge.progress_log import ProgressLog
from isthmus_mirror.edge.sequenced_lookups import SequencedLookups
from isthmus_mirror.edge.targets import Assignment, Route, Target

logger = logging.getLogger(__name__)

TOO_LARGE: Final = (ErrorCode.message_too_large, ErrorCode.record_list_too_large)
_OMITTED: Final = ClientError("the broker omitted the partition from its response")


class SequencedCopier(FlowCopier[SequencedCopy]):
    """The copies of a flow that only mirrors write."""

    def __init__(self, route: Route, log: ProgressLog) -> None:
        super().__init__(route)
        self._append_lane = f"append for {route.name}"
        self._log = log
        self._lookups = SequencedLookups(route, log, self._looked_up)
        self._to_record = Signal()

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            await self._loops.run(self, self._record_jumps(), self._lookups.watch_ends(self.targets.values))
        finally:
            self.assign(())

    def _new_copy(self, assignment: Assignment) -> SequencedCopy:
        return SequencedCopy(
            producer_id=assignment.producer_id,
            target_producer_id=assignment.target_producer_id,
            read_committed=self._route.read_committed,
        )

    def _place_copies(self, group: asyncio.TaskGroup) -> None:
        self._lookups.start(group, self.targets.values(), self._loops.leads_destination)

    def _looked_up(self) -> None:
        super()._looked_up()
        self._to_record.ring()

    def _buffered(self) -> None:
        self._to_record.ring()

    async def find_leaders(self) -> None:
        now, led_before = monotonic_ms(), self._loops.leads_destination
        if any(target.copy.is_overdue(now) for target in self.targets.values()):
            self._route.target.invalidate(RequestTimedOut("no response to an append"))
        copies = {target.assignment.target: target.copy for target in self.targets.values()}
        self._loops.leads_source, self._loops.leads_destination = await asyncio.gather(
            leaders_of(self._route.source, list(self.targets), self._loops.leads_source, self._route.name),
            leaders_of(self._route.target, list(copies), self._loops.leads_destination, self._route.name),
        )
        for partition, leader in self._loops.leads_destination.items():
            if leader != led_before.get(partition, leader) and partition in copies:
                copies[partition].leader_moved(monotonic_ms())

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
                logger.warning("%s: cannot write progress: %s", self._route.name, error)
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
            return await supports_append_after(self._route.target, broker, lane=self._append_lane)
        except ClientError as error:
            self._broker_fails(broker, error)
            return None

    def _broker_fails(self, broker: int, error: ClientError) -> None:
        self._route.target.invalidate(error)
        self._loops.append_failed(broker, error)

    def _appendable(self, broker: int, chained: bool | None) -> list[tuple[Target[SequencedCopy], Stretch]]:
        """The appends that can be sent now, up to the size limit of a request."""
        now, size = monotonic_ms(), 0
        batch: list[tuple[Target[SequencedCopy], Stretch]] = []
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
        current = self._route.target.view.topics.get(assignment.target.topic)
        return current is not None and current.topic_id == assignment.target_id

    async def _append(self, broker: int, batch: Sequence[tuple[Target[SequencedCopy], Stretch]]) -> None:
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

    async def _append_chained(self, broker: int, batch: Sequence[tuple[Target[SequencedCopy], Stretch]]) -> None:
        appends = {
            target.assignment.target: BatchesAfter(sent.base, sent.after_crc, [out.data for out in sent.batches])
            for target, sent in batch
        }
        responses = await append_after(
            self._route.target, broker, appends, timeout_ms=APPEND_TIMEOUT_MS, lane=self._append_lane
        )
        for target, sent in batch:
            refused = responses.get(target.assignment.target, _OMITTED)
            if refused is not None:
                self._refused(target, sent, refused)
                continue
            target.copy.followed(sent, monotonic_ms())
            target.latency.appended(sent.newest_timestamp, wall_ms())

    async def _append_singly(self, broker: int, batch: Sequence[tuple[Target[SequencedCopy], Stretch]]) -> None:
        batches = {target.assignment.target: sent.batches[0].data for target, sent in batch}
        responses = await produce_to(
            self._route.target, broker, batches, timeout_ms=APPEND_TIMEOUT_MS, lane=self._append_lane
        )
        for target, sent in batch:
            response = responses.get(target.assignment.target, _OMITTED)
            if not isinstance(response, Appended):
                self._refused(target, sent, response)
                continue
            target.copy.appended(sent, response.base_offset, response.log_append_time, monotonic_ms())
            target.latency.appended(sent.newest_timestamp, wall_ms())

    def _refused(self, target: Target[SequencedCopy], sent: Stretch, why: ClientError) -> None:
        logger.debug("%s: append at %d of %s: %s", self._route.name, sent.base, target.assignment.target, why)
        is_too_large = isinstance(why, Refused) and why.code in TOO_LARGE
        target.copy.append_refused(sent, monotonic_ms(), is_too_large=is_too_large)
