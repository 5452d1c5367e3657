"""The classic protocol: one test per rule."""

from typing import Any

import pytest
from isthmus_broker.core.group.config import GroupConfig
from isthmus_wire.errors import ErrorCode
from isthmus_wire.requests import LeaveGroupRequest
from kio.schema.leave_group.v5.request import MemberIdentity
from kio.schema.list_groups.v5.request import ListGroupsRequest

from tests.unit.group.harness import GROUP, World, join_request, subscribe, sync_request
from tests.unit.group.loose import DescribeGroupsRequest

DELAY_MS = GroupConfig().group_initial_rebalance_delay_ms


def _state(world: World) -> str:
    request = DescribeGroupsRequest(groups=(GROUP,), include_authorized_operations=False)
    state: str = world.response_to(request, 6).groups[0].group_state
    return state


def _two_members(world: World) -> tuple[str, str]:
    """A stable group of two at generation 2."""
    first, generation = world.stable_member()
    second, second_join = world.new_member()
    first_join = world.join(first)
    assert world.replies.pop(first_join).generation_id == generation + 1
    assert world.replies.pop(second_join).generation_id == generation + 1
    follower = world.sync(second, 2)
    leader = world.sync(first, 2, {first: b"one", second: b"two"})
    assert world.replies.pop(leader).assignment == b"one"
    assert world.replies.pop(follower).assignment == b"two"
    return first, second


# Joining.


def test_a_dynamic_member_is_given_its_id_first() -> None:
    world = World()
    response = world.replies.pop(world.join())
    assert response.error_code == ErrorCode.member_id_required
    assert response.member_id.startswith("client-")
    assert _state(world) == "Empty"


def test_before_version_4_it_joins_at_once() -> None:
    world = World()
    token = world.join(api_version=3)
    assert _state(world) == "PreparingRebalance"
    world.advance(DELAY_MS)
    assert world.replies.pop(token).generation_id == 1


def test_a_member_that_does_not_come_with_its_id_is_forgotten() -> None:
    world = World()
    member_id = world.replies.pop(world.join()).member_id
    world.advance(10_000)
    assert world.replies.pop(world.join(member_id)).error_code == ErrorCode.unknown_member_id


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": ""}, ErrorCode.invalid_group_id),
        ({"session_timeout_ms": 5_999}, ErrorCode.invalid_session_timeout),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.invalid_session_timeout),
        ({"protocol_type": ""}, ErrorCode.inconsistent_group_protocol),
        ({"member_id": "nobody"}, ErrorCode.unknown_member_id),
    ],
)
def test_joins_that_are_refused(fields: dict[str, Any], error: ErrorCode) -> None:
    world = World()
    assert world.replies.pop(world.submit(join_request(**fields))).error_code == error


def test_the_first_rebalance_waits_for_more_members_and_longer_while_they_come() -> None:
    world = World()
    _, first = world.new_member()
    world.advance(DELAY_MS - 1)
    _, second = world.new_member()
    world.advance(DELAY_MS)
    assert world.replies == {}
    world.advance(1)
    leader, follower = world.replies[first], world.replies[second]
    assert {member.member_id for member in leader.members} == {leader.member_id, follower.member_id}
    assert follower.members == ()
    assert follower.leader == leader.member_id


def test_the_first_rebalance_does_not_wait_beyond_the_rebalance_timeout() -> None:
    world = World()
    _, token = world.new_member(rebalance_timeout_ms=7_000)
    for _ in range(3):
        world.advance(2_400)
        if token not in world.replies:
            world.new_member(rebalance_timeout_ms=7_000)
    assert world.now_ms == 1_000 + 7_200
    assert world.replies[token].generation_id == 1


def test_members_must_share_a_protocol() -> None:
    world = World()
    world.stable_member()
    refused = world.join(protocols={"other": b""})
    assert world.replies.pop(refused).error_code == ErrorCode.inconsistent_group_protocol
    refused = world.join(protocol_type="connect")
    assert world.replies.pop(refused).error_code == ErrorCode.inconsistent_group_protocol


def test_the_protocol_most_members_prefer_is_taken() -> None:
    world = World()
    both, turned = {"x": b"", "y": b""}, {"y": b"", "x": b""}
    tokens = [world.join(api_version=3, protocols=protocols) for protocols in (both, turned, turned)]
    world.advance(30_000)
    assert {world.replies[token].protocol_name for token in tokens} == {"y"}


def test_a_full_group_takes_no_more() -> None:
    world = World(config=GroupConfig(group_max_size=2))
    _two_members(world)
    assert world.replies.pop(world.join()).error_code == ErrorCode.group_max_size_reached


def test_a_group_that_was_loaded_with_too_many_members_rebalances() -> None:
    world = World()
    first, second = _two_members(world)
    smaller = World(config=GroupConfig(group_max_size=1), log=world.log)
    assert smaller.heartbeat(first, 2) == ErrorCode.rebalance_in_progress
    token = smaller.join(first)
    assert smaller.replies.pop(smaller.join(second)).error_code == ErrorCode.group_max_size_reached
    smaller.advance(60_000)
    assert smaller.replies.pop(token).generation_id == 3


# Rebalancing.


def test_a_rebalance_ends_without_those_who_do_not_come() -> None:
    world = World()
    first, second = _two_members(world)
    token = world.join(first)
    assert world.heartbeat(second, 2) == ErrorCode.rebalance_in_progress
    for _ in range(12):
        world.advance(5_000)
        world.heartbeat(second, 2)
    assert [member.member_id for member in world.replies.pop(token).members] == [first]
    assert world.heartbeat(second, 3) == ErrorCode.unknown_member_id


def test_when_the_leader_does_not_come_another_leads() -> None:
    world = World()
    first, second = _two_members(world)
    token = world.join(second, protocols={"range": subscribe("b")})
    world.leave(MemberIdentity(member_id=first))
    assert world.replies.pop(token).leader == second


def test_a_follower_that_joins_again_without_change_keeps_the_generation() -> None:
    world = World()
    first, second = _two_members(world)
    response = world.replies.pop(world.join(second))
    assert (response.generation_id, response.leader, response.members) == (2, first, ())
    assert _state(world) == "Stable"


def test_a_leader_that_joins_again_starts_a_rebalance() -> None:
    world = World()
    first, _ = _two_members(world)
    world.join(first)
    assert _state(world) == "PreparingRebalance"


def test_a_member_that_joins_again_gives_up_its_waiting_request() -> None:
    world = World()
    first, _ = _two_members(world)
    lost, again = world.join(first), world.join(first)
    assert world.replies.pop(lost).error_code == ErrorCode.rebalance_in_progress
    assert again not in world.replies


def test_members_that_do_not_sync_are_out() -> None:
    world = World()
    first, second = _two_members(world)
    tokens = world.join(first), world.join(second)
    assert [world.replies.pop(token).generation_id for token in tokens] == [3, 3]
    world.sync(first, 3, {first: b""})
    for _ in range(12):
        world.advance(5_000)
        world.heartbeat(first, 3)
        world.heartbeat(second, 3)
    assert world.heartbeat(second, 3) == ErrorCode.unknown_member_id
    assert world.heartbeat(first, 3) == ErrorCode.rebalance_in_progress


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"generation": 9}, ErrorCode.illegal_generation),
        ({"member_id": "nobody"}, ErrorCode.unknown_member_id),
        ({"protocol_name": "other"}, ErrorCode.inconsistent_group_protocol),
        ({"protocol_type": "connect"}, ErrorCode.inconsistent_group_protocol),
        ({"group_instance_id": "i"}, ErrorCode.unknown_member_id),
    ],
)
def test_syncs_that_are_refused(fields: dict[str, Any], error: ErrorCode) -> None:
    world = World()
    member_id, generation = world.stable_member()
    values: dict[str, Any] = {"member_id": member_id, "generation": generation} | fields
    assert world.replies.pop(world.submit(sync_request(**values))).error_code == error


def test_responses_with_assignments_wait_for_the_commit() -> None:
    world = World(auto_commit=False)
    member_id, token = world.new_member()
    world.advance(DELAY_MS)
    assert world.replies.pop(token).generation_id == 1
    token = world.sync(member_id, 1, {member_id: b"all"})
    assert token not in world.replies
    world.commit()
    assert world.replies.pop(token).assignment == b"all"


def test_an_assignment_that_could_not_be_stored_starts_another_rebalance() -> None:
    world = World()
    member_id, token = world.new_member()
    world.advance(DELAY_MS)
    world.replies.pop(token)
    world.auto_append = False
    token = world.sync(member_id, 1, {member_id: b"all"})
    world.fail(ErrorCode.not_enough_replicas)
    assert world.replies.pop(token).error_code == ErrorCode.coordinator_not_available
    assert _state(world) == "PreparingRebalance"


def test_a_group_whose_first_record_could_not_be_stored_never_was() -> None:
    world = World(auto_append=False)
    token = world.join(api_version=3)
    world.fail(ErrorCode.kafka_storage_error)
    assert world.replies.pop(token).error_code == ErrorCode.not_coordinator
    assert _state(world) == "Dead"


# Sessions.


def test_a_member_without_heartbeats_is_removed() -> None:
    world = World()
    first, second = _two_members(world)
    world.advance(6_000)
    assert world.heartbeat(second, 2) == ErrorCode.none
    world.advance(4_000)
    assert world.heartbeat(first, 2) == ErrorCode.unknown_member_id
    assert world.heartbeat(second, 2) == ErrorCode.rebalance_in_progress


def test_an_offset_commit_is_a_sign_of_life() -> None:
    world = World()
    member_id, generation = world.stable_member()
    world.advance(6_000)
    world.commit_offsets({("a", 0): 1}, member_id=member_id, generation_id_or_member_epoch=generation)
    world.advance(6_000)
    assert world.heartbeat(member_id, generation) == ErrorCode.none


def test_a_member_that_waits_needs_no_heartbeat() -> None:
    world = World()
    first, second = _two_members(world)
    token = world.join(first)
    for _ in range(5):
        world.advance(9_000)
        world.heartbeat(second, 2)
    world.join(second)
    assert world.replies.pop(token).generation_id == 3


def test_the_last_member_leaves_an_empty_group_with_a_later_generation() -> None:
    world = World()
    world.stable_member()
    world.advance(10_000)
    assert _state(world) == "Empty"
    group = world.reloaded().registry.classic_group(GROUP)
    assert (group.generation, group.protocol_type, group.protocol) == (2, "consumer", None)


# Leaving.


def test_leaving_has_a_result_for_each_member() -> None:
    world = World()
    first, second = _two_members(world)
    pending = world.replies.pop(world.join()).member_id
    answers = world.leave(
        MemberIdentity(member_id="nobody"),
        MemberIdentity(member_id=second, group_instance_id="not its own"),
        MemberIdentity(member_id="", group_instance_id="absent"),
        MemberIdentity(member_id=pending),
        MemberIdentity(member_id=second, reason="done"),
    ).members
    unknown = ErrorCode.unknown_member_id
    assert [answer.error_code for answer in answers] == [unknown, unknown, unknown, ErrorCode.none, ErrorCode.none]
    assert world.heartbeat(first, 2) == ErrorCode.rebalance_in_progress
    assert any("done" in note.detail for note in world.notes)


def test_up_to_version_2_a_member_leaves_for_itself() -> None:
    world = World()
    member_id, _ = world.stable_member()
    request = LeaveGroupRequest(group_id=GROUP, member_id=member_id)
    assert world.response_to(request, 2).error_code == ErrorCode.none
    assert world.response_to(request, 2).error_code == ErrorCode.unknown_member_id


# Static members (KIP-345).


def _static(world: World, instance_id: str = "i1", api_version: int = 9) -> Any:
    token = world.join(api_version=api_version, group_instance_id=instance_id)
    world.advance(DELAY_MS)
    return world.replies.pop(token)


def _stable_static(world: World) -> str:
    member_id: str = _static(world).member_id
    world.replies.pop(world.sync(member_id, 1, {member_id: b"all"}, group_instance_id="i1"))
    return member_id


@pytest.mark.parametrize(("api_version", "leads"), [(8, False), (9, True)])
def test_a_static_member_comes_back_without_a_rebalance(api_version: int, leads: bool) -> None:
    world = World()
    old_id = _stable_static(world)
    back = _static(world, api_version=api_version)
    assert back.generation_id == 1
    assert (back.skip_assignment, back.leader == back.member_id) == (leads, leads)
    assert back.member_id.startswith("i1-")
    synced = world.replies.pop(world.sync(back.member_id, 1, group_instance_id="i1"))
    assert synced.assignment == b"all"
    assert world.heartbeat(old_id, 1, group_instance_id="i1") == ErrorCode.fenced_instance_id
    assert world.reloaded().registry.classic_group(GROUP).static_members == {"i1": back.member_id}


def test_a_static_member_that_comes_back_with_another_protocol_rebalances() -> None:
    world = World()
    _stable_static(world)
    token = world.join(group_instance_id="i1", protocols={"range": subscribe("a"), "sticky": b""})
    assert world.replies.pop(token).generation_id == 1  # range is still the one it would choose
    token = world.join(group_instance_id="i1", protocols={"sticky": b"", "range": subscribe("a")})
    assert world.replies.pop(token).generation_id == 2


def test_a_static_member_whose_return_could_not_be_stored_keeps_its_old_id() -> None:
    world = World()
    old_id = _stable_static(world)
    world.auto_append = False
    token = world.join(group_instance_id="i1")
    world.fail(ErrorCode.request_timed_out)
    assert world.replies.pop(token).error_code == ErrorCode.coordinator_not_available
    assert world.heartbeat(old_id, 1, group_instance_id="i1") == ErrorCode.none


def test_a_static_member_that_is_replaced_while_it_waits_is_fenced() -> None:
    world = World()
    token = world.join(group_instance_id="i1")
    world.join(group_instance_id="i1")
    assert world.replies.pop(token).error_code == ErrorCode.fenced_instance_id


def test_a_static_member_may_miss_a_rebalance() -> None:
    world = World()
    member_id = _stable_static(world)
    other, token = world.new_member(session_timeout_ms=60_000, rebalance_timeout_ms=5_000)
    for _ in range(7):
        world.heartbeat(member_id, 1, group_instance_id="i1")
        world.advance(10_000 - 1)
    response = world.replies.pop(token)
    assert response.leader == other
    assert {member.group_instance_id for member in response.members} == {"i1", None}


# Describing.


def test_groups_are_listed_by_state_and_type() -> None:
    world = World()
    world.stable_member()
    world.commit_offsets({("a", 0): 1}, group_id="simple")
    world.beat("m", 0, group_id="modern")

    def listed(**filters: Any) -> list[tuple[str, str, str, str]]:
        groups = world.response_to(ListGroupsRequest(**filters)).groups
        return [(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in groups]

    assert listed() == [
        (GROUP, "consumer", "Stable", "classic"),
        ("modern", "consumer", "Stable", "consumer"),
        ("simple", "", "Empty", "classic"),
    ]
    assert [each[0] for each in listed(states_filter=("STABLE ",))] == [GROUP, "modern"]
    assert [each[0] for each in listed(types_filter=("Classic",), states_filter=("empty",))] == ["simple"]


def test_only_a_stable_group_describes_its_members_metadata() -> None:
    world = World()
    member_id, _ = world.stable_member()
    request = DescribeGroupsRequest(groups=(GROUP, "absent"), include_authorized_operations=False)
    stable, absent = world.response_to(request, 6).groups
    assert (stable.protocol_data, stable.members[0].member_metadata) == ("range", subscribe("a"))
    assert (absent.error_code, absent.error_message) == (ErrorCode.group_id_not_found, "Group absent not found.")
    assert world.response_to(request, 5).groups[1].error_code == ErrorCode.none
    world.join(member_id, protocols={"range": subscribe("a"), "x": b""})
    preparing = world.response_to(request, 6).groups[0]
    assert (preparing.protocol_data, preparing.members[0].member_metadata) == ("", b"")
