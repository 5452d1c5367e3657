"""Regions: the part of a broker's rack before the first slash, and which of several regions is liked best."""

from __future__ import annotations

from collections.abc import Sequence


def region_of(rack: str | None) -> str | None:
    """`eu-west/a` is zone `a` of region `eu-west`; a rack without a slash is a region by itself."""
    return None if rack is None else rack.partition("/")[0]


def rank_of(region: str | None, preference: Sequence[str]) -> int:
    """The place of a region in an order of preference; one that is not named comes after all that are."""
    return preference.index(region) if region in preference else len(preference)
