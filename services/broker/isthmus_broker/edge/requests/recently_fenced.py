"""Brokers that were fenced a moment ago. Metadata continues to list them briefly.

If librdkafka learns in one response both that a broker is gone and who the new leaders of its partitions are, it drops both, and requests
metadata again after a second. If it learns of the new leaders first, it switches at once. Kafka lists a dead broker until its session ends,
9 seconds by default, so clients tolerate the entry.
"""

from typing import Final

from isthmus_model.clocks import MonotonicClock

from isthmus_broker.core.metadata.delta import Changes

LISTED_MS: Final = 5_000


class RecentlyFenced:
    """Follows the metadata by a given clock."""

    def __init__(self, clock: MonotonicClock) -> None:
        self._clock = clock
        self._fenced_at: dict[int, int] = {}

    def changed(self, changes: Changes) -> None:
        """Record brokers that have just been fenced; remove those that were unfenced or unregistered."""
        for broker_id in changes.brokers:
            before, after = changes.before.brokers.get(broker_id), changes.after.brokers.get(broker_id)
            if after is None or not after.fenced:
                self._fenced_at.pop(broker_id, None)
            elif before is not None and not before.fenced:
                self._fenced_at[broker_id] = self._clock()

    def still_listed(self) -> frozenset[int]:
        """The brokers fenced within the last `LISTED_MS`."""
        if not self._fenced_at:
            return frozenset()
        since = self._clock() - LISTED_MS
        self._fenced_at = {broker_id: at for broker_id, at in self._fenced_at.items() if at > since}
        return frozenset(self._fenced_at)
