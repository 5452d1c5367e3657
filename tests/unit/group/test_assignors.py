"""Server-side assignors: every partition has one subscriber, loads are even, and few partitions move."""

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from isthmus_broker.core.group.assign import ASSIGNORS, GroupSpec, MemberSpec, Targets
from isthmus_broker.core.group.assign_range import assign_range
from isthmus_broker.core.group.assign_uniform import assign_uniform

A, B, C = (UUID(int=number) for number in (1, 2, 3))


def _group(
    partitions: dict[UUID, int],
    members: dict[str, set[UUID]],
    former: Targets | None = None,
    instances: dict[str, str] | None = None,
) -> GroupSpec:
    specs = tuple(
        MemberSpec(
            member_id,
            (instances or {}).get(member_id),
            topic_ids & partitions.keys(),
            (former or {}).get(member_id, {}),
        )
        for member_id, topic_ids in members.items()
    )
    used = set().union(*(spec.topic_ids for spec in specs)) if specs else set()
    counts = {topic_id: count for topic_id, count in partitions.items() if topic_id in used}
    return GroupSpec(specs, counts, all(spec.topic_ids == used for spec in specs))


def _flat(targets: Targets) -> dict[str, list[tuple[int, int]]]:
    return {
        member_id: sorted((topic_id.int, index) for topic_id, indexes in topics.items() for index in indexes)
        for member_id, topics in targets.items()
    }


_PARTITIONS = st.dictionaries(st.sampled_from([A, B, C]), st.integers(1, 9), min_size=1)
_MEMBERS = st.dictionaries(
    st.sampled_from(["m1", "m2", "m3", "m4", "m5"]), st.sets(st.sampled_from([A, B, C])), min_size=1
)


def _check_valid(group: GroupSpec, targets: Targets) -> None:
    assert targets.keys() == {member.member_id for member in group.members}
    given_out = [
        (topic_id, index) for topics in targets.values() for topic_id, indexes in topics.items() for index in indexes
    ]
    wanted = {(topic_id, index) for topic_id, count in group.partitions.items() for index in range(count)}
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == wanted
    for member in group.members:
        assert targets[member.member_id].keys() <= member.topic_ids
        assert all(targets[member.member_id].values())


@given(_PARTITIONS, _MEMBERS, _MEMBERS)
@settings(max_examples=150, deadline=None)
def test_assignments_are_valid_and_stay_so(
    partitions: dict[UUID, int], members: dict[str, set[UUID]], later: dict[str, set[UUID]]
) -> None:
    for assign in ASSIGNORS.values():
        first = _group(partitions, members)
        targets = assign(first)
        _check_valid(first, targets)
        second = _group(partitions, later, targets)
        _check_valid(second, assign(second))


@given(_PARTITIONS, st.integers(1, 6), st.integers(1, 6))
@settings(max_examples=150, deadline=None)
def test_uniform_is_even_and_moves_only_what_it_must(partitions: dict[UUID, int], before: int, after: int) -> None:
    total = sum(partitions.values())
    topic_ids = set(partitions)
    first = assign_uniform(_group(partitions, {f"m{place}": topic_ids for place in range(before)}))
    second = assign_uniform(_group(partitions, {f"m{place}": topic_ids for place in range(after)}, first))
    for targets in (first, second):
        sizes = [len(partitions) for partitions in _flat(targets).values()]
        assert max(sizes) - min(sizes) <= 1
    kept = sum(len(set(_flat(first).get(member_id, ())) & set(held)) for member_id, held in _flat(second).items())
    quota, extra = divmod(total, after)
    allowed = sorted((len(held) for member_id, held in _flat(first).items() if member_id in second), reverse=True)
    most = sum(min(size, quota + (place < extra)) for place, size in enumerate(allowed))
    assert kept == most
    assert assign_uniform(_group(partitions, {f"m{place}": topic_ids for place in range(after)}, second)) == second


@given(_PARTITIONS, _MEMBERS)
@settings(max_examples=150, deadline=None)
def test_uniform_with_different_subscriptions_settles(
    partitions: dict[UUID, int], members: dict[str, set[UUID]]
) -> None:
    """No single move of a partition would balance two members, and a second assignment moves nothing."""
    group = _group(partitions, members)
    targets = assign_uniform(group)
    if not group.homogeneous:
        subscribed = {member.member_id: member.topic_ids for member in group.members}
        loads = {member_id: len(held) for member_id, held in _flat(targets).items()}
        for owner, topics in targets.items():
            for topic_id in topics:
                takers = [loads[other] for other, topic_ids in subscribed.items() if topic_id in topic_ids]
                assert loads[owner] - min(takers) <= 1
    assert assign_uniform(_group(partitions, members, targets)) == targets


def test_range_gives_contiguous_ranges_in_the_order_of_members() -> None:
    group = _group({A: 7, B: 2}, {"m2": {A, B}, "m1": {A, B}, "m3": {A}})
    assert assign_range(group) == {
        "m1": {A: frozenset({0, 1, 2}), B: frozenset({0})},
        "m2": {A: frozenset({3, 4}), B: frozenset({1})},
        "m3": {A: frozenset({5, 6})},
    }


def test_range_orders_static_members_first_by_instance() -> None:
    group = _group({A: 3}, {"a": {A}, "z1": {A}, "z2": {A}}, instances={"z1": "i2", "z2": "i1"})
    assert assign_range(group) == {"z2": {A: frozenset({0})}, "z1": {A: frozenset({1})}, "a": {A: frozenset({2})}}


def test_a_target_ahead_of_the_metadata_is_cut_to_it() -> None:
    former: Targets = {"m1": {A: frozenset({0, 5}), C: frozenset({1})}}
    for members in ({"m1": {A}, "m2": {A}}, {"m1": {A}, "m2": {A, B}}):
        group = _group({A: 2, B: 2}, members, former)
        _check_valid(group, assign_uniform(group))
