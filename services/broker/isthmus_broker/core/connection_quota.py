"""Connection limits over all listeners of a node: counts, rates, and which connections are closed when there are too many.

As in Kafka, new connections wait for `max.connections` and for the creation rate, and are closed beyond `max.connections.per.ip`. The
inter-broker listener, if it is not the only one, never waits: idle connections of other listeners are closed in its favour.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from isthmus_model.clocks import MonotonicMs

UNLIMITED: Final = 2**31 - 1
BURST_SECONDS: Final = 10
"""Connections may exceed the rate briefly, for as long as Kafka's quota windows average it."""


class ListenerLimits(NamedTuple):
    """The limits of one listener."""

    connections_max: int = UNLIMITED
    rate_max: int = UNLIMITED


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of the node; `rate_max` counts new connections per second."""

    connections_max: int = UNLIMITED
    rate_max: int = UNLIMITED
    per_address_max: int = UNLIMITED
    per_address_overrides: Mapping[str, int] = field(default_factory=dict)
    listeners: Mapping[str, ListenerLimits] = field(default_factory=dict)

    def of(self, listener: str) -> ListenerLimits:
        """The limits of that listener, in addition to the node's."""
        return self.listeners.get(listener, ListenerLimits())


class _Rate:
    """A token bucket: it fills at the allowed rate up to a burst."""

    def __init__(self) -> None:
        self._spent = 0.0
        self._at_ms = 0

    def wait_ms(self, rate: int, now_ms: MonotonicMs) -> int | None:
        """Milliseconds until the next connection; None for never at this rate."""
        if rate == 0:
            return None
        if rate == UNLIMITED:
            return 0
        over = self._left(rate, now_ms) + 1 - rate * BURST_SECONDS
        return max(0, -int(-over * 1000 // rate))

    def take(self, rate: int, now_ms: MonotonicMs) -> None:
        self._spent, self._at_ms = self._left(rate, now_ms) + 1, now_ms

    def _left(self, rate: int, now_ms: MonotonicMs) -> float:
        return max(0.0, self._spent - rate * (now_ms - self._at_ms) / 1000)


class ConnectionQuota:
    """The connections of a node by listener and by address. Connections to the `protected` listener, if any, never wait."""

    def __init__(self, limits: ConnectionLimits, protected: str | None = None) -> None:
        self.limits = limits
        self.protected = protected
        self._by_listener: Counter[str] = Counter()
        self._by_address: Counter[str] = Counter()
        self._rate = _Rate()
        self._rates: dict[str, _Rate] = {}

    @property
    def total(self) -> int:
        """The number of open connections."""
        return self._by_listener.total()

    @property
    def excess(self) -> int:
        """The number of connections of unprotected listeners to close."""
        others = self.total - self._by_listener[self.protected or ""]
        return max(0, min(self.total - self.limits.connections_max, others))

    def wait_ms(self, listener: str, now_ms: MonotonicMs) -> int | None:
        """How long a new connection to this listener waits; None: until a connection ends or limits change."""
        limits = self.limits
        own = limits.of(listener)
        if self._by_listener[listener] >= own.connections_max:
            return None
        if listener != self.protected and self.total >= limits.connections_max:
            return None
        waits = [self._rates.setdefault(listener, _Rate()).wait_ms(own.rate_max, now_ms)]
        if listener != self.protected:
            waits.append(self._rate.wait_ms(limits.rate_max, now_ms))
        return None if None in waits else max(wait for wait in waits if wait is not None)

    def opened(self, listener: str, address: str, now_ms: MonotonicMs) -> bool:
        """Count a connection. Return False if there are too many from its address."""
        limits = self.limits
        self._rate.take(limits.rate_max, now_ms)
        self._rates.setdefault(listener, _Rate()).take(limits.of(listener).rate_max, now_ms)
        if self._by_address[address] >= limits.per_address_overrides.get(address, limits.per_address_max):
            return False
        self._by_listener[listener] += 1
        self._by_address[address] += 1
        return True

    def closed(self, listener: str, address: str) -> None:
        """Stop counting a closed connection."""
        for counter, key in ((self._by_listener, listener), (self._by_address, address)):
            counter[key] -= 1
            assert counter[key] >= 0
            if not counter[key]:
                del counter[key]
