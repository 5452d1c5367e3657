"""Waking whoever waits for something to have changed."""

import asyncio
from contextlib import suppress


class Signal:
    """Any number may wait; a ring wakes those who wait now. Whoever looks and then waits without an await between misses none."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Something has changed."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Until it rings, or that long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
