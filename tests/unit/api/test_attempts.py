"""Wrong keys are counted by address and time."""

from isthmus_api.limits import FAILING_ADDRESSES_MAX, FAILURES_MAX
from isthmus_api.security.attempts import Attempts
from isthmus_model.clocks import WallMs


def test_an_address_waits_after_too_many_failures_until_the_oldest_is_over() -> None:
    attempts = Attempts()
    for number in range(FAILURES_MAX):
        assert attempts.wait_seconds("a", WallMs(number * 1000)) == 0
        attempts.failed("a", WallMs(number * 1000))
    assert attempts.wait_seconds("a", WallMs(9_000)) == 51
    assert attempts.wait_seconds("a", WallMs(59_999)) == 1
    assert attempts.wait_seconds("b", WallMs(9_000)) == 0
    assert attempts.wait_seconds("a", WallMs(60_000)) == 0
    attempts.failed("a", WallMs(60_000))
    assert attempts.wait_seconds("a", WallMs(60_500)) == 1  # for the second of the first ten


def test_success_forgives() -> None:
    attempts = Attempts()
    for _ in range(FAILURES_MAX):
        attempts.failed("a", WallMs(0))
    attempts.succeeded("a")
    assert attempts.wait_seconds("a", WallMs(0)) == 0


def test_the_address_that_failed_longest_ago_is_forgotten() -> None:
    attempts = Attempts()
    for _ in range(FAILURES_MAX):
        attempts.failed("first", WallMs(0))
    for number in range(FAILING_ADDRESSES_MAX):
        attempts.failed(f"other-{number}", WallMs(1))
    assert attempts.wait_seconds("first", WallMs(1)) == 0
