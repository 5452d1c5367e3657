"""The clock of what the active controller does unasked: leaders back to where they should be, replicas to where they are wanted."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from isthmus_broker.core.metadata.auto_placement import ELECTIONS_MAX, balance_leaders, follow_constraints
from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.metadata.result import ControllerContext, Result
from isthmus_broker.edge.controller.controller import Controller, NotController

logger = logging.getLogger(__name__)

CONSTRAINTS_SECONDS: Final = 1.0
"""How often placements are compared with their constraints, if anything has changed."""

Duty = Callable[[ClusterImage, ControllerContext], Result[None]]


class ControllerUpkeep:
    """Works from `start` to `stop`, which is as long as this node is the active controller."""

    def __init__(self, controller: Controller, context: Callable[[], ControllerContext]) -> None:
        self._controller = controller
        self._context = context
        self._seen: ClusterImage | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._follow_constraints()), loop.create_task(self._balance())]

    def stop(self) -> None:
        """Do nothing more."""
        for task in self._tasks:
            task.cancel()
        self._tasks = []
        self._seen = None

    async def _follow_constraints(self) -> None:
        while True:
            await asyncio.sleep(CONSTRAINTS_SECONDS)
            image = self._controller.history.latest
            if image is not self._seen:
                self._seen = image
                moved = await self._do(follow_constraints)
                if moved:
                    logger.info("%d partitions go to where their topics' placement constraints want them", moved)

    async def _balance(self) -> None:
        while True:
            settings = self._context().node.values
            interval = settings["leader.imbalance.check.interval.seconds"]
            assert isinstance(interval, int)
            await asyncio.sleep(interval)
            moved = ELECTIONS_MAX
            while moved == ELECTIONS_MAX and settings["auto.leader.rebalance.enable"]:
                moved = await self._do(balance_leaders)
                if moved:
                    logger.info("%d partitions are led by their preferred replicas again", moved)

    async def _do(self, duty: Duty) -> int:
        """How many records that made."""
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
