"""Run a service's work until it is stopped."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from isthmus_model.addresses import Address
from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from isthmus_service.http import observed


async def serve(
    work: Coroutine[Any, Any, None],
    collector: Collector,
    http: Address | None,
    not_ready: Callable[[], str],
    stopping: asyncio.Event,
) -> None:
    """Run until `stopping` is set; prints the line `ready` after the start. Raises OSError if the HTTP address is in use."""
    registry = CollectorRegistry()
    registry.register(collector)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(work.close)  # never started if the address is in use
        ready = "ready"
        if http is not None:
            port = await stack.enter_async_context(observed(http, registry, not_ready))
            ready = f"ready http://{http.host}:{port}"
        loop = asyncio.get_running_loop()
        running, stop = loop.create_task(work), loop.create_task(stopping.wait())
        print(ready, flush=True)
        await asyncio.wait((running, stop), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
