"""Requests that wait for what happens to partitions: records that arrive, records that become committed, replicas that catch up.

A waiting request is bounded by its connection, which serves one request at a time: there are never more of them than connections.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

R = TypeVar("R")
SOON_SECONDS: Final = 0.01
"""How long a follower may be without a high watermark that it could know: under load the next records bring it along."""


class Watched(Protocol):
    """A partition, or something that stands for many."""

    def watch(self, wake: Callable[[], None], *, appends_too: bool) -> None:
        """Call `wake` when there is news."""
        ...

    def unwatch(self, wake: Callable[[], None]) -> None:
        """No more."""
        ...


class Waiting(Generic[R]):
    """Looks again whenever one of the partitions has news, and answers when that is enough, or at its deadline with what there is."""

    def __init__(
        self,
        partitions: Sequence[Watched],
        wait_ms: int,
        look: Callable[[], R],
        is_enough: Callable[[R], bool],
        answer: Callable[[R], None],
        *,
        appends_too: bool = False,
        deserves_soon: Callable[[R], bool] | None = None,
    ) -> None:
        """What `deserves_soon` is answered within SOON_SECONDS: worth telling, but rather together with what follows."""
        self._partitions = partitions
        self._deserves_soon = deserves_soon
        self._is_soon = False
        self._look = look
        self._is_enough = is_enough
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._woken: asyncio.Handle | None = None
        self._timer = self._loop.call_later(wait_ms / 1000, self._give_up)
        for partition in partitions:
            partition.watch(self.wake, appends_too=appends_too)

    def wake(self) -> None:
        """Look again, once, after the request that is being served now has done all it does."""
        if self._woken is None:
            self._woken = self._loop.call_soon(self._try)

    def _try(self) -> None:
        self._woken = None
        found = self._look()
        if self._is_enough(found):
            self._finish(found)
        elif self._deserves_soon is not None and not self._is_soon and self._deserves_soon(found):
            self._is_soon = True
            due = min(self._timer.when(), self._loop.time() + SOON_SECONDS)
            self._timer.cancel()
            self._timer = self._loop.call_at(due, self._give_up)

    def _give_up(self) -> None:
        self._finish(self._look())

    def _finish(self, found: R) -> None:
        self.cancel()
        self._answer(found)

    def cancel(self) -> None:
        """Wait no more."""
        self._timer.cancel()
        if self._woken is not None:
            self._woken.cancel()
        for partition in self._partitions:
            partition.unwatch(self.wake)
