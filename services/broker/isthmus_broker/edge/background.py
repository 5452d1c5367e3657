"""Background work of a node, which nothing awaits: an exception that ends it must not go unnoticed."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

ENDED: Final = "background work"
"""The key of the work's name in the context that the event loop's exception handler receives."""


def background(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Start the work. An exception that ends it is reported to the event loop's exception handler, and the node stops: without its
    heartbeats or its ISR changes, it would only appear to work.
    """
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(_report)
    return task


def _report(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        name = getattr(task.get_coro(), "__qualname__", task.get_name())
        context = {"message": f"{name} ended unexpectedly", "exception": error, "future": task, ENDED: name}
        task.get_loop().call_exception_handler(context)
