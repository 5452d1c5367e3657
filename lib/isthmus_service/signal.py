"""Wake tasks that wait for a change."""

import asyncio
from contextlib import suppress


class Signal:
    """Wakes all current waiters. A task that checks and then waits without an await in between misses no change."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Wake all waiters."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Wait for a ring, at most this long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
