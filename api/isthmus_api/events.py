"""Events for whoever watches: topology, lag, progress of tasks. A reader that is too slow loses events and is told how many."""

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
    """What an event tells of."""

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
    """One reader."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Event] = asyncio.Queue(SUBSCRIBER_QUEUE)
        self._lost = 0

    def offer(self, event: Event) -> None:
        """When the queue is full the event is lost to this reader."""
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            self._lost += 1

    async def next(self) -> Event:
        """What it has not read; the news that events were lost comes once it has read what was before them."""
        if self._lost and self._queue.empty():
            lost, self._lost = self._lost, 0
            return Event(0, EventKind.LOST, {"events": lost})
        return await self._queue.get()


class Hub:
    """Everybody who listens."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()
        self._number = 0

    @property
    def listeners(self) -> int:
        """How many there are."""
        return len(self._subscriptions)

    def publish(self, kind: EventKind, data: Any) -> None:
        """Tell all of them."""
        self._number += 1
        event = Event(self._number, kind, data)
        for subscription in self._subscriptions:
            subscription.offer(event)

    @contextmanager
    def subscription(self) -> Iterator[Subscription]:
        """Listen within the block; raises Problem when too many do."""
        if len(self._subscriptions) >= SUBSCRIBERS_MAX:
            raise Problem(503, f"{SUBSCRIBERS_MAX} readers of events are connected, and no more are served.")
        subscription = Subscription()
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
