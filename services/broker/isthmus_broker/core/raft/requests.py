"""Requests under way: at most one per peer, given up after a time, and not repeated at once after a failure."""

from dataclasses import dataclass

from isthmus_model.clocks import MonotonicMs


@dataclass(slots=True)
class _Peer:
    request_id: int | None = None
    due_ms: int = 0
    """When the request is given up, or, with none under way, when the next one may go."""


class Requests:
    """Answers are matched by request id, so that one which comes late, twice or after a change of role counts for nothing."""

    def __init__(self, timeout_ms: int, backoff_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._backoff_ms = backoff_ms
        self._peers: dict[int, _Peer] = {}
        self._last_id = 0

    def is_free(self, peer: int, now_ms: MonotonicMs) -> bool:
        state = self._peers.get(peer)
        return state is None or (state.request_id is None and state.due_ms <= now_ms)

    def start(self, peer: int, now_ms: MonotonicMs) -> int:
        assert self.is_free(peer, now_ms)
        self._last_id += 1
        self._peers[peer] = _Peer(self._last_id, now_ms + self._timeout_ms)
        return self._last_id

    def finish(self, peer: int, request_id: int) -> bool:
        """Whether this is the request under way; it no longer is."""
        state = self._peers.get(peer)
        if state is None or state.request_id != request_id:
            return False
        del self._peers[peer]
        return True

    def back_off(self, peer: int, now_ms: MonotonicMs) -> None:
        self._peers[peer] = _Peer(None, now_ms + self._backoff_ms)

    def expire(self, now_ms: MonotonicMs) -> None:
        for peer, state in self._peers.items():
            if state.request_id is not None and state.due_ms <= now_ms:
                self._peers[peer] = _Peer(None, now_ms + self._backoff_ms)

    def reset(self) -> None:
        """Forget everything under way: what was asked in another role no longer matters."""
        self._peers.clear()

    def deadline(self, now_ms: MonotonicMs) -> int | None:
        """When the next request is given up or the next pause ends."""
        due = [state.due_ms for state in self._peers.values() if state.request_id is not None or state.due_ms > now_ms]
        return min(due, default=None)
