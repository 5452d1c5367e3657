"""Regions: the part of a broker's rack before the first slash, and an order of preference among them."""

from collections.abc import Sequence


def region_of(rack: str | None) -> str:
    """`eu-west/a` is zone `a` of region `eu-west`; a rack without a slash is a region without zones. Empty without a rack."""
    return (rack or "").partition("/")[0]


def rank_of(region: str, preference: Sequence[str]) -> int:
    """The position of a region in an order of preference; one that is not named ranks after all that are."""
    return preference.index(region) if region in preference else len(preference)
