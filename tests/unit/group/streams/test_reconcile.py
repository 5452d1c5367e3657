"""The steps of a member towards its target."""

from typing import Any

import pytest
from isthmus_broker.core.group.errors import CoordinatorError
from isthmus_broker.core.group.streams.member import MemberState, StreamsMember
from isthmus_broker.core.group.streams.owners import TaskOwners
from isthmus_broker.core.group.streams.reconcile import Target, reconcile
from isthmus_broker.core.group.streams.tasks import NO_TASKS, Assignment, OwnedAssignment
from isthmus_wire.errors import ErrorCode

STABLE, UNREVOKED, UNRELEASED = MemberState.STABLE, MemberState.UNREVOKED_TASKS, MemberState.UNRELEASED_TASKS


def member(
    epoch: int, state: MemberState = STABLE, member_id: str = "m", process: str = "p", **tasks: Any
) -> StreamsMember:
    return StreamsMember(member_id=member_id, process_id=process, epoch=epoch, state=state, **tasks)


def owned(active: dict[int, int] | None = None, standby: tuple[int, ...] = ()) -> OwnedAssignment:
    """Tasks of subtopology 0; active ones with their epochs."""
    return OwnedAssignment({"0": active} if active else {}, {"0": frozenset(standby)} if standby else {})


def tasks(active: tuple[int, ...] = (), standby: tuple[int, ...] = ()) -> Assignment:
    return Assignment({"0": frozenset(active)} if active else {}, {"0": frozenset(standby)} if standby else {})


def step(
    current: StreamsMember,
    epoch: int,
    target: Assignment,
    reported: Assignment | None = None,
    others: tuple[StreamsMember, ...] = (),
) -> StreamsMember:
    owners = TaskOwners()
    for each in (current, *others):
        owners.add(each)
    return reconcile(current, Target(epoch, target, owners), reported)


def test_a_member_at_the_epoch_of_the_target_is_left_alone() -> None:
    current = member(5, assigned=owned({0: 3}))
    assert step(current, 5, tasks((1,))) is current


def test_free_tasks_are_assigned_at_once_with_the_epoch_of_the_target() -> None:
    after = step(member(3, assigned=owned({0: 2})), 5, tasks((0, 1), (2,)))
    assert (after.epoch, after.previous_epoch, after.state) == (5, 3, STABLE)
    assert after.assigned == owned({0: 2, 1: 5}, (2,))


def test_tasks_are_revoked_first() -> None:
    current = member(3, assigned=owned({0: 2, 1: 2}, (2,)))
    after = step(current, 5, tasks((0, 3)))
    assert (after.epoch, after.previous_epoch, after.state) == (3, 3, UNREVOKED)
    assert (after.assigned, after.revoking) == (owned({0: 2}), owned({1: 2}, (2,)))
    assert step(after, 5, tasks((0, 3))) is after, "it has not reported its tasks"
    assert step(after, 5, tasks((0, 3)), tasks((0, 1))) is after, "it still has one"
    done = step(after, 5, tasks((0, 3)), tasks((0,)))
    assert (done.epoch, done.state, done.assigned, done.revoking) == (5, STABLE, owned({0: 2, 3: 5}), owned())


def test_a_new_target_while_revoking_revokes_more() -> None:
    current = member(3, UNREVOKED, assigned=owned({0: 2}), revoking=owned({1: 2}))
    after = step(current, 7, tasks(), tasks((0,)))
    assert (after.epoch, after.state, after.revoking) == (4, UNREVOKED, owned({0: 2}))


def test_a_member_that_reports_that_it_has_no_such_tasks_needs_not_revoke_them() -> None:
    after = step(member(3, assigned=owned({0: 2, 1: 2})), 5, tasks((0,)), tasks((0,)))
    assert (after.epoch, after.state, after.assigned) == (5, STABLE, owned({0: 2}))


def test_tasks_of_others_are_waited_for() -> None:
    other = member(3, UNREVOKED, "other", "q", assigned=owned(), revoking=owned({1: 2}))
    waiting = step(member(3), 5, tasks((0, 1)), others=(other,))
    assert (waiting.epoch, waiting.state, waiting.assigned) == (5, UNRELEASED, owned({0: 5}))
    assert step(waiting, 5, tasks((0, 1)), others=(other,)).assigned == waiting.assigned
    done = step(waiting, 5, tasks((0, 1)))
    assert (done.state, done.assigned) == (STABLE, owned({0: 5, 1: 5}))


@pytest.mark.parametrize("process", ["p", "q"])
def test_a_process_has_a_task_once(process: str) -> None:
    """A standby of the same process must be gone before the task becomes active there, and the other way round."""
    copying = member(3, member_id="other", process=process, assigned=owned(standby=(0,)))
    after = step(member(3), 5, tasks((0,)), others=(copying,))
    assert after.state == (UNRELEASED if process == "p" else STABLE)
    active = member(3, member_id="other", process=process, assigned=owned({0: 2}))
    after = step(member(3), 5, tasks(standby=(0,)), others=(active,))
    assert after.state == (UNRELEASED if process == "p" else STABLE)


def test_a_state_of_newer_software_starts_again() -> None:
    current = member(3, MemberState.UNKNOWN, assigned=owned({0: 2}))
    for reported in (None, tasks((0,))):
        with pytest.raises(CoordinatorError) as refusal:
            step(current, 5, tasks((0,)), reported)
        assert refusal.value.error == ErrorCode.fenced_member_epoch
    after = step(current, 5, tasks((0, 1)), NO_TASKS)
    assert (after.epoch, after.state, after.assigned) == (5, STABLE, owned({0: 2, 1: 5}))


def test_an_owner_that_was_replaced_does_not_free_the_task() -> None:
    """The new owner's record may come before the one that removes the old owner."""
    owners = TaskOwners()
    old, new = member(3, assigned=owned({0: 2})), member(5, member_id="new", process="q", assigned=owned({0: 5}))
    owners.add(old)
    owners.add(new)
    owners.remove(old)
    assert not owners.may_activate("0", 0, "r")
    owners.remove(new)
    assert owners.may_activate("0", 0, "r")


def test_copies_are_counted_by_process() -> None:
    owners = TaskOwners()
    first, second = (member(3, member_id=name, assigned=owned(standby=(0,))) for name in ("a", "b"))
    owners.add(first)
    owners.add(second)
    owners.remove(first)
    assert not owners.may_copy("0", 0, "p")
    assert owners.may_copy("0", 0, "q")
    owners.remove(second)
    assert owners.may_copy("0", 0, "p")
