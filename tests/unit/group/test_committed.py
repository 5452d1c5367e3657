"""Queries of groups reflect committed records only, and do not wait for others."""

from typing import Any

import pytest
from isthmus_broker.core.group import committed
from isthmus_broker.core.group.config import GroupConfig
from isthmus_wire.errors import ErrorCode
from kio.schema.list_groups.v5.request import ListGroupsRequest

from tests.unit.group.harness import GROUP, World, beat_request
from tests.unit.group.loose import DeleteGroupsRequest, DescribeGroupsRequest


def _world() -> World:
    return World(config=GroupConfig(group_consumer_assignment_interval_ms=0))


def listed(world: World) -> list[tuple[str, str]]:
    groups = world.response_to(ListGroupsRequest()).groups
    return [(each.group_id, each.group_state) for each in groups]


def description(world: World) -> tuple[str, int, list[tuple[str, int]]]:
    """The state, epoch and members in a ConsumerGroupDescribe."""
    group = world.described()
    return group.group_state, group.group_epoch, [(each.member_id, each.member_epoch) for each in group.members]


def test_a_consumer_group_is_described_as_it_was_committed() -> None:
    """The response waited, and below min.insync.replicas it failed after the write timeout."""
    world = _world()
    world.beat("m1", 0)
    before = description(world)
    world.auto_commit = False
    unanswered = world.submit(beat_request("m2", 0))
    world.settle()
    assert description(world) == before
    assert listed(world) == [(GROUP, "Stable")]
    assert unanswered not in world.replies
    world.commit()
    assert [member for member, _ in description(world)[2]] == ["m1", "m2"]
    assert unanswered in world.replies


def test_a_new_group_is_not_there_before_its_records_are_committed() -> None:
    world = _world()
    world.auto_commit = False
    world.submit(beat_request("m1", 0))
    world.settle()
    assert listed(world) == []
    assert world.described().error_code == ErrorCode.group_id_not_found
    world.commit()
    assert [group for group, _ in listed(world)] == [GROUP]


def test_a_group_that_is_deleted_is_there_until_that_is_committed() -> None:
    world = _world()
    world.commit_offsets({("a", 0): 1})
    world.auto_commit = False
    world.submit(DeleteGroupsRequest(groups_names=(GROUP,)))
    world.settle()
    request = DescribeGroupsRequest(groups=(GROUP,), include_authorized_operations=False)
    assert listed(world) == [(GROUP, "Empty")]
    assert world.response_to(request, 6).groups[0].group_state == "Empty"
    world.commit()
    assert listed(world) == []
    assert world.response_to(request, 6).groups[0].error_code == ErrorCode.group_id_not_found


@pytest.mark.parametrize(("states", "distinct"), [(1, 2), (2, 2), (3, 3), (100, 5)])
def test_each_commit_brings_the_states_up_to_it(monkeypatch: pytest.MonkeyPatch, states: int, distinct: int) -> None:
    """With fewer states than uncommitted batches an older committed one is shown, and the newest in the end."""
    monkeypatch.setattr(committed, "STATES_MAX", states)
    world = _world()
    world.auto_commit = False
    ends, epochs = [], []
    for number in range(5):
        world.submit(beat_request(f"m{number}", 0))
        world.settle()
        ends.append(len(world.log))
    for end in ends:
        world.runtime.committed(end, world.now)
        world.settle()
        shown: Any = world.described()
        epochs.append(shown.group_epoch if shown.error_code == ErrorCode.none else 0)
    assert epochs == sorted(epochs)
    assert (len(description(world)[2]), len(set(epochs))) == (5, distinct)
