"""Whether a broker answers, judged by what came of asking it. Pure: every time is given.

A broker is away when two questions in a row went unanswered, the second by a connection of its own. A question whose end was seen late does
not count: this process was held up itself, and the answer may lie unread in its own buffers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from isthmus_model.clocks import WallMs

from isthmus_api.limits import PROBE_AGAIN_SECONDS, PROBE_ANSWER_SECONDS, PROBE_SECONDS

MISSES: Final = 2
LATE_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Reach:
    """Of one address; a new one after each question."""

    heard_ms: int
    """When it last answered; before it ever did, when it was first asked."""
    misses: int = 0
    why: str = ""

    @property
    def is_away(self) -> bool:
        """Whether it can be said that it does not answer."""
        return self.misses >= MISSES

    @property
    def pause(self) -> float:
        """Seconds until the next question: a doubt is settled soon."""
        return PROBE_AGAIN_SECONDS if 0 < self.misses < MISSES else PROBE_SECONDS

    def answered(self, now_ms: WallMs) -> Reach:
        """It is there."""
        return Reach(now_ms)

    def missed(self, why: str, seconds: float) -> Reach:
        """The question went unanswered, and this was known after so many seconds."""
        if seconds > PROBE_ANSWER_SECONDS + LATE_SECONDS:
            return self
        return replace(self, misses=min(self.misses + 1, MISSES), why=why)
