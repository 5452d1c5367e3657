"""Run a worker: as a process of its own with metrics and health, or inside a node."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Final

from isthmus_model.addresses import Address
from isthmus_model.endpoints import Endpoint
from isthmus_service.serving import serve

from isthmus_linker.edge.observe import LinkCollector
from isthmus_linker.edge.worker import Worker

logger = logging.getLogger(__name__)

_RESTART_SECONDS: Final = 5.0


async def run_linker(destination: Sequence[Endpoint], http: Address | None, stopping: asyncio.Event) -> None:
    """Run a worker as a process of its own until `stopping` is set. Raises OSError if the HTTP address is in use."""
    worker = Worker(destination)
    await serve(worker.run(), LinkCollector(lambda: worker.runners), http, worker.not_ready, stopping)


class LinkerRole:
    """A worker inside a node. Its faults are logged, and it restarts: the node has its own clients to serve."""

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
                logger.exception("the linker of this node failed and restarts")
            await asyncio.sleep(_RESTART_SECONDS)

    async def stop(self) -> None:
        """Stop the worker; the other workers take over its share."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
