"""Keyed timers: at most one per key, each an operation that makes records when it is due.

The heap holds one entry per key in the common case: moving a timer to a later time, which every heartbeat does, only updates the key's own
time, and the stale entry is put back when it surfaces.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from isthmus_model.clocks import MonotonicMs, Now

from isthmus_broker.core.coordinator.result import Result

Key = tuple[str, ...]
Operation = Callable[[Now], Result]


@dataclass(frozen=True, slots=True)
class Timer:
    """What to do at a time. If its records cannot be appended it runs again `retry_ms` later, or never if that is None."""

    key: Key
    due_ms: int
    operation: Operation
    retry_ms: int | None


class Timers:
    """Timers of one shard, ordered by time and then by creation."""

    def __init__(self) -> None:
        self._timers: dict[Key, Timer] = {}
        self._queued: dict[Key, int] = {}  # the earliest heap entry of a key: never later than the timer's own time
        self._heap: list[tuple[int, int, Key]] = []
        self._made = 0

    def __len__(self) -> int:
        return len(self._timers)

    def __contains__(self, key: Key) -> bool:
        return key in self._timers

    def schedule(self, key: Key, due_ms: int, operation: Operation, retry_ms: int | None = None) -> None:
        """Set or move the timer of `key`."""
        self._timers[key] = Timer(key, due_ms, operation, retry_ms)
        queued = self._queued.get(key)
        if queued is None or due_ms < queued:
            self._push(key, due_ms)

    def schedule_if_absent(self, key: Key, due_ms: int, operation: Operation, retry_ms: int | None = None) -> None:
        """Set the timer of `key` unless it is set."""
        if key not in self._timers:
            self.schedule(key, due_ms, operation, retry_ms)

    def cancel(self, key: Key) -> None:
        """Remove the timer of `key`, if any."""
        self._timers.pop(key, None)

    def pop_due(self, now: MonotonicMs) -> Timer | None:
        """Remove and return the first timer that is due."""
        self._settle()
        if not self._heap or self._heap[0][0] > now:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._queued[key]
        return self._timers.pop(key)

    def deadline(self) -> int | None:
        """When the first timer is due."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    def _push(self, key: Key, due_ms: int) -> None:
        self._made += 1
        self._queued[key] = due_ms
        heapq.heappush(self._heap, (due_ms, self._made, key))

    def _settle(self) -> None:
        """Ensure that the top of the heap is a timer that is set, at its own time."""
        while self._heap:
            queued_ms, _, key = self._heap[0]
            timer = self._timers.get(key)
            if timer is not None and timer.due_ms == queued_ms and self._queued.get(key) == queued_ms:
                return
            heapq.heappop(self._heap)
            if self._queued.get(key) != queued_ms:
                continue  # superseded by an earlier entry of the same key
            del self._queued[key]
            if timer is not None:
                self._push(key, timer.due_ms)
