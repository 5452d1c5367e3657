"""Clocks for tests: moments and clocks that are set by hand."""

from isthmus_model.clocks import Clocks, MonotonicMs, Now, WallMs


def at(ms: int) -> Now:
    """The moment at which both clocks show `ms`."""
    return Now(WallMs(ms), MonotonicMs(ms))


def stopped(ms: int = 0) -> Clocks:
    """Two clocks that stand still."""
    return Clocks(lambda: WallMs(ms), lambda: MonotonicMs(ms))
