"""Incremental fetch sessions: what requests carry, and what they omit."""

from isthmus_client.fetch_session import FetchSession, Key, Plan
from isthmus_wire.fetch import FetchPartition

A, B = ("a", 0), ("b", 1)


def at(offset: int) -> FetchPartition:
    return FetchPartition(0, offset, 1000)


def test_the_first_request_is_full_and_later_ones_carry_changes() -> None:
    session = FetchSession()
    assert session.plan({A: at(1), B: at(2)}) == Plan(0, 0, {A: at(1), B: at(2)}, [])
    session.confirm(7)
    assert session.plan({A: at(1), B: at(3)}) == Plan(7, 1, {B: at(3)}, [])
    session.confirm(7)
    assert session.plan({B: at(3)}) == Plan(7, 2, {}, [A])


def test_only_reported_changes_are_compared() -> None:
    session = FetchSession()
    wanted: dict[Key, FetchPartition] = {A: at(1), B: at(2)}
    assert session.plan_changes(wanted, [], []) == Plan(0, 0, dict(wanted), [])
    session.confirm(7)
    wanted[A], wanted[B] = at(5), at(6)
    assert session.plan_changes(wanted, [A], []) == Plan(7, 1, {A: at(5)}, [])
    session.confirm(7)
    del wanted[A]
    assert session.plan_changes(wanted, [A, B], [A]) == Plan(7, 2, {B: at(6)}, [A])
    session.confirm(7)
    assert session.plan_changes(wanted, [B], [A]) == Plan(7, 3, {}, [])


def test_a_broker_without_a_session_gets_full_requests() -> None:
    session = FetchSession()
    session.plan({A: at(1)})
    session.confirm(0)
    assert session.plan({A: at(1)}) == Plan(0, 0, {A: at(1)}, [])


def test_after_an_error_the_request_is_full() -> None:
    session = FetchSession()
    session.plan({A: at(1)})
    session.confirm(7)
    session.plan({A: at(2)})
    session.reset()
    assert session.plan({A: at(2)}) == Plan(0, 0, {A: at(2)}, [])


def test_epochs_wrap_to_one_since_zero_means_a_new_session() -> None:
    session = FetchSession()
    session.plan({A: at(1)})
    session.confirm(7)
    session._epoch = 0x7FFFFFFF
    assert session.plan({A: at(1)}).epoch == 0x7FFFFFFF
    session.confirm(7)
    assert session.plan({A: at(1)}).epoch == 1
