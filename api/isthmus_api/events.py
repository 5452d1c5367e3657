"""Events for subscribers: topology, lag, progress of tasks. A subscriber that is too slow loses events and receives their number."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from isthmus_api.limits import SUBSCRIBER_QUEUE, SUBSCRIBERS_MAX
from isthmus_api.problems import Problem


class EventKind(StrEnum):
    """The subject of an event."""

    TOPOLOGY = "topology"
    LAG = "lag"
    TASK = "task"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Event:
    """`number` counts from 1 since the process started."""

    number: int
    kind: EventKind
    data: Any


class Subscription:
    """One subscriber."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Event] = asyncio.Queue(SUBSCRIBER_QUEUE)
        self._lost = 0

    def offer(self, event: Event) -> None:
        """Queue an event; when the queue is full it is lost to this subscriber."""
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            self._lost += 1

    async def next(self) -> Event:
        """The next event; the number of lost events follows the last one before them."""
        if self._lost and self._queue.empty():
            lost, self._lost = self._lost, 0
            return Event(0, EventKind.LOST, {"events": lost})
        return await self._queue.get()


class Hub:
    """All subscribers."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()
        self._number = 0

    @property
    def listeners(self) -> int:
        """The number of subscribers."""
        return len(self._subscriptions)

    def publish(self, kind: EventKind, data: Any) -> None:
        """Send an event to all subscribers."""
        self._number += 1
        event = Event(self._number, kind, data)
        for subscription in self._subscriptions:
            subscription.offer(event)

    @contextmanager
    def subscription(self) -> Iterator[Subscription]:
        """Subscribe within the block; raises Problem when there are too many subscribers."""
        if len(self._subscriptions) >= SUBSCRIBERS_MAX:
            raise Problem(503, f"{SUBSCRIBERS_MAX} subscribers to events are connected, the maximum.")
        subscription = Subscription()
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
