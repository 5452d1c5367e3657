"""The planted defects that the sweep over whole nodes must detect."""

from contextlib import nullcontext

import pytest

from tests.sim.cluster.canaries import CANARIES
from tests.sim.sweep import KINDS, search, sweep, trace
from tests.sim.test_cluster_sim import SEEDS


@pytest.mark.parametrize("canary", sorted(CANARIES))
def test_planted_defects_are_detected(canary: str) -> None:
    """By faults that the product survives as it is, and by the violation that the defect must cause."""
    kind = KINDS["cluster"][canary]
    finding = search(SEEDS, kind)
    assert finding is not None
    assert sweep([finding.seed], kind._replace(plant=nullcontext, violations=())) is None
    assert trace(finding.seed, kind)[1] == finding
