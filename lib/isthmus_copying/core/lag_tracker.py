"""When a copy was last caught up with its source, by the end offsets that the source reported."""

from dataclasses import dataclass

from isthmus_model.clocks import MonotonicMs
from isthmus_model.freshness import is_stale
from isthmus_model.lag import UNKNOWN


@dataclass(slots=True)
class LagTracker:
    """The lag of one partition. Keeps an unreached end offset with its time: when the copy reaches it, it was caught up as of that time."""

    reported_ms: int = UNKNOWN
    """When the source last reported its end."""
    caught_up_ms: int = UNKNOWN
    """The latest time at which the copy is known to have been caught up."""
    _pending: tuple[int, int] | None = None

    def record_source_end(self, end: int, reached: int, now_ms: MonotonicMs) -> None:
        """Record the source's end offset; the copy has all before `reached`."""
        self.reported_ms = now_ms
        if end > reached and self._pending is None:
            self._pending = (end, now_ms)

    def record_progress(self, reached: int, *, has_all: bool) -> None:
        """Record that the copy has all before `reached`; `has_all`: all that the source has reported."""
        if self._pending is not None and reached >= self._pending[0]:
            self.caught_up_ms, self._pending = max(self.caught_up_ms, self._pending[1]), None
        if has_all:
            self.caught_up_ms = max(self.caught_up_ms, self.reported_ms)

    def lag_ms(self, now_ms: MonotonicMs, *, has_all: bool) -> int:
        """Time since the copy was last caught up; 0 while it is, UNKNOWN if it never was."""
        if has_all and not is_stale(now_ms - self.reported_ms):
            return 0
        return UNKNOWN if self.caught_up_ms == UNKNOWN else now_ms - self.caught_up_ms
