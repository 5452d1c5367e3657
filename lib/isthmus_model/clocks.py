"""Two clocks, distinguished by their types.

Wall time is for timestamps: it leaves the process, people read it, and it may be set forward or back at any moment. Monotonic time is for
deadlines, timeouts and intervals: it never runs backwards, and means nothing outside of the process. A deadline on wall time fires early or
never when the clock is set; so functions name the clock they need in their signatures.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, NewType

WallMs = NewType("WallMs", int)
"""Milliseconds since 1970, as in a record's timestamp."""

MonotonicMs = NewType("MonotonicMs", int)
"""Milliseconds since an unknown moment; only differences have a meaning."""

WallClock = Callable[[], WallMs]
MonotonicClock = Callable[[], MonotonicMs]


class Now(NamedTuple):
    """One moment on both clocks, for what waits by one and stamps records with the other."""

    wall: WallMs
    monotonic: MonotonicMs

    def monotonic_of(self, timestamp_ms: int) -> MonotonicMs:
        """When a recorded timestamp was, on the monotonic clock; a timestamp in the future counts as this moment."""
        return MonotonicMs(self.monotonic - max(self.wall - timestamp_ms, 0))


@dataclass(frozen=True, slots=True)
class Clocks:
    """Both clocks, as a process or a simulation provides them."""

    wall: WallClock
    monotonic: MonotonicClock

    def now(self) -> Now:
        """This moment on both."""
        return Now(self.wall(), self.monotonic())
