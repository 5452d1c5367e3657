"""Majority arithmetic, against a slow reference that counts."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from isthmus_broker.core.raft.quorum import Ballot, majority, majority_offset


@given(st.integers(1, 9))
def test_any_two_majorities_share_a_member(size: int) -> None:
    members = range(size)
    assert not any(
        set(a).isdisjoint(b)
        for a in combinations(members, majority(size))
        for b in combinations(members, majority(size))
    )
    assert 2 * (majority(size) - 1) <= size


@given(st.lists(st.integers(-1, 20), min_size=1, max_size=7))
def test_the_majority_offset_is_the_largest_that_enough_have_reached(ends: list[int]) -> None:
    slow = max(offset for offset in ends if sum(end >= offset for end in ends) > len(ends) / 2)
    assert majority_offset(ends) == slow


def test_a_ballot_counts_the_first_response_of_each_voter() -> None:
    ballot = Ballot((1, 2, 3))
    ballot.record(1, True)
    ballot.record(9, True)
    ballot.record(2, False)
    ballot.record(2, True)
    assert not ballot.is_won()
    assert not ballot.is_lost()
    assert ballot.undecided() == (3,)
    ballot.record(3, True)
    assert ballot.is_won()
    assert ballot.granting() == (1, 3)


def test_a_ballot_is_lost_when_the_rest_cannot_win_it() -> None:
    ballot = Ballot((1, 2, 3))
    ballot.record(2, False)
    assert not ballot.is_lost()
    ballot.record(3, False)
    assert ballot.is_lost()
