"""The default sweep of replicas under a controller, and the planted defects that it must detect."""

import pytest

from tests.sim.replication.canaries import CANARIES
from tests.sim.sweep import KINDS, REPLICATION, sweep, trace

SEEDS = 640
CHUNK = 40
"""Several chunks, so that parallel workers share the sweep."""


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_no_life_breaks_an_invariant(first: int) -> None:
    assert sweep(range(first, first + CHUNK), REPLICATION) is None


@pytest.mark.parametrize("seed", [24_083, 26_890, 32_646, 40_124, 46_002])
def test_lives_that_exposed_defects_missed_by_the_default_sweep(seed: int) -> None:
    """A repeated batch was acknowledged that had never been committed; a watermark was sent to a connection that was closed."""
    assert sweep([seed], REPLICATION) is None


def test_a_life_of_which_the_simulation_thought_wrongly_once() -> None:
    """A reverted reassignment makes a replica the only member of the ISR that was not in sync."""
    assert sweep([25_824], REPLICATION) is None


@pytest.mark.parametrize("canary", sorted(CANARIES))
def test_planted_defects_are_detected(canary: str) -> None:
    """By the same sweep that passes with the product as it is; without this the sweep above would prove nothing."""
    kind = KINDS["replication"][canary]
    finding = sweep(range(SEEDS), kind)
    assert finding is not None
    assert sweep([finding.seed], REPLICATION) is None
    assert trace(finding.seed, kind)[1] == finding
