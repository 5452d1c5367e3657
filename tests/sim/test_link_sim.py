"""The default sweep of a link's partition, and the canary that it must detect."""

import pytest

from tests.sim.sweep import KINDS, LINK, sweep

SEEDS = 1_000
CHUNK = 250


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_a_copy_follows_its_source_batch_for_batch(first: int) -> None:
    assert sweep(range(first, first + CHUNK), LINK) is None


def test_a_life_in_which_a_copy_went_on_with_another_log() -> None:
    """A fetch got a response above records that the destination had refused: it had others there, which the source had lost."""
    assert sweep([2_075_910], LINK) is None


def test_appends_that_do_not_name_their_offset_are_detected() -> None:
    finding = sweep(range(SEEDS), KINDS["link"]["append-anywhere"])
    assert finding is not None
    assert sweep([finding.seed], LINK) is None
