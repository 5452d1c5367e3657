"""Requests that wait for partitions: for new records, for committed records, or for replicas that catch up.

A connection serves one request at a time, so there are never more waiting requests than connections.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

R = TypeVar("R")
SOON_SECONDS: Final = 0.01
"""Upper bound on the delay of a high watermark for a follower; under load it is sent with the next records."""


class Watched(Protocol):
    """A partition, or one object for many."""

    def watch(self, wake: Callable[[], None], *, appends_too: bool) -> None:
        """Call `wake` after each change."""
        ...

    def unwatch(self, wake: Callable[[], None]) -> None:
        """Stop calling `wake`."""
        ...


class Handle(Protocol):
    """A scheduled call."""

    def cancel(self) -> None: ...


class TimedHandle(Handle, Protocol):
    """A scheduled call with its time."""

    def when(self) -> float: ...


class Timers(Protocol):
    """Schedules calls, as asyncio's event loop does."""

    def time(self) -> float: ...

    def call_soon(self, callback: Callable[[], None], /) -> Handle: ...

    def call_at(self, when: float, callback: Callable[[], None], /) -> TimedHandle: ...


class Waiting(Generic[R]):
    """A waiting request: checks after each change of its partitions, and responds when the result is enough or at the deadline."""

    def __init__(
        self,
        timers: Timers,
        partitions: Sequence[Watched],
        wait_ms: int,
        check: Callable[[], R],
        is_enough: Callable[[R], bool],
        respond: Callable[[R], Any],
        *,
        appends_too: bool = False,
        deserves_soon: Callable[[R], bool] | None = None,
    ) -> None:
        """A result that `deserves_soon` is sent within SOON_SECONDS, so that it can be combined with what follows."""
        self._timers = timers
        self._partitions = partitions
        self._deserves_soon = deserves_soon
        self._is_soon = False
        self._check = check
        self._is_enough = is_enough
        self._respond = respond
        self._woken: Handle | None = None
        self._deadline = timers.call_at(timers.time() + wait_ms / 1000, self._time_out)
        for partition in partitions:
            partition.watch(self.wake, appends_too=appends_too)

    def wake(self) -> None:
        """Schedule one check after the current request has been served."""
        if self._woken is None:
            self._woken = self._timers.call_soon(self._check_again)

    def _check_again(self) -> None:
        self._woken = None
        result = self._check()
        if self._is_enough(result):
            self._finish(result)
        elif self._deserves_soon is not None and not self._is_soon and self._deserves_soon(result):
            self._is_soon = True
            due = min(self._deadline.when(), self._timers.time() + SOON_SECONDS)
            self._deadline.cancel()
            self._deadline = self._timers.call_at(due, self._time_out)

    def _time_out(self) -> None:
        self._finish(self._check())

    def _finish(self, result: R) -> None:
        self.cancel()
        self._respond(result)

    def cancel(self) -> None:
        """Stop waiting, without a response."""
        self._deadline.cancel()
        if self._woken is not None:
            self._woken.cancel()
        for partition in self._partitions:
            partition.unwatch(self.wake)
