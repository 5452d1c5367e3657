"""Connection limits: which connections wait, are refused, or are displaced."""

from typing import Any

from isthmus_broker.core.connection_quota import BURST_SECONDS, ConnectionLimits, ConnectionQuota, ListenerLimits
from isthmus_model.clocks import MonotonicMs


def quota(connections: int, protected: str | None = None, **limits: Any) -> ConnectionQuota:
    made = ConnectionQuota(ConnectionLimits(**limits), protected)
    for number in range(connections):
        assert made.opened("CLIENTS", f"host {number}", MonotonicMs(0))
    return made


def test_beyond_the_most_connections_one_waits_for_another_to_end() -> None:
    full = quota(2, connections_max=2)
    assert full.wait_ms("CLIENTS", MonotonicMs(0)) is None
    full.closed("CLIENTS", "host 0")
    assert full.wait_ms("CLIENTS", MonotonicMs(0)) == 0
    assert full.total == 1


def test_a_listener_has_a_most_of_its_own() -> None:
    full = quota(1, listeners={"CLIENTS": ListenerLimits(connections_max=1)})
    assert full.wait_ms("CLIENTS", MonotonicMs(0)) is None
    assert full.wait_ms("OTHER", MonotonicMs(0)) == 0


def test_an_address_with_too_many_is_refused() -> None:
    two = quota(0, per_address_max=2, per_address_overrides={"b": 1, "c": 0})
    assert [two.opened("CLIENTS", address, MonotonicMs(0)) for address in ("a", "a", "a", "b", "b", "c")] == [
        True, True, False, True, False, False,
    ]  # fmt: skip
    assert two.total == 3


def test_brokers_are_let_in_and_clients_give_way() -> None:
    full = quota(2, "BROKERS", connections_max=2)
    assert full.wait_ms("BROKERS", MonotonicMs(0)) == 0
    assert full.opened("BROKERS", "broker", MonotonicMs(0))
    assert full.excess == 1
    full.closed("CLIENTS", "host 1")
    assert full.excess == 0
    full.limits = ConnectionLimits(connections_max=0)
    assert full.excess == 1  # the broker's connection stays


def test_connections_come_at_their_rate_after_a_burst() -> None:
    rated = quota(0, rate_max=2)
    for _ in range(2 * BURST_SECONDS):
        assert rated.wait_ms("CLIENTS", MonotonicMs(1000)) == 0
        rated.opened("CLIENTS", "a", MonotonicMs(1000))
    assert rated.wait_ms("CLIENTS", MonotonicMs(1000)) == 500
    assert rated.wait_ms("CLIENTS", MonotonicMs(1400)) == 100
    assert rated.wait_ms("CLIENTS", MonotonicMs(1500)) == 0
    rated.limits = ConnectionLimits(rate_max=0)
    assert rated.wait_ms("CLIENTS", MonotonicMs(1_000_000)) is None


def test_the_rate_of_its_listener_limits_brokers_and_not_that_of_the_node() -> None:
    limits = ConnectionLimits(rate_max=0, listeners={"BROKERS": ListenerLimits(rate_max=1)})
    rated = ConnectionQuota(limits, "BROKERS")
    for _ in range(BURST_SECONDS):
        assert rated.wait_ms("BROKERS", MonotonicMs(0)) == 0
        rated.opened("BROKERS", "a", MonotonicMs(0))
    assert rated.wait_ms("BROKERS", MonotonicMs(0)) == 1000
