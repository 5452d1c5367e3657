"""Regions of racks."""

import pytest
from isthmus_model.regions import rank_of, region_of


@pytest.mark.parametrize(("rack", "region"), [("eu-west/a", "eu-west"), ("eu-west", "eu-west"), (None, ""), ("", "")])
def test_the_region_is_what_precedes_the_first_slash(rack: str | None, region: str) -> None:
    assert region_of(rack) == region


def test_a_region_that_is_not_named_ranks_last() -> None:
    assert [rank_of(region, ("eu", "us")) for region in ("eu", "us", "asia", "")] == [0, 1, 2, 2]
