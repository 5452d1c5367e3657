"""Delays requests for partitions of a lost leader until the metadata names another; `core/replica/lost_leaders.py` decides."""

import asyncio
from collections.abc import Iterable

from isthmus_model.clocks import MonotonicClock

from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.replica.lost_leaders import LostLeaders


class DelayedRequests:
    """The requests of one node that wait for a new leader."""

    def __init__(self, clock: MonotonicClock) -> None:
        self._clock = clock
        self._leaders = LostLeaders()
        self._changed: asyncio.Event | None = None

    def leader_lost(self, broker_id: int) -> None:
        """Record that a connection to the leader broke or cannot be opened."""
        self._leaders.lost(broker_id, self._clock())

    def leader_reached(self, broker_id: int) -> None:
        """Record that the leader responds again."""
        if self._leaders.reached(broker_id):
            self._wake()

    def metadata_changed(self, image: ClusterImage) -> None:
        """Release requests for leaders that were fenced."""

        def is_replaced(broker_id: int) -> bool:
            broker = image.brokers.get(broker_id)
            return broker is None or broker.fenced

        self._leaders.replaced(is_replaced)
        self._wake()

    def __bool__(self) -> bool:
        return bool(self._leaders)

    async def settled(self, leaders: Iterable[int]) -> None:
        """Wait while any of these leaders counts as just lost."""
        leader_ids = tuple(leaders)
        while (until := self._leaders.delayed_until(leader_ids, self._clock())) is not None:
            if self._changed is None:
                self._changed = asyncio.Event()
            try:
                async with asyncio.timeout((until - self._clock()) / 1000):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _wake(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set()
