"""The loops of one copier: a fetch loop for each leader at the source, an append loop for each at the destination."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Final, Protocol

from isthmus_client.errors import ClientError
from isthmus_service.signal import Signal

from isthmus_copying.edge.leaders import Leaders

logger = logging.getLogger(__name__)

TICK_SECONDS: Final = 1.0
"""The interval of leader checks; changes trigger one earlier."""
PAUSE_SECONDS: Final = 0.05
"""The least time between two checks, and the wait for partitions that back off."""


class Copier(Protocol):
    """What the loops run."""

    async def find_leaders(self) -> None:
        """Update the leaders of both sides."""

    def start_lookups(self, group: asyncio.TaskGroup) -> bool:
        """Start the lookups that copies need; returns whether any is still needed."""
        ...

    async def fetch_loop(self, broker: int) -> None:
        """Fetch while this broker of the source leads any partition."""

    async def append_loop(self, group: asyncio.TaskGroup, broker: int) -> None:
        """Append while this broker of the destination leads any partition."""


class CopyLoops:
    """Which loops run, what wakes them, and which brokers fail."""

    def __init__(self, name: str) -> None:
        self.leads_source: Leaders = {}
        self.leads_destination: Leaders = {}
        self.fetching: set[int] = set()
        """The brokers of the source with a fetch loop."""
        self.changed = Signal()
        """Rings when leaders or pending lookups may have changed."""
        self.room = Signal()
        """Rings when something can be fetched again."""
        self.work = Signal()
        """Rings when something can be appended."""
        self._name = name
        self._appending: set[int] = set()
        self._failing: set[int] = set()  # of the destination's brokers; only the first failure is a warning

    async def run(self, copier: Copier, *background: Coroutine[None, None, None]) -> None:
        """Keep a loop running for each leader, beside the background work, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for work in background:
                group.create_task(work)
            while True:
                await copier.find_leaders()
                self._start(group, copier)
                needs_lookup = copier.start_lookups(group)
                await self.changed.wait(PAUSE_SECONDS if needs_lookup else TICK_SECONDS)
                await asyncio.sleep(PAUSE_SECONDS)

    def _start(self, group: asyncio.TaskGroup, copier: Copier) -> None:
        for broker in sorted(set(self.leads_source.values()) - self.fetching):
            self.fetching.add(broker)
            group.create_task(_discarding(self.fetching, broker, copier.fetch_loop(broker)))
        for broker in sorted(set(self.leads_destination.values()) - self._appending):
            self._appending.add(broker)
            group.create_task(_discarding(self._appending, broker, copier.append_loop(group, broker)))

    def wake(self) -> None:
        """Wake all loops."""
        for signal in (self.changed, self.room, self.work):
            signal.ring()

    def append_failed(self, broker: int, error: ClientError) -> None:
        """Log the failure, and check the leaders again."""
        level = logging.DEBUG if broker in self._failing else logging.WARNING
        logger.log(level, "%s: appending at broker %d: %s", self._name, broker, error)
        self._failing.add(broker)
        self.changed.ring()

    def append_succeeded(self, broker: int) -> None:
        """Log the next failure again."""
        self._failing.discard(broker)


async def _discarding(running: set[int], broker: int, loop: Coroutine[None, None, None]) -> None:
    try:
        await loop
    finally:
        running.discard(broker)
