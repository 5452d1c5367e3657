"""Whole nodes and clients under a simulated loop, network and disk: the default sweep, and lives without faults."""

import pytest

from tests.sim.cluster.life import ClusterLife
from tests.sim.cluster.plan import NO_FAULTS
from tests.sim.sweep import CLUSTER, sweep, trace

SEEDS = 1_000
CHUNK = 25
"""Several chunks, so that parallel workers share the sweep."""


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_no_life_loses_anything(first: int) -> None:
    assert sweep(range(first, first + CHUNK), CLUSTER) is None


@pytest.mark.parametrize("seed", range(12))
def test_a_life_without_faults_is_healthy(seed: int) -> None:
    life = ClusterLife(seed, rates=NO_FAULTS)
    life.run()
    assert life.history


def test_a_seed_is_the_same_life_after_other_lives() -> None:
    first, _ = trace(0, CLUSTER)
    trace(1, CLUSTER)
    second, _ = trace(0, CLUSTER)
    assert first == second
    assert len(first) > 100
