"""A worker: reads the links from the destination, divides the work with the other workers, and runs its share.

It stores nothing. If it is killed, the others take over its share, and its last appends are safe since each carries its offset.
"""

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.work_sharing import Share, SharingMember
from isthmus_copying.edge.work_share import follow_share
from isthmus_model.endpoints import Endpoint
from isthmus_model.internal_topics import LAG_TOPIC
from isthmus_service.samples import SampleTopic
from isthmus_service.signal import Signal

from isthmus_linker.core.limits import RESPONSE_SECONDS
from isthmus_linker.edge.budget import Budget
from isthmus_linker.edge.link import CLIENT_ID, OPERATION_SECONDS, LinkRunner
from isthmus_linker.edge.observe import lag_samples
from isthmus_linker.edge.plan import LinkPlan, read_plans

logger = logging.getLogger(__name__)

GROUP_ID: Final = "__isthmus_linker"
PROTOCOL_TYPE: Final = "isthmus-linker"
_POLL_SECONDS: Final = 1.0
_LAG_SECONDS: Final = 5.0
_LEAVE_SECONDS: Final = 2.0


class Worker:
    """A worker; `run` copies until it is cancelled."""

    def __init__(self, destination: Sequence[Endpoint]) -> None:
        self._destination = Client(
            destination, client_id=CLIENT_ID, operation_seconds=OPERATION_SECONDS, response_seconds=RESPONSE_SECONDS
        )
        self._samples = Client(destination, client_id=CLIENT_ID, operation_seconds=OPERATION_SECONDS)
        self._member = SharingMember(self._destination, GROUP_ID, PROTOCOL_TYPE)
        self._share: Share | None = None
        self._share_changed = Signal()
        self._budget = Budget()
        self._runners: dict[UUID, tuple[LinkRunner, asyncio.Task[None]]] = {}
        self._problem = "it has not read its links yet"

    @property
    def runners(self) -> Collection[LinkRunner]:
        """The running links."""
        return [runner for runner, _ in self._runners.values()]

    def not_ready(self) -> str:
        """Why it cannot copy now; empty if it can."""
        if self._share is None:
            return "it has no share of the work yet"
        return self._problem

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._share_work())
                group.create_task(self._follow_plans())
                group.create_task(self._write_lag())
        finally:
            await self._stop()

    async def _stop(self) -> None:
        tasks = [task for _, task in self._runners.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._member.leave()
        except (ClientError, TimeoutError) as error:
            logger.info("cannot leave the group of workers; it will time out: %s", error)
        self._destination.close()
        self._samples.close()

    async def _share_work(self) -> None:
        await follow_share(self._member, self._destination, "linker", self._use_share)

    def _use_share(self, share: Share) -> None:
        self._share = share
        self._share_changed.ring()

    # -- links ---------------------------------------------------------------------------------------------------------------

    async def _follow_plans(self) -> None:
        while True:
            try:
                plans = await read_plans(self._destination)
            except ClientError as error:
                self._problem = f"cannot read the links from the destination: {error}"
                logger.warning("%s", self._problem)
            else:
                self._problem = ""
                if self._share is not None:
                    self._follow(plans, self._share)
            await self._share_changed.wait(_POLL_SECONDS)

    def _follow(self, plans: dict[UUID, LinkPlan], share: Share) -> None:
        for link_id, (runner, task) in list(self._runners.items()):
            plan = plans.get(link_id)
            if task.done():
                del self._runners[link_id]
                logger.error("link %s failed and restarts", runner.plan.name, exc_info=task.exception())
            elif plan is None or plan.settings.bootstrap != runner.plan.settings.bootstrap:
                del self._runners[link_id]
                task.cancel()
        for link_id, plan in plans.items():
            if link_id not in self._runners:
                runner = LinkRunner(plan, share, self._destination, self._budget)
                self._runners[link_id] = runner, asyncio.get_running_loop().create_task(runner.run())
            self._runners[link_id][0].update(plan, share)

    # -- lag -----------------------------------------------------------------------------------------------------------------

    async def _write_lag(self) -> None:
        """Write samples of lag, with a client of their own so that they do not wait behind appends."""
        topic = SampleTopic(self._samples, LAG_TOPIC)
        while True:
            await asyncio.sleep(_LAG_SECONDS)
            samples = [sample for runner in self.runners for sample in lag_samples(runner, self._destination)]
            if samples:
                await topic.write([(sample.key(), sample.value()) for sample in samples])
