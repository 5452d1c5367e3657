"""A disk that takes its time and forgets in a crash what it has not finished.

Writes become durable in the order they were made. A crash loses those that are under way, apart from a prefix that had already
reached the platter without anybody having been told.
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
        """The same contents, changing on their own from now on."""


Content = TypeVar("Content", bound=Image)
W = TypeVar("W")


class Disk(Generic[Content, W]):
    """Two images: what a running process sees, and what a crash leaves."""

    def __init__(self, world: World, rates: DiskRates, image: Content) -> None:
        self._world = world
        self.rates = rates
        self.seen = image
        self.durable = image.copy()
        self.trap: Callable[[], None] | None = None
        """Called once, somewhere in the midst of the next write: the moment at which a crash hurts most."""
        self._unfinished: deque[W] = deque()
        self._life = 0
        self._busy_until = 0

    def write(self, writes: tuple[W, ...], done: Callable[[], None]) -> None:
        """Make the writes visible at once and durable some time later, which `done` tells."""
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
