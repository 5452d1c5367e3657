"""Replication quotas, and the lists of throttled replicas."""

import pytest
from isthmus_broker.core.replica.replication_quota import ReplicationQuota, is_throttled
from isthmus_model.clocks import MonotonicMs


def quota(rate: int) -> ReplicationQuota:
    made = ReplicationQuota(windows=11, window_ms=1_000)
    made.limit(rate)
    return made


def test_without_a_limit_no_rate_exceeds_it() -> None:
    made = ReplicationQuota(windows=11, window_ms=1_000)
    made.record(2**40, MonotonicMs(0))
    assert not made.is_exceeded(MonotonicMs(0))


def test_a_quota_is_exceeded_until_the_mean_is_below_the_rate() -> None:
    made = quota(1_000)
    made.record(1_000, MonotonicMs(0))
    assert not made.is_exceeded(MonotonicMs(0))
    made.record(3_000, MonotonicMs(100))
    assert made.is_exceeded(MonotonicMs(100))
    assert made.is_exceeded(MonotonicMs(3_999))
    assert not made.is_exceeded(MonotonicMs(4_000))


def test_bytes_older_than_the_windows_do_not_count() -> None:
    made = quota(10)
    made.record(1_000_000, MonotonicMs(0))
    assert made.is_exceeded(MonotonicMs(10_999))
    assert not made.is_exceeded(MonotonicMs(11_000))


def test_a_new_limit_applies_at_once() -> None:
    made = quota(10)
    made.record(1_000, MonotonicMs(0))
    made.limit(10_000)
    assert not made.is_exceeded(MonotonicMs(0))


@pytest.mark.parametrize(
    ("setting", "throttled"),
    [((), False), (("*",), True), (("0:1", "3:2"), True), (("0:1", "2:3"), False), (("3:1",), False)],
)
def test_which_replicas_are_throttled(setting: tuple[str, ...], throttled: bool) -> None:
    assert is_throttled(setting, 3, 2) is throttled
