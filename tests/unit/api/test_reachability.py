"""When a broker counts as unreachable: probed by a schedule in simulated time."""

from collections.abc import Callable

import pytest
from isthmus_api.core.reachability import LATE_SECONDS, Reachability
from isthmus_api.limits import PROBE_TIMEOUT_SECONDS
from isthmus_model.clocks import WallMs

START_MS = 1_000_000
SOON_SECONDS = 8.0
"""A cut is known by then, whenever it began."""


class World:
    """One broker, probed on schedule; `responds` says whether it does at a time, `late` how late this process notices a timeout."""

    def __init__(self, responds: Callable[[float], bool], late: Callable[[float], float] = lambda _: 0.0) -> None:
        self.now = 0.0
        self.reach = Reachability(START_MS)
        self._responds = responds
        self._late = late

    def probe(self) -> None:
        if self._responds(self.now):
            self.reach = self.reach.responded(WallMs(START_MS + round(self.now * 1000)))
        else:
            seconds = PROBE_TIMEOUT_SECONDS + self._late(self.now)
            self.now += seconds
            self.reach = self.reach.missed("no response", seconds)
        self.changed_at = self.now
        self.now += self.reach.pause

    def until(self, is_unreachable: bool, end: float) -> float:
        """When it was known; fails when it was not by then."""
        while self.now < end:
            self.probe()
            if self.reach.is_unreachable is is_unreachable:
                return self.changed_at
        raise AssertionError(f"not known by {end}")


@pytest.mark.parametrize("cut", [tenth / 10 for tenth in range(40)])
def test_a_partition_and_its_end_are_noticed_soon(cut: float) -> None:
    healed = cut + 20
    world = World(lambda now: now < cut or now >= healed)
    while world.now < cut:
        world.probe()
        assert not world.reach.is_unreachable
    last_update_ms = world.reach.responded_ms
    assert world.until(True, 60) <= cut + SOON_SECONDS
    assert world.reach.responded_ms == last_update_ms <= START_MS + cut * 1000  # unreachable since its last response
    assert world.until(False, 60) <= healed + SOON_SECONDS
    assert world.reach.responded_ms >= START_MS + healed * 1000


def test_one_failed_probe_is_no_partition() -> None:
    reach = Reachability(START_MS)
    for turn in range(100):
        reach = reach.missed("no response", PROBE_TIMEOUT_SECONDS)
        assert not reach.is_unreachable
        reach = reach.responded(WallMs(START_MS + turn))
    assert reach == Reachability(START_MS + 99)


def test_a_delayed_process_marks_no_broker_as_unreachable() -> None:
    world = World(lambda _: False, late=lambda now: LATE_SECONDS + 0.1 if now < 60 else 0.0)
    while world.now < 60:
        world.probe()
        assert not world.reach.is_unreachable
    world.until(True, 60 + SOON_SECONDS)


def test_a_refused_connection_counts_immediately_and_is_probed_again_soon() -> None:
    reach = Reachability(START_MS).missed("connection refused", 0.001)
    assert not reach.is_unreachable
    reach = reach.missed("connection refused", 0.001)
    assert (reach.is_unreachable, reach.responded_ms, reach.why) == (True, START_MS, "connection refused")
