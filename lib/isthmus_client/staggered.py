"""Attempts at several brokers, where an unresponsive one must not delay the others (as with addresses in RFC 8305)."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from isthmus_client.errors import ConnectionFailed

R = TypeVar("R")


async def staggered(
    attempts: Iterable[Callable[[], Coroutine[Any, Any, R]]], seconds: float
) -> AsyncGenerator[R | ConnectionFailed]:
    """Start the attempts one after another, the next one when another fails or after `seconds`; yields each outcome as it arrives.

    Closing the generator cancels the attempts that are under way.
    """
    running: list[asyncio.Task[R]] = []
    try:
        for attempt in attempts:
            running.append(asyncio.create_task(attempt()))
            await asyncio.wait(running, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for outcome in _take_outcomes(running):
                yield outcome
        while running:
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for outcome in _take_outcomes(running):
                yield outcome
    finally:
        for task in running:
            task.add_done_callback(_retrieve)
            task.cancel()


def _take_outcomes(running: list[asyncio.Task[R]]) -> list[R | ConnectionFailed]:
    """Remove the tasks that are done, and return their outcomes."""
    outcomes: list[R | ConnectionFailed] = []
    for task in [each for each in running if each.done()]:
        running.remove(task)
        try:
            outcomes.append(task.result())
        except ConnectionFailed as error:
            outcomes.append(error)
    return outcomes


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception of a task that is not needed any more, so that asyncio does not warn about it."""
    if not task.cancelled():
        task.exception()
