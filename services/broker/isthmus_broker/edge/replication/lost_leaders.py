"""Leaders whose connection has just broken. In most cases their process is dead, and the metadata tells of other leaders a moment later.

Clients lose their connections at the same time and ask at once where their partitions are led; told of the dead leader again, they wait a
second or more before they ask the next time. So whoever asks within that moment is answered after it.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from isthmus_broker.core.metadata.image import ClusterImage

HOLD_SECONDS: Final = 0.5
"""How long after a loss questions about the leader's partitions are held; then they are answered as things are."""


class LostLeaders:
    """What this node's fetchers have noticed."""

    def __init__(self) -> None:
        self._held_until: dict[int, float] = {}
        self._changed: asyncio.Event | None = None

    def lost(self, broker_id: int) -> None:
        """A connection to the leader has broken, or cannot be made anew."""
        self._held_until.setdefault(broker_id, asyncio.get_running_loop().time() + HOLD_SECONDS)

    def reached(self, broker_id: int) -> None:
        """It is there after all."""
        if self._held_until.pop(broker_id, None) is not None:
            self._wake()

    def changed(self, image: ClusterImage) -> None:
        """The metadata says something new; a broker that is fenced leads nothing any more."""
        for broker_id in list(self._held_until):
            broker = image.brokers.get(broker_id)
            if broker is None or broker.fenced:
                del self._held_until[broker_id]
        self._wake()

    def __bool__(self) -> bool:
        return bool(self._held_until)

    async def settled(self, leaders: Iterable[int]) -> None:
        """Wait while any of these leaders has just been lost."""
        asked = set(leaders)
        loop = asyncio.get_running_loop()
        while held := [until for leader, until in self._held_until.items() if leader in asked and until > loop.time()]:
            if self._changed is None:
                self._changed = asyncio.Event()
            try:
                async with asyncio.timeout_at(max(held)):
                    await self._changed.wait()
            except TimeoutError:
                return

    def _wake(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set()
