"""A disk with delayed writes that loses unfinished writes in a crash.

Writes become durable in order. A crash loses the writes under way, except for a prefix that had become durable but was not reported.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Protocol, Self, TypeVar

from tests.sim.faults import DiskRates
from tests.sim.world import World


class Image(Protocol):
    """The contents of a disk."""

    def apply(self, write: Any) -> None:
        """Carry out one write."""

    def copy(self) -> Self:
        """An independent copy of the contents."""


Content = TypeVar("Content", bound=Image)
W = TypeVar("W")


class Disk(Generic[Content, W]):
    """Two images: the contents for the running process, and those after a crash."""

    def __init__(self, world: World, rates: DiskRates, image: Content) -> None:
        self._world = world
        self.rates = rates
        self.seen = image
        self.durable = image.copy()
        self.trap: Callable[[], None] | None = None
        """Called once in the middle of the next write, where a crash is most harmful."""
        self._unfinished: deque[W] = deque()
        self._life = 0
        self._busy_until = 0

    def write(self, writes: tuple[W, ...], done: Callable[[], None]) -> None:
        """Make the writes visible at once and durable later, and then call `done`."""
        for write in writes:
            self.seen.apply(write)
            self._unfinished.append(write)
        world, life, count = self._world, self._life, len(writes)
        delay = world.random.randrange(self.rates.delay_max) if writes else 0
        if writes and world.chance(self.rates.slow):
            delay += world.random.randrange(self.rates.slow_max)
        self._busy_until = max(self._busy_until, world.now + delay)
        delay = self._busy_until - world.now
        if writes and self.trap is not None:
            world.after(world.random.randrange(delay + 1), self.trap)
            self.trap = None
        world.after(delay, lambda: self._finish(life, count, done))

    def _finish(self, life: int, count: int, done: Callable[[], None]) -> None:
        if life == self._life:
            for _ in range(count):
                self.durable.apply(self._unfinished.popleft())
            done()

    def crash(self) -> None:
        survives = self._world.random.randrange(len(self._unfinished) + 1)
        for _ in range(survives):
            self.durable.apply(self._unfinished.popleft())
        self._unfinished.clear()
        self._life += 1
        self._busy_until = 0
        self.seen = self.durable.copy()
