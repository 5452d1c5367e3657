"""The default sweep of replicas under a controller, and the planted defects it has to find."""

import pytest

from tests.sim.replication.canaries import CANARIES
from tests.sim.sweep import KINDS, REPLICATION, sweep, trace

SEEDS = 640
CHUNK = 40
"""So that parallel workers have something to share."""


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_no_life_breaks_an_invariant(first: int) -> None:
    assert sweep(range(first, first + CHUNK), REPLICATION) is None


@pytest.mark.parametrize("seed", [24_083, 25_824, 26_890])
def test_lives_of_which_the_simulation_thought_wrongly_once(seed: int) -> None:
    """A repeat of what another leader had committed and deleted; a replica that a reverted reassignment leaves as the only one in sync."""
    assert sweep([seed], REPLICATION) is None


@pytest.mark.parametrize("canary", sorted(CANARIES))
def test_planted_defects_are_found(canary: str) -> None:
    """By the same sweep that passes with the product as it is; without this the sweep above would prove nothing."""
    kind = KINDS["replication"][canary]
    finding = sweep(range(SEEDS), kind)
    assert finding is not None
    assert sweep([finding.seed], REPLICATION) is None
    assert trace(finding.seed, kind)[1] == finding
