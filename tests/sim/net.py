"""The network: delays, losses, duplicates, reordering, and partitions in one or both directions.

Each message has its own delay, so messages between the same two nodes are reordered. A response only reaches the process that sent the
request, not its successor, as on a connection.
"""

from collections.abc import Callable

from tests.sim.faults import NetRates
from tests.sim.world import World


class Net:
    def __init__(self, world: World, rates: NetRates) -> None:
        self._world = world
        self.rates = rates
        self._cut: set[tuple[int, int]] = set()

    def send(self, sender: int, receiver: int, deliver: Callable[[], None]) -> None:
        """Call `deliver` once, later; or never; or twice."""
        world, rates = self._world, self.rates
        if world.chance(rates.loss):
            return
        for _ in range(2 if world.chance(rates.duplicate) else 1):
            delay = 1 + world.random.randrange(rates.delay_max)
            if world.chance(rates.late):
                delay += world.random.randrange(rates.late_max)
            world.after(delay, lambda: self._arrive(sender, receiver, deliver))

    def _arrive(self, sender: int, receiver: int, deliver: Callable[[], None]) -> None:
        if (sender, receiver) not in self._cut:
            deliver()

    def cut(self, sender: int, receiver: int) -> None:
        """Drop messages from sender to receiver; the other direction is not affected."""
        self._cut.add((sender, receiver))

    def heal(self) -> None:
        self._cut.clear()
