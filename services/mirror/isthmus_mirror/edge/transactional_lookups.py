"""Lookups of copies in transactions: what they have, and where to continue."""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence

from isthmus_client.admin import group_offsets
from isthmus_client.admin.group_offsets import Committed, GroupMetadata
from isthmus_client.clock import monotonic_ms
from isthmus_client.errors import ClientError

from isthmus_mirror.core.partition import UNKNOWN, Stage
from isthmus_mirror.core.settings import FlowSettings
from isthmus_mirror.core.transactional import Progress, TransactionalCopy
from isthmus_mirror.core.written import Written
from isthmus_mirror.edge.destination_reads import extents
from isthmus_mirror.edge.lookups import claim, failed
from isthmus_mirror.edge.progress_log import ProgressLog
from isthmus_mirror.edge.takeover import CannotTakeOver, taken_over
from isthmus_mirror.edge.targets import Assignment, Route, Target

logger = logging.getLogger(__name__)

Targets = Sequence[Target[TransactionalCopy]]


def metadata_of(assignment: Assignment) -> str:
    """The metadata of a committed source offset: the topics that it is about."""
    return f"{assignment.source_id} {assignment.target_id}"


def _is_of_this_copy(committed: Committed, assignment: Assignment) -> bool:
    """Whether an offset was committed for the current topic of the target, not for a deleted one of the same name."""
    return (committed.metadata or "").rpartition(" ")[2] == str(assignment.target_id)


class TransactionalLookups:
    """The lookups of a flow's copies in the target; `completed` is called after each."""

    def __init__(self, route: Route, log: ProgressLog, settings: FlowSettings, completed: Callable[[], None]) -> None:
        self._route = route
        self._log = log
        self._settings = settings
        self._completed = completed

    def start(
        self, tasks: asyncio.TaskGroup, targets: Collection[Target[TransactionalCopy]], group: GroupMetadata
    ) -> None:
        """Start the lookups that copies need, as this member of the flow's group."""
        for claimed in claim(targets, Stage.PLACE, lambda _one: None):
            tasks.create_task(self._place(claimed, group))

    async def _place(self, targets: Targets, group: GroupMetadata) -> None:
        """Wait for the transactions of earlier generations, then read what they have recorded.

        A mirror of an earlier generation can no longer commit offsets, and those that it has committed in a transaction are stable only
        when the transaction is complete.
        """
        try:
            partitions = [target.assignment.target for target in targets]
            ranges = await extents(self._route.target, partitions)
            offsets = await group_offsets.fetch(self._route.target, group.group_id, partitions, require_stable=True)
            await self._log.read_to_end()
        except ClientError as error:
            logger.warning("%s: cannot look up progress in the target: %s", self._route.name, error)
            failed(targets)
            return
        for target in targets:
            try:
                extent = ranges.get(target.assignment.target)
                await self._place_one(target, extent, offsets.get(target.assignment.target))
            except CannotTakeOver as reason:
                target.copy.fail(str(reason))
            except ClientError as error:
                logger.warning("%s: %s: %s", self._route.name, target.assignment.target, error)
                target.copy.lookup_failed(monotonic_ms())
            finally:
                target.is_looking_up = False
        self._completed()

    async def _place_one(
        self, target: Target[TransactionalCopy], extent: tuple[int, int] | None, committed: Committed | None
    ) -> None:
        assignment, copy = target.assignment, target.assignment.as_copy
        if extent is None:
            target.copy.lookup_failed(monotonic_ms())
            return
        start, end = extent
        position = UNKNOWN
        if committed is not None and _is_of_this_copy(committed, assignment):
            if committed.metadata != metadata_of(assignment):
                target.copy.fail("the source topic was recreated: delete the copy, or restore the topic")
                return
            position = committed.offset
        written = self._log.written(copy)
        jumps = self._log.jumps(copy)
        if jumps.certain or jumps.proposed:
            target.copy.fail(
                "the copy was written without transactions: delete it, or set exactly.once.source.support = disabled"
            )
            return
        unrecorded: tuple[Written, ...] = ()
        if not written and position == UNKNOWN and end > 0:
            taken = await taken_over(self._route, assignment, self._settings)
            if taken is not None:
                unrecorded, position = taken
                logger.info("%s: %s continues at offset %d", self._route.name, assignment.source, position)
        await self._log.delete_written(copy, start)
        target.copy.placed(Progress(written, position, unrecorded))
