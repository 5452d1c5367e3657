"""Run a mirror as a process of its own, with metrics and health."""

import asyncio
import logging
from collections.abc import Collection

from isthmus_model.addresses import Address
from isthmus_service.restarts import run_again
from isthmus_service.serving import serve

from isthmus_mirror.core.settings import FlowSettings, MirrorSettings
from isthmus_mirror.edge.flow import FlowRunner
from isthmus_mirror.edge.observe import MirrorCollector

logger = logging.getLogger(__name__)


class Mirror:
    """The flows of a file whose target is one of `clusters`, or all. A flow that fails is logged and restarts."""

    def __init__(self, settings: MirrorSettings, clusters: Collection[str]) -> None:
        self.runners: dict[str, FlowRunner] = {}
        self._settings = settings
        self._flows = [flow for flow in settings.flows if not clusters or flow.target in clusters]

    def not_ready(self) -> str:
        """Why it cannot copy now; empty if it can."""
        return "; ".join(filter(None, (runner.not_ready() for runner in self.runners.values())))

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            for flow in self._flows:
                group.create_task(self._run(flow))

    async def _run(self, flow: FlowSettings) -> None:
        bootstrap = self._settings.bootstrap

        async def run() -> None:
            runner = self.runners[flow.name] = FlowRunner(
                flow, bootstrap[flow.source], bootstrap[flow.target], self._settings.flows
            )
            await runner.run()

        await run_again(flow.name, run)


async def run_mirror(
    settings: MirrorSettings, clusters: Collection[str], http: Address | None, stopping: asyncio.Event
) -> None:
    """Run the flows until `stopping` is set. Raises OSError if the HTTP address is in use."""
    for warning in settings.warnings:
        logger.warning("%s", warning)
    mirror = Mirror(settings, clusters)
    collector = MirrorCollector(lambda: list(mirror.runners.values()))
    await serve(mirror.run(), collector, http, mirror.not_ready, stopping)
