"""Run a worker: as a process of its own with metrics and health, or inside a node."""

import asyncio
import contextlib
from collections.abc import Sequence

from isthmus_model.addresses import Address
from isthmus_model.endpoints import Endpoint
from isthmus_service.restarts import run_again
from isthmus_service.serving import serve

from isthmus_linker.edge.observe import LinkCollector
from isthmus_linker.edge.worker import Worker


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
        async def run() -> None:
            self._worker = Worker([self._destination])
            await self._worker.run()

        await run_again("the linker of this node", run)

    async def stop(self) -> None:
        """Stop the worker; the other workers take over its share."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
