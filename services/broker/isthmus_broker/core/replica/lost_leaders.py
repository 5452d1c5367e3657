"""Leaders whose connection has just broken. In most cases their process has died, and the metadata names new leaders soon after.

Clients lose their connections at the same time and send Metadata requests at once; a response that still names the dead leader costs them
a second or more until their next one. So requests for a lost leader's partitions are held until the new leader is known, at most `HOLD_MS`.
"""

from collections.abc import Callable, Iterable
from typing import Final

from isthmus_model.clocks import MonotonicMs

HOLD_MS: Final = 500
"""Upper bound on the delay of a request; the response then contains the current metadata."""


class LostLeaders:
    """The leaders that this node's fetchers have lost, and how long requests for them are delayed."""

    def __init__(self) -> None:
        self._until: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._until)

    def lost(self, broker_id: int, now_ms: MonotonicMs) -> None:
        """Record that a connection to the leader broke or cannot be opened; the first failure counts."""
        self._until.setdefault(broker_id, now_ms + HOLD_MS)

    def reached(self, broker_id: int) -> bool:
        """Record that the leader responds again; returns whether it was lost."""
        return self._until.pop(broker_id, None) is not None

    def replaced(self, is_replaced: Callable[[int], bool]) -> None:
        """Remove brokers that are no longer leaders, after a change of the metadata."""
        for broker_id in [broker_id for broker_id in self._until if is_replaced(broker_id)]:
            del self._until[broker_id]

    def delayed_until(self, leaders: Iterable[int], now_ms: MonotonicMs) -> int | None:
        """The time until which a request for partitions of these leaders is delayed; None if it is not."""
        return max((at for leader in leaders if (at := self._until.get(leader, now_ms)) > now_ms), default=None)
