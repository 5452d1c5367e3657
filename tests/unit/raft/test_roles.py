"""The transition table: every transition that is not in it is a crash."""

from itertools import product

import pytest
from isthmus_broker.core.raft.quorum import Ballot
from isthmus_broker.core.raft.roles import (
    TRANSITIONS,
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
    check_transition,
)

ROLES: list[Role] = [
    Unattached(0),
    Follower(2, 0),
    Prospective(Ballot((1,)), 0),
    Candidate(Ballot((1,)), 0),
    Leader(0, 0, ()),
    Resigned(0, (), set()),
]

LEGAL = [(old, new) for old, new in product(ROLES, ROLES) if type(new) in TRANSITIONS[type(old)]]
ILLEGAL = [(old, new) for old, new in product(ROLES, ROLES) if type(new) not in TRANSITIONS[type(old)]]


def name(role: Role) -> str:
    return type(role).__name__


def test_there_are_as_many_legal_moves_as_the_table_names() -> None:
    assert (len(LEGAL), len(ILLEGAL)) == (18, 18)


@pytest.mark.parametrize(("old", "new"), LEGAL, ids=name)
def test_a_legal_move_into_a_higher_epoch_passes(old: Role, new: Role) -> None:
    check_transition(old, new, 5, 6)


@pytest.mark.parametrize(("old", "new"), ILLEGAL, ids=name)
def test_an_illegal_move_crashes(old: Role, new: Role) -> None:
    with pytest.raises(AssertionError, match="illegal transition"):
        check_transition(old, new, 5, 6)


@pytest.mark.parametrize(("old", "new"), LEGAL, ids=name)
def test_the_epoch_never_goes_back(old: Role, new: Role) -> None:
    with pytest.raises(AssertionError, match="epoch decreases"):
        check_transition(old, new, 5, 4)


@pytest.mark.parametrize("old", [ROLES[4], ROLES[5]], ids=name)
def test_a_former_leader_does_not_act_again_in_its_epoch(old: Role) -> None:
    with pytest.raises(AssertionError, match="must not act again in epoch 5"):
        check_transition(old, Unattached(0), 5, 5)
