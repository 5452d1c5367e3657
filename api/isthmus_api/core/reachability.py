"""Whether a broker is reachable, from the outcomes of its probes.

A broker is unreachable when two probes in a row time out, the second over a new connection. A probe whose timeout this process noticed
late does not count: the process itself was delayed, and the response may be unread in its own buffers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from isthmus_model.clocks import WallMs

from isthmus_api.limits import PROBE_AGAIN_SECONDS, PROBE_SECONDS, PROBE_TIMEOUT_SECONDS

MISSES: Final = 2
LATE_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Reachability:
    """The state of one endpoint after its latest probe."""

    responded_ms: int
    """When it last responded; before its first response, when it was first probed."""
    misses: int = 0
    why: str = ""

    @property
    def is_unreachable(self) -> bool:
        """Whether enough probes in a row failed."""
        return self.misses >= MISSES

    @property
    def pause(self) -> float:
        """Seconds until the next probe; after a first failure it comes soon."""
        return PROBE_AGAIN_SECONDS if 0 < self.misses < MISSES else PROBE_SECONDS

    def responded(self, now_ms: WallMs) -> Reachability:
        """The endpoint responded."""
        return Reachability(now_ms)

    def missed(self, why: str, seconds: float) -> Reachability:
        """A probe failed after this many seconds."""
        if seconds > PROBE_TIMEOUT_SECONDS + LATE_SECONDS:
            return self
        return replace(self, misses=min(self.misses + 1, MISSES), why=why)
