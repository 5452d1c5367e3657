"""The sticky assignor: every task once, equal shares, few moves, and standbys in other processes."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from isthmus_broker.core.group.streams.assign_sticky import MemberSpec, SubtopologySpec, assign
from isthmus_broker.core.group.streams.tasks import NO_TASKS, Assignment

Last = Mapping[str, Assignment]


def run(members: Mapping[str, str], parts: Mapping[str, int], standbys: int = 0, last: Last | None = None) -> Last:
    """Members by process; subtopologies with their number of tasks, stateful if the name ends with an s."""
    specs = [MemberSpec(name, process, (last or {}).get(name, NO_TASKS)) for name, process in members.items()]
    subtopologies = [SubtopologySpec(name, count, name.endswith("s")) for name, count in parts.items()]
    return assign(specs, subtopologies, standbys)


def active(assignment: Assignment) -> set[tuple[str, int]]:
    return {(name, index) for name, indexes in assignment.active.items() for index in indexes}


def standby(assignment: Assignment) -> set[tuple[str, int]]:
    return {(name, index) for name, indexes in assignment.standby.items() for index in indexes}


def test_tasks_are_dealt_out_by_subtopology() -> None:
    assert run({"a": "p", "b": "q"}, {"0": 3, "1": 2}) == {
        "a": Assignment({"0": {0, 2}, "1": {1}}),
        "b": Assignment({"0": {1}, "1": {0}}),
    }


def test_without_members_there_is_nothing_to_assign() -> None:
    assert run({}, {"0": 3}) == {}


def test_more_members_than_tasks() -> None:
    targets = run({"a": "p", "b": "q", "c": "r"}, {"0": 2})
    assert sorted(len(active(target)) for target in targets.values()) == [0, 1, 1]


def test_a_new_member_takes_only_its_share() -> None:
    first = run({"a": "p"}, {"0": 6})
    second = run({"a": "p", "b": "q"}, {"0": 6}, last=first)
    assert second == {"a": Assignment({"0": {0, 1, 2}}), "b": Assignment({"0": {3, 4, 5}})}
    assert run({"a": "p", "b": "q"}, {"0": 6}, last=second) == second


def test_the_tasks_of_a_member_that_leaves_go_to_the_others() -> None:
    first = run({"a": "p", "b": "q", "c": "r"}, {"0": 6})
    second = run({"a": "p", "b": "q"}, {"0": 6}, last=first)
    for name in ("a", "b"):
        assert active(first[name]) < active(second[name])
        assert len(active(second[name])) == 3


def test_a_standby_becomes_active() -> None:
    first = run({"a": "p", "b": "q", "c": "r"}, {"0s": 3}, standbys=1)
    assert all(len(active(target)) == len(standby(target)) == 1 for target in first.values())
    second = run({"a": "p", "b": "q"}, {"0s": 3}, standbys=1, last=first)
    (lost,) = active(first["c"])
    (heir,) = (name for name in ("a", "b") if lost in standby(first[name]))
    assert lost in active(second[heir])


def test_a_stateless_subtopology_has_no_standbys() -> None:
    targets = run({"a": "p", "b": "q"}, {"0": 4, "1s": 2}, standbys=1)
    assert {task[0] for target in targets.values() for task in standby(target)} == {"1s"}


def test_there_are_at_most_as_many_standbys_as_other_processes() -> None:
    threads = run({"a": "p", "b": "p"}, {"0s": 4}, standbys=2)
    assert not any(standby(target) for target in threads.values())
    two = run({"a": "p", "b": "q"}, {"0s": 4}, standbys=2)
    assert sum(len(standby(target)) for target in two.values()) == 4


def test_the_last_active_member_keeps_a_standby() -> None:
    """Its state is complete."""
    last = {"a": Assignment({"0s": {0, 1, 2, 3}}), "b": NO_TASKS, "c": NO_TASKS}
    targets = run({"a": "p", "b": "q", "c": "r"}, {"0s": 4}, standbys=1, last=last)
    moved = active(targets["b"]) | active(targets["c"])
    assert len(moved) == 2
    assert len(standby(targets["a"]) & moved) >= 1


_MEMBERS = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("pqrs"), min_size=1, max_size=8)
_PARTS = st.dictionaries(st.sampled_from(["0", "1s", "2s", "3"]), st.integers(1, 7), min_size=1, max_size=4)


@given(before=_MEMBERS, after=_MEMBERS, parts=_PARTS, standbys=st.integers(0, 2))
def test_every_assignment_is_complete_and_balanced(
    before: dict[str, str], after: dict[str, str], parts: dict[str, int], standbys: int
) -> None:
    last = run(before, parts, standbys)
    targets = run(after, parts, standbys, last)
    assert targets.keys() == after.keys()
    tasks = {(name, index) for name, count in parts.items() for index in range(count)}
    owned = [task for target in targets.values() for task in active(target)]
    assert len(owned) == len(tasks)
    assert set(owned) == tasks
    processes = set(after.values())
    for task in tasks:
        holders = [after[name] for name, target in targets.items() if task in active(target) | standby(target)]
        assert len(holders) == len(set(holders)), "a process has a task once"
        copies = min(standbys, len(processes) - 1) if task[0].endswith("s") else 0
        assert len(holders) == 1 + copies
    if standbys == 0 and len(processes) == len(after):
        shares = [len(active(target)) for target in targets.values()]
        assert max(shares) - min(shares) <= 1


@given(members=_MEMBERS, parts=_PARTS)
def test_nothing_moves_without_a_reason(members: dict[str, str], parts: dict[str, int]) -> None:
    first = run(members, parts)
    assert run(members, parts, last=first) == first
