"""The default sweep of a mirror flow's partition, and the canaries that it must detect."""

import pytest

from tests.sim.sweep import KINDS, MIRROR, sweep

SEEDS = 1_000
CHUNK = 250


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_a_copy_has_every_record_once_and_its_map_is_true(first: int) -> None:
    assert sweep(range(first, first + CHUNK), MIRROR) is None


@pytest.mark.parametrize("canary", ["believe-answers", "compare-ends-alone"])
def test_trust_without_reading_is_detected(canary: str) -> None:
    finding = sweep(range(SEEDS), KINDS["mirror"][canary])
    assert finding is not None
    assert sweep([finding.seed], MIRROR) is None
