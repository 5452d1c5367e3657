"""The one place where the broker reads a clock."""

import time


def now_ms() -> int:
    """Wall-clock milliseconds, for timestamps that leave the process and for deadlines alike."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """Milliseconds that never run backwards, for cores whose safety rests on waiting long enough."""
    return time.monotonic_ns() // 1_000_000
