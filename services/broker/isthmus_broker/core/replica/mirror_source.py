"""A partition of a mirror topic: its state in the metadata, and what the link reports of the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.extensions.mirrors import MirrorState

from isthmus_broker.core.links.stop import Stop

UNKNOWN: Final = -1
_COPYING: Final = (MirrorState.ACTIVE, MirrorState.SOURCE_UNAVAILABLE, MirrorState.PENDING_STOPPED)
"""Appends are accepted while the source counts as unavailable: the worker that sends them has reached it again."""


@dataclass(frozen=True, slots=True)
class MirrorRole:
    """The state of a mirror topic for its partitions; None for a topic that never was one.

    Until the topic is stopped its log is the source's: only the link writes to it, and its epoch history is the source's, so a leader does
    not record its own epoch there.
    """

    link_id: UUID
    link_name: str
    state: MirrorState
    stop: Stop | None

    @property
    def is_stopped(self) -> bool:
        """Whether the topic is writable; its log keeps the records copied from the source."""
        return self.state is MirrorState.STOPPED

    @property
    def accepts_copies(self) -> bool:
        """Whether the link's worker may append."""
        return self.state in _COPYING


@dataclass(slots=True)
class SourceProgress:
    """What the link has reported of the source since this leader took over. Times are the leader's clock."""

    high_watermark: int = UNKNOWN
    reported_ms: int | None = None
    caught_up_ms: int | None = None

    def record_report(self, high_watermark: int, log_end: int, now_ms: MonotonicMs) -> None:
        """Record the source's high watermark that a worker reports, with the end of the copy."""
        self.high_watermark = max(self.high_watermark, high_watermark)
        self.reported_ms = now_ms
        if log_end >= self.high_watermark:
            self.caught_up_ms = now_ms


def age_ms(then_ms: int | None, now_ms: MonotonicMs) -> int:
    """Milliseconds since then; -1 for never."""
    return UNKNOWN if then_ms is None else max(now_ms - then_ms, 0)
