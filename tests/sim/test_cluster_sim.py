"""Whole nodes under a simulated loop, network and disk: lives without faults, and the determinism of seeds in one process."""

import pytest

from tests.sim.cluster.life import ClusterLife
from tests.sim.cluster.plan import NO_FAULTS, Rates
from tests.sim.sweep import CLUSTER, trace


@pytest.mark.parametrize("seed", range(12))
def test_a_life_without_faults_is_healthy(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rates, "draw", lambda _random: NO_FAULTS)
    life = ClusterLife(seed)
    life.run()
    assert life.history


def test_a_seed_is_the_same_life_after_other_lives() -> None:
    first, _ = trace(0, CLUSTER)
    trace(1, CLUSTER)
    second, _ = trace(0, CLUSTER)
    assert first == second
    assert len(first) > 100
