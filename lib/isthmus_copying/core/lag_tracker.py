"""When a copy was last caught up with its source, by what the source has reported of its end."""

from dataclasses import dataclass

from isthmus_model.clocks import MonotonicMs
from isthmus_model.freshness import is_stale
from isthmus_model.lag import UNKNOWN


@dataclass(slots=True)
class LagTracker:
    """One partition. An end that the copy has yet to reach is kept with its time: when the copy reaches it, it has all of that moment."""

    heard_ms: int = UNKNOWN
    """When the source last reported its end."""
    caught_up_ms: int = UNKNOWN
    """The latest moment of the source of which the copy has everything."""
    _pending: tuple[int, int] | None = None

    def record_source_end(self, end: int, reached: int, now_ms: MonotonicMs) -> None:
        """The source reports its end; the copy has all before `reached`."""
        self.heard_ms = now_ms
        if end > reached and self._pending is None:
            self._pending = (end, now_ms)

    def record_progress(self, reached: int, *, has_all: bool) -> None:
        """The copy has all before `reached`, and maybe all that the source has reported."""
        if self._pending is not None and reached >= self._pending[0]:
            self.caught_up_ms, self._pending = max(self.caught_up_ms, self._pending[1]), None
        if has_all:
            self.caught_up_ms = max(self.caught_up_ms, self.heard_ms)

    def lag_ms(self, now_ms: MonotonicMs, *, has_all: bool) -> int:
        """How long ago the copy was last caught up; 0 while it is, UNKNOWN if it never was."""
        if has_all and not is_stale(now_ms - self.heard_ms):
            return 0
        return UNKNOWN if self.caught_up_ms == UNKNOWN else now_ms - self.caught_up_ms
