"""Lookups of copies: the source's offsets, for copies of any kind."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

from isthmus_client.clock import monotonic_ms
from isthmus_client.errors import ClientError
from isthmus_copying.edge.leaders import Leaders

from isthmus_mirror.core.partition import PartitionCopy, SourceRange, Stage
from isthmus_mirror.edge.destination_reads import extents
from isthmus_mirror.edge.targets import Route, Target, is_same_source

logger = logging.getLogger(__name__)

C = TypeVar("C", bound=PartitionCopy)


class SourceLookups:
    """The lookups of a flow's source; `completed` is called after each."""

    def __init__(self, route: Route, completed: Callable[[], None]) -> None:
        self._route = route
        self._completed = completed

    def start(
        self, group: asyncio.TaskGroup, targets: Collection[Target[PartitionCopy]], leads_source: Leaders
    ) -> None:
        """Start one lookup per leader, so that an unresponsive leader does not delay the others."""
        for claimed in claim(targets, Stage.LOOK_UP_SOURCE, lambda one: leads_source.get(one.assignment.source)):
            group.create_task(self._look_up_source(claimed))

    async def _look_up_source(self, targets: Sequence[Target[PartitionCopy]]) -> None:
        try:
            partitions = [target.assignment.source for target in targets]
            ranges = await extents(self._route.source, partitions, read_committed=self._route.read_committed)
        except ClientError as error:
            logger.warning("%s: cannot look up the offsets of the source: %s", self._route.name, error)
            failed(targets)
            return
        now = monotonic_ms()
        for target in targets:
            target.is_looking_up = False
            extent = ranges.get(target.assignment.source)
            if extent is None or not is_same_source(self._route.source, target.assignment):
                target.copy.lookup_failed(now)
                continue
            lost = target.copy.counters.gap_offsets
            begin = extent[1] if self._route.begin_at_end else extent[0]
            target.copy.source_has(SourceRange(extent[0], begin, extent[1]), now)
            lost = target.copy.counters.gap_offsets - lost
            if lost:
                logger.warning(
                    "%s: partition %s continues at offset %d: the source's retention removed %d offsets before they were copied",
                    self._route.name, target.assignment.source, extent[0], lost,
                )  # fmt: skip
        self._completed()


def claim(targets: Iterable[Target[C]], stage: Stage, key: Callable[[Target[C]], object]) -> Iterable[list[Target[C]]]:
    """The partitions that need a lookup now, grouped by key."""
    now = monotonic_ms()
    claimed: dict[object, list[Target[C]]] = {}
    for target in targets:
        if not target.is_looking_up and target.copy.needs_lookup(stage, now):
            target.is_looking_up = True
            claimed.setdefault(key(target), []).append(target)
    return claimed.values()


def failed(targets: Sequence[Target[PartitionCopy]]) -> None:
    """End lookups that failed."""
    for target in targets:
        target.is_looking_up = False
        target.copy.lookup_failed(monotonic_ms())
