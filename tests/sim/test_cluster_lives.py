"""The second half of the default sweep over whole nodes, in a file of its own, so that another worker can run it."""

import pytest

from tests.sim.sweep import CLUSTER, sweep
from tests.sim.test_cluster_sim import CHUNK, FIRST_HALF, SEEDS


@pytest.mark.parametrize("first", range(FIRST_HALF, SEEDS, CHUNK))
def test_no_life_loses_anything(first: int) -> None:
    assert sweep(range(first, first + CHUNK), CLUSTER) is None
