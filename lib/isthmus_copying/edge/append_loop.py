"""Several appends in flight to one destination broker."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final

from isthmus_service.signal import Signal

_IDLE_SECONDS: Final = 0.25

Append = Coroutine[None, None, None]


async def run_appends(
    group: asyncio.TaskGroup,
    has_copies: Callable[[], bool],
    next_append: Callable[[], Awaitable[Append | None]],
    work: Signal,
    appends_max: int,
) -> None:
    """Append while the broker leads any copy; `work` rings when there may be something to append."""
    in_flight: set[asyncio.Task[None]] = set()
    while has_copies() or in_flight:
        if len(in_flight) < appends_max and (append := await next_append()) is not None:
            task = group.create_task(append)
            in_flight.add(task)
            task.add_done_callback(in_flight.discard)
            continue
        await work.wait(_IDLE_SECONDS)
