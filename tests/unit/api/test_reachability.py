"""When a broker counts as away: asked by a schedule in simulated time."""

from collections.abc import Callable

import pytest
from isthmus_api.core.reachability import LATE_SECONDS, Reach
from isthmus_api.limits import PROBE_ANSWER_SECONDS
from isthmus_model.clocks import WallMs

START_MS = 1_000_000
SOON_SECONDS = 8.0
"""A cut is known by then, whenever it began."""


class World:
    """One broker, asked as the probes ask; `answers` says whether it does at a moment, `late` how late this process sees a deadline."""

    def __init__(self, answers: Callable[[float], bool], late: Callable[[float], float] = lambda _: 0.0) -> None:
        self.now = 0.0
        self.reach = Reach(START_MS)
        self._answers = answers
        self._late = late

    def ask(self) -> None:
        if self._answers(self.now):
            self.reach = self.reach.answered(WallMs(START_MS + round(self.now * 1000)))
        else:
            seconds = PROBE_ANSWER_SECONDS + self._late(self.now)
            self.now += seconds
            self.reach = self.reach.missed("no answer", seconds)
        self.changed_at = self.now
        self.now += self.reach.pause

    def until(self, is_away: bool, end: float) -> float:
        """When it was known; fails when it was not by then."""
        while self.now < end:
            self.ask()
            if self.reach.is_away is is_away:
                return self.changed_at
        raise AssertionError(f"not known by {end}")


@pytest.mark.parametrize("cut", [tenth / 10 for tenth in range(40)])
def test_a_cut_is_known_soon_whenever_it_begins_and_so_is_its_end(cut: float) -> None:
    healed = cut + 20
    world = World(lambda now: now < cut or now >= healed)
    while world.now < cut:
        world.ask()
        assert not world.reach.is_away
    heard_ms = world.reach.heard_ms
    assert world.until(True, 60) <= cut + SOON_SECONDS
    assert world.reach.heard_ms == heard_ms <= START_MS + cut * 1000  # away since its last answer
    assert world.until(False, 60) <= healed + SOON_SECONDS
    assert world.reach.heard_ms >= START_MS + healed * 1000


def test_one_question_without_an_answer_is_no_cut() -> None:
    reach = Reach(START_MS)
    for turn in range(100):
        reach = reach.missed("no answer", PROBE_ANSWER_SECONDS)
        assert not reach.is_away
        reach = reach.answered(WallMs(START_MS + turn))
    assert reach == Reach(START_MS + 99)


def test_a_process_that_was_held_up_itself_takes_nobody_for_away() -> None:
    world = World(lambda _: False, late=lambda now: LATE_SECONDS + 0.1 if now < 60 else 0.0)
    while world.now < 60:
        world.ask()
        assert not world.reach.is_away
    world.until(True, 60 + SOON_SECONDS)


def test_a_refused_connection_counts_at_once_and_is_asked_again_soon() -> None:
    reach = Reach(START_MS).missed("connection refused", 0.001)
    assert not reach.is_away
    reach = reach.missed("connection refused", 0.001)
    assert (reach.is_away, reach.heard_ms, reach.why) == (True, START_MS, "connection refused")
