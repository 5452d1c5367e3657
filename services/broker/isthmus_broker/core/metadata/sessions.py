"""When each broker last sent a heartbeat, as the active controller remembers it.

The one state of the controller that is not in the metadata log: a new active controller starts afresh and gives every broker a whole
session timeout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from isthmus_model.clocks import MonotonicMs

from isthmus_broker.core.metadata.image import ClusterImage

NOT_STOPPING: Final = -1


@dataclass(slots=True)
class Session:
    """The last heartbeat of one registration."""

    epoch: int
    contact_ms: MonotonicMs
    metadata_offset: int = -1
    stopping_at_offset: int = NOT_STOPPING
    """The log's end when the broker began its controlled shutdown: others must know of its moved leaderships before it goes."""


class Sessions:
    """When the active controller last heard of each broker, and how far each has read the metadata."""

    def __init__(self, image: ClusterImage, timeout_ms: int, now_ms: MonotonicMs) -> None:
        self._timeout_ms = timeout_ms
        self._sessions = {
            broker.broker_id: Session(broker.broker_epoch, now_ms)
            for broker in image.brokers.values()
            if not broker.fenced
        }

    def touch(self, broker_id: int, epoch: int, metadata_offset: int, now_ms: MonotonicMs) -> Session:
        session = self._sessions.get(broker_id)
        if session is None or session.epoch != epoch:
            session = self._sessions[broker_id] = Session(epoch, now_ms)
        session.contact_ms = now_ms
        session.metadata_offset = metadata_offset
        return session

    def forget(self, broker_id: int) -> None:
        self._sessions.pop(broker_id, None)

    def is_valid(self, broker_id: int, epoch: int, now_ms: MonotonicMs) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and session.epoch == epoch and now_ms < session.contact_ms + self._timeout_ms

    def expired(self, image: ClusterImage, now_ms: MonotonicMs) -> list[int]:
        """Brokers that are not fenced and have said nothing for a session timeout, in order of their ids."""
        return [
            broker_id
            for broker_id, broker in sorted(image.brokers.items())
            if not broker.fenced and not self.is_valid(broker_id, broker.broker_epoch, now_ms)
        ]

    def forget_silent(self, now_ms: MonotonicMs) -> None:
        """Drop what ran out; a broker that is not fenced counts as expired all the same."""
        for broker_id, session in list(self._sessions.items()):
            if now_ms >= session.contact_ms + self._timeout_ms:
                del self._sessions[broker_id]

    def deadline(self) -> int | None:
        """When the next broker may expire."""
        return min((session.contact_ms + self._timeout_ms for session in self._sessions.values()), default=None)

    def lowest_active_offset(self, image: ClusterImage) -> int | None:
        """How far every broker that is not fenced and not stopping has read the metadata; None when there is none."""
        offsets = [
            session.metadata_offset
            for broker_id, session in self._sessions.items()
            if session.stopping_at_offset == NOT_STOPPING
            and (broker := image.brokers.get(broker_id)) is not None
            and not broker.fenced
        ]
        return min(offsets, default=None)
