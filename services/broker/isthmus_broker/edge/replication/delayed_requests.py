"""Delays requests for partitions of a lost leader until the metadata names another; `core/replica/lost_leaders.py` decides."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from isthmus_model.clocks import MonotonicClock

from isthmus_broker.core.metadata.image import NO_LEADER, ClusterImage
from isthmus_broker.core.replica.lost_leaders import LostLeaders

NOTICE_SECONDS: Final = 0.005
"""A client that loses its connection to a leader requests metadata at once, perhaps before this node has seen that its own has ended."""


class DelayedRequests:
    """The requests of one node that wait for a new leader."""

    def __init__(self, node_id: int, clock: MonotonicClock) -> None:
        self._node_id = node_id
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

    async def settled(self, leaders: Callable[[], Iterable[int]]) -> None:
        """Wait while any of these leaders counts as just lost, or may be lost at this moment."""
        if all(leader in (self._node_id, NO_LEADER) for leader in leaders()):
            return
        await asyncio.sleep(NOTICE_SECONDS)
        if not self._leaders:
            return
        leader_ids = tuple(leaders())
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
