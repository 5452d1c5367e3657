"""A partition of a mirror topic: what the metadata says of it, and what its leader hears of the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from isthmus_wire.extensions.mirrors import MirrorState

from isthmus_broker.core.links.stop import Stop

UNKNOWN: Final = -1
_COPYING: Final = (MirrorState.ACTIVE, MirrorState.SOURCE_UNAVAILABLE, MirrorState.PENDING_STOPPED)
"""Whoever brings batches while the source counts as lost has found it again."""


@dataclass(frozen=True, slots=True)
class MirrorRole:
    """What makes the partitions of a topic other than those of an ordinary one. A topic that was never a mirror has none.

    While the topic is not stopped its log is the source's: nobody but the link writes to it, and its history of epochs is the source's,
    so a leader does not note its own there.
    """

    link_id: UUID
    link_name: str
    state: MirrorState
    stop: Stop | None

    @property
    def is_stopped(self) -> bool:
        """Whether the topic is one like any other now, but for what its log still holds of the source."""
        return self.state is MirrorState.STOPPED

    @property
    def takes_copies(self) -> bool:
        """Whether a worker may append."""
        return self.state in _COPYING


@dataclass(slots=True)
class SourceProgress:
    """What a leader has heard of the source since it leads. Times are its clock."""

    high_watermark: int = UNKNOWN
    heard_ms: int | None = None
    caught_up_ms: int | None = None

    def heard(self, high_watermark: int, log_end: int, now_ms: int) -> None:
        """A worker told where the source's committed records end, and the copy ends here."""
        self.high_watermark = max(self.high_watermark, high_watermark)
        self.heard_ms = now_ms
        if log_end >= self.high_watermark:
            self.caught_up_ms = now_ms


def age(then_ms: int | None, now_ms: int) -> int:
    """How long ago that was; -1 for never."""
    return UNKNOWN if then_ms is None else max(now_ms - then_ms, 0)
