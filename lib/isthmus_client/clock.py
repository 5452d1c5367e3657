"""The only module that reads the clocks."""

import time

from isthmus_model.clocks import Clocks, MonotonicMs, WallMs


def wall_ms() -> WallMs:
    """Wall-clock milliseconds, for timestamps."""
    return WallMs(time.time_ns() // 1_000_000)


def monotonic_ms() -> MonotonicMs:
    """Milliseconds that never run backwards, for deadlines and intervals."""
    return MonotonicMs(time.monotonic_ns() // 1_000_000)


CLOCKS = Clocks(wall_ms, monotonic_ms)
