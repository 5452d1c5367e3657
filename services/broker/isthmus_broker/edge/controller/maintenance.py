"""Periodic tasks of the active controller: preferred leader elections, replicas and observers as constraints say, no-op records."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from isthmus_broker.core.metadata.auto_placement import (
    CHANGES_MAX,
    balance_leaders,
    release_observers,
    satisfy_constraints,
)
from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.metadata.result import ControllerContext, Result
from isthmus_broker.core.metadata.schema import NoOpRecord
from isthmus_broker.edge.background import background
from isthmus_broker.edge.controller.controller import Controller, NotController

logger = logging.getLogger(__name__)

CONSTRAINTS_SECONDS: Final = 1.0
"""How often placements are compared with their constraints, if anything has changed."""

Duty = Callable[[ClusterImage, ControllerContext], Result[None]]


class ControllerMaintenance:
    """Runs from `start` to `stop`, while this node is the active controller."""

    def __init__(self, controller: Controller, context: Callable[[], ControllerContext]) -> None:
        self._controller = controller
        self._context = context
        self._checked: ClusterImage | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin."""
        self._tasks = [background(work()) for work in (self._satisfy_constraints, self._balance, self._write_no_ops)]

    def stop(self) -> None:
        """Stop the tasks."""
        for task in self._tasks:
            task.cancel()
        self._tasks = []
        self._checked = None

    async def _satisfy_constraints(self) -> None:
        while True:
            await asyncio.sleep(CONSTRAINTS_SECONDS)
            image = self._controller.history.latest
            if image is not self._checked:
                self._checked = image
                moved = await self._do(satisfy_constraints)
                if moved:
                    logger.info("%d partitions are reassigned to satisfy their topics' placement constraints", moved)
                released = await self._do(release_observers)
                if released:
                    logger.info(
                        "the observers of %d partitions without constraints are ordinary replicas now", released
                    )

    async def _balance(self) -> None:
        while True:
            settings = self._context().node.values
            interval = settings["leader.imbalance.check.interval.seconds"]
            assert isinstance(interval, int)
            await asyncio.sleep(interval)
            moved = CHANGES_MAX
            while moved == CHANGES_MAX and settings["auto.leader.rebalance.enable"]:
                moved = await self._do(balance_leaders)
                if moved:
                    logger.info("%d partitions were given back to their preferred leaders", moved)

    async def _write_no_ops(self) -> None:
        """Append a record without effect at each interval, as Kafka does: the age of a node's metadata is known while nothing changes."""
        interval_ms = self._context().node.settings.metadata_max_idle_interval_ms
        while interval_ms:
            await asyncio.sleep(interval_ms / 1000)
            await self._do(lambda _image, _context: Result((NoOpRecord(),), None))

    async def _do(self, duty: Duty) -> int:
        """The number of records written."""
        made: list[Any] = []

        def decided(image: ClusterImage) -> Result[None]:
            result = duty(image, self._context())
            made.extend(result.records)
            return result

        try:
            await self._controller.run(decided)
        except NotController:
            return 0
        return len(made)
