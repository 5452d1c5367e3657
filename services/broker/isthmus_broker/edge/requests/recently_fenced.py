"""Brokers that have just been fenced, which Metadata goes on listing for a moment.

librdkafka that learns in one answer that a broker is gone and where its partitions are led now drops both, and asks again after a
second. Told of the new leaders first, it moves on at once. Kafka lists a dead broker until its session is over, 9 seconds by default,
so clients bear that well.
"""

from typing import Final

from isthmus_model.clocks import MonotonicClock

from isthmus_broker.core.metadata.delta import Changes

LISTED_MS: Final = 5_000


class Departed:
    """Follows the metadata; the clock is handed in, in milliseconds."""

    def __init__(self, clock: MonotonicClock) -> None:
        self._clock = clock
        self._fenced_at: dict[int, int] = {}

    def changed(self, changes: Changes) -> None:
        """Note who is fenced now and was not; who serves again or is unregistered is no longer of interest."""
        for broker_id in changes.brokers:
            before, after = changes.before.brokers.get(broker_id), changes.after.brokers.get(broker_id)
            if after is None or not after.fenced:
                self._fenced_at.pop(broker_id, None)
            elif before is not None and not before.fenced:
                self._fenced_at[broker_id] = self._clock()

    def still_listed(self) -> frozenset[int]:
        """Who was fenced within the last `LISTED_MS`."""
        if not self._fenced_at:
            return frozenset()
        since = self._clock() - LISTED_MS
        self._fenced_at = {broker_id: at for broker_id, at in self._fenced_at.items() if at > since}
        return frozenset(self._fenced_at)
