"""The default sweep of two clusters that exchange a topic through mirrors in transactions, and the canaries that it must detect."""

from contextlib import nullcontext

import pytest

from tests.sim.exchange.canaries import CANARIES
from tests.sim.exchange.life import ExchangeLife
from tests.sim.sweep import EXCHANGE, KINDS, search, sweep, trace

SEEDS = 1_000
CHUNK = 50
"""Several chunks, so that parallel workers share the sweep."""


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_record_is_in_both_regions_once(first: int) -> None:
    assert sweep(range(first, first + CHUNK), EXCHANGE) is None


def test_a_life_in_which_a_dead_member_writes_again_before_it_is_fenced() -> None:
    """The check took its records, which were aborted, for parts of a split transaction."""
    ExchangeLife(71_000_156).run()


@pytest.mark.parametrize("canary", sorted(CANARIES))
def test_planted_defects_are_detected(canary: str) -> None:
    """By faults that the product survives as it is, and by the violation that the defect must cause."""
    kind = KINDS["exchange"][canary]
    finding = search(SEEDS, kind)
    assert finding is not None
    assert sweep([finding.seed], kind._replace(plant=nullcontext, violations=())) is None
    assert trace(finding.seed, kind)[1] == finding
