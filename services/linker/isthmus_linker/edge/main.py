"""The process: a worker, its metrics and its health."""

import asyncio
import contextlib
from collections.abc import Sequence

from isthmus_client.connection import Address
from isthmus_service.http import observed
from prometheus_client import CollectorRegistry

from isthmus_linker.edge.observe import LinkCollector
from isthmus_linker.edge.worker import Worker


async def run_linker(destination: Sequence[Address], http: Address | None, stopping: asyncio.Event) -> None:
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
