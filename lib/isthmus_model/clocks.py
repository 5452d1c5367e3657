"""Two clocks, told apart by their types.

Wall time is for timestamps: it leaves the process, people read it, and it may be set forward or back at any moment. Monotonic time is for
deadlines, timeouts and intervals: it never runs backwards, and means nothing outside of the process. A deadline on wall time fires early or
never when the clock is set; so functions name the clock they need in their signatures.
"""

from collections.abc import Callable
from typing import NewType

WallMs = NewType("WallMs", int)
"""Milliseconds since 1970, as in a record's timestamp."""

MonotonicMs = NewType("MonotonicMs", int)
"""Milliseconds since an unknown moment; only differences have a meaning."""

WallClock = Callable[[], WallMs]
MonotonicClock = Callable[[], MonotonicMs]
