"""Requests in flight: at most one per peer, with a timeout, and a pause after a failure that grows while the peer keeps failing."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from isthmus_model.clocks import MonotonicMs

FAILURES_PER_STEP: Final = 8
"""Failures after which the pause doubles: it stays at about a tenth of the time for which the peer has failed."""


@dataclass(slots=True)
class _Peer:
    request_id: int | None = None
    due_ms: int = 0
    """When the request times out, or, with none in flight, when the next one may be sent."""


class Requests:
    """Requests in flight by peer. Responses are matched by request id, so that late, duplicate and outdated ones are ignored."""

    def __init__(self, timeout_ms: int, backoff_ms: int, backoff_max_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._backoff_ms = backoff_ms
        self._backoff_max_ms = backoff_max_ms
        self._failures: Counter[int] = Counter()
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
        """Complete a request. Return False if it is not the one in flight."""
        state = self._peers.get(peer)
        if state is None or state.request_id != request_id:
            return False
        del self._peers[peer]
        return True

    def back_off(self, peer: int, now_ms: MonotonicMs) -> None:
        """Pause after a request that failed, or was refused."""
        pause = self._backoff_ms << min(self._failures[peer] // FAILURES_PER_STEP, 16)
        self._peers[peer] = _Peer(None, now_ms + min(pause, self._backoff_max_ms))
        self._failures[peer] += 1

    def forget_failures(self) -> None:
        """Begin with the shortest pauses again, for all peers: there is a leader, and a later search for one must not be delayed."""
        self._failures.clear()

    def expire(self, now_ms: MonotonicMs) -> None:
        for peer, state in list(self._peers.items()):
            if state.request_id is not None and state.due_ms <= now_ms:
                self.back_off(peer, now_ms)

    def is_slow(self, peer: int, now_ms: MonotonicMs, after_ms: int) -> bool:
        """Whether a request has been in flight for that long."""
        state = self._peers.get(peer)
        return state is not None and state.request_id is not None and self._sent_ms(state) + after_ms <= now_ms

    def slow_deadline(self, now_ms: MonotonicMs, after_ms: int) -> int | None:
        """When the next request will have been in flight for that long."""
        due = [self._sent_ms(state) + after_ms for state in self._peers.values() if state.request_id is not None]
        return min((each for each in due if each > now_ms), default=None)

    def _sent_ms(self, state: _Peer) -> int:
        return state.due_ms - self._timeout_ms

    def reset(self) -> None:
        """Forget all requests in flight, and all pauses, after a change of role."""
        self._peers.clear()

    def deadline(self, now_ms: MonotonicMs) -> int | None:
        """When the next request times out or the next pause ends."""
        due = [state.due_ms for state in self._peers.values() if state.request_id is not None or state.due_ms > now_ms]
        return min(due, default=None)
