"""The last heartbeat of each broker, as recorded by the active controller.

The one state of the controller that is not in the metadata log: a new active controller starts without it and gives every broker a whole
session timeout, except for its predecessor's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from isthmus_model.clocks import MonotonicMs

from isthmus_broker.core.metadata.image import ClusterImage

NOT_STOPPING: Final = -1
FIRST_HEARTBEAT_SHARE: Final = 3
"""The broker of the previous active controller has at least one third of its session timeout for its first heartbeat to the new one."""


@dataclass(slots=True)
class Session:
    """The last heartbeat of one registration."""

    epoch: int
    contact_ms: MonotonicMs
    metadata_offset: int = -1
    stopping_at_offset: int = NOT_STOPPING
    """The log end offset when the broker began its controlled shutdown: other brokers must apply its moved leaderships before it stops."""
    is_electing: bool = False
    """Whether the broker was unfenced, and partitions without a leader are left that it may lead."""


class Sessions:
    """The last heartbeat of each broker, and its offset in the metadata log."""

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

    def backdate(self, broker_id: int, contact_ms: MonotonicMs) -> None:
        """Start a broker's session at the last message of the controller in the same process, which was the active one before."""
        session = self._sessions.get(broker_id)
        if session is not None:
            earliest = session.contact_ms - self._timeout_ms + self._timeout_ms // FIRST_HEARTBEAT_SHARE
            session.contact_ms = MonotonicMs(min(session.contact_ms, max(contact_ms, earliest)))

    def forget(self, broker_id: int) -> None:
        self._sessions.pop(broker_id, None)

    def is_valid(self, broker_id: int, epoch: int, now_ms: MonotonicMs) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and session.epoch == epoch and now_ms < session.contact_ms + self._timeout_ms

    def expired(self, image: ClusterImage, now_ms: MonotonicMs) -> list[int]:
        """Unfenced brokers without a heartbeat for a session timeout, ordered by id."""
        return [
            broker_id
            for broker_id, broker in sorted(image.brokers.items())
            if not broker.fenced and not self.is_valid(broker_id, broker.broker_epoch, now_ms)
        ]

    def forget_expired(self, now_ms: MonotonicMs) -> None:
        """Remove expired sessions; a broker that is not fenced still counts as expired."""
        for broker_id, session in list(self._sessions.items()):
            if now_ms >= session.contact_ms + self._timeout_ms:
                del self._sessions[broker_id]

    def deadline(self) -> int | None:
        """When the next session expires."""
        return min((session.contact_ms + self._timeout_ms for session in self._sessions.values()), default=None)

    def lowest_active_offset(self, image: ClusterImage) -> int | None:
        """The lowest metadata offset of the brokers that are neither fenced nor shutting down; None if there are none."""
        offsets = [
            session.metadata_offset
            for broker_id, session in self._sessions.items()
            if session.stopping_at_offset == NOT_STOPPING
            and (broker := image.brokers.get(broker_id)) is not None
            and not broker.fenced
        ]
        return min(offsets, default=None)
