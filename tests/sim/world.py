"""Virtual time, the queue of events, and the one source of randomness."""

import heapq
import random
from collections.abc import Callable
from typing import Protocol


class Violation(Exception):
    """An invariant is violated."""


class Checker(Protocol):
    """Checks a node after each of its events."""

    def check(self, node_id: int) -> None:
        """Raise Violation if an invariant does not hold."""


class World:
    """Runs events in the order of time, and those of the same time in the order in which they were scheduled."""

    def __init__(self, seed: int, *, traced: bool = False) -> None:
        self.random = random.Random(seed)
        self.now = 0
        """Virtual milliseconds since the start."""
        self.events = 0
        self.trace: list[str] | None = [] if traced else None
        self.checkers: list[Checker] = []
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._planned = 0

    def after(self, delay: int, action: Callable[[], None]) -> None:
        self._planned += 1
        heapq.heappush(self._queue, (self.now + delay, self._planned, action))

    def run_until(self, end: int, done: Callable[[], bool] = lambda: False) -> bool:
        """Run the events up to `end`, or until `done`; returns whether it was done."""
        while self._queue and self._queue[0][0] <= end:
            self.now, _, action = heapq.heappop(self._queue)
            self.events += 1
            action()
            if done():
                return True
        self.now = end
        return False

    def touched(self, node_id: int) -> None:
        """Check the invariants after an event at a node."""
        for checker in self.checkers:
            checker.check(node_id)

    def log(self, node_id: int, what: object) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.now:>7} node {node_id}: {what}")

    def chance(self, rate: float) -> bool:
        return self.random.random() < rate
