"""Opens batches in a thread, one at a time, so that their records cost the event loop no stall and little memory."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class BatchOpener:
    """A queue of one."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def run(self, work: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        """The result of the work, which reads no state that the event loop changes."""
        async with self._turn:
            return await asyncio.get_running_loop().run_in_executor(None, lambda: work(*arguments, **named))
