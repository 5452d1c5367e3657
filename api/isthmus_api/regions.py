"""Where a broker is."""


def region_of(rack: str | None) -> str:
    """The part of a rack before the first slash; empty without a rack."""
    return (rack or "").partition("/")[0]
