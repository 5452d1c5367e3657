"""Replication throttles (KIP-73): bytes per second for replicas that catch up, and the replicas they apply to."""

from collections import deque
from collections.abc import Iterable
from typing import Final

from isthmus_model.clocks import MonotonicMs

ALL_REPLICAS: Final = "*"
UNLIMITED: Final = 2**63 - 1


class ReplicationQuota:
    """Bytes per second over sliding windows. One response may exceed it: bytes are recorded after the check."""

    def __init__(self, windows: int, window_ms: int) -> None:
        self._span_ms = windows * window_ms
        self._window_ms = window_ms
        self._rate = UNLIMITED
        self._windows: deque[tuple[int, int]] = deque()  # (start, bytes), oldest first
        self._sum = 0

    def limit(self, bytes_per_second: int) -> None:
        """Apply this rate from now on."""
        self._rate = bytes_per_second

    def record(self, size: int, now_ms: MonotonicMs) -> None:
        """Count bytes of throttled replicas."""
        if self._windows and now_ms - self._windows[-1][0] < self._window_ms:
            start, before = self._windows[-1]
            self._windows[-1] = (start, before + size)
        else:
            self._windows.append((now_ms, size))
        self._sum += size
        self._forget(now_ms)

    def is_exceeded(self, now_ms: MonotonicMs) -> bool:
        """Whether the mean over the windows is above the rate; the first window counts in full."""
        if self._rate >= UNLIMITED or not self._windows:
            return False
        self._forget(now_ms)
        if not self._windows:
            return False
        elapsed = max(now_ms - self._windows[0][0], self._window_ms)
        return self._sum * 1000 > self._rate * elapsed

    def _forget(self, now_ms: MonotonicMs) -> None:
        while self._windows and now_ms - self._windows[0][0] >= self._span_ms:
            self._sum -= self._windows.popleft()[1]


def is_throttled(setting: Iterable[str], partition: int, broker_id: int) -> bool:
    """Whether a topic's list of throttled replicas, `partition:broker` each or `*`, names this replica."""
    return any(entry in (ALL_REPLICAS, f"{partition}:{broker_id}") for entry in setting)
