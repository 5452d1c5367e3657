"""What runs a worker: a process of its own, with metrics and health, or a node."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Final

from isthmus_model.addresses import Address
from isthmus_model.endpoints import Endpoint
from isthmus_service.http import observed
from prometheus_client import CollectorRegistry

from isthmus_linker.edge.observe import LinkCollector
from isthmus_linker.edge.worker import Worker

logger = logging.getLogger(__name__)

_RESTART_SECONDS: Final = 5.0


async def run_linker(destination: Sequence[Endpoint], http: Address | None, stopping: asyncio.Event) -> None:
    """Until `stopping` is set; prints the line `ready` when it has begun. Raises OSError when the HTTP address is taken."""
    worker = Worker(destination)
    registry = CollectorRegistry()
    registry.register(LinkCollector(lambda: worker.runners))
    async with contextlib.AsyncExitStack() as stack:
        told = "ready"
        if http is not None:
            port = await stack.enter_async_context(observed(http, registry, worker.not_ready))
            told = f"ready http://{http[0]}:{port}"
        work = asyncio.get_running_loop().create_task(worker.run())
        print(told, flush=True)
        stop = asyncio.get_running_loop().create_task(stopping.wait())
        await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work


class LinkerRole:
    """A worker inside a node. A fault of it is told and survived: the node has clients of its own to serve."""

    def __init__(self, destination: Endpoint) -> None:
        self._destination = destination
        self._worker: Worker | None = None
        self._task = asyncio.get_running_loop().create_task(self._run())
        self.collector = LinkCollector(lambda: self._worker.runners if self._worker is not None else ())

    async def _run(self) -> None:
        while True:
            self._worker = Worker([self._destination])
            try:
                await self._worker.run()
            except Exception:
                logger.exception("the linker of this node stopped by a fault and begins anew")
            await asyncio.sleep(_RESTART_SECONDS)

    async def stop(self) -> None:
        """Let others have its share."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
