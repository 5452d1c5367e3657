"""Run a service of ours until SIGTERM or Ctrl-C."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Final

_FAILED: Final = 1


async def run_until_signal(name: str, run: Callable[[asyncio.Event], Awaitable[None]]) -> int:
    """The exit status; an OSError, such as an address in use, is one line for the operator."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    try:
        await run(stopping)
    except OSError as error:
        print(f"isthmus {name}: {error}", file=sys.stderr)
        return _FAILED
    return 0
