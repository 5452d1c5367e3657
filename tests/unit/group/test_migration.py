"""Classic groups become consumer groups and back, and classic members live in consumer groups meanwhile."""

from typing import Any

import pytest
from isthmus_broker.core.group.classic_group import ClassicGroup
from isthmus_broker.core.group.config import GroupConfig, MigrationPolicy
from isthmus_broker.core.group.consumer_group import ConsumerGroup
from isthmus_broker.core.group.consumer_protocol import read_assignment
from isthmus_wire.errors import ErrorCode
from kio.schema.leave_group.v5.request import MemberIdentity

from tests.unit.group.harness import GROUP, A, World, assign, assigned, beat_request, subscribe

_CUSTOM_ASSIGNOR = (
    "an unsupported custom assignor is in use. "
    "Please refer to the documentation or switch to a default assignor before re-attempting the upgrade."
)


def _world(**config: Any) -> World:
    values = {"group_consumer_assignment_interval_ms": 0, "group_initial_rebalance_delay_ms": 0}
    return World(config=GroupConfig(**(values | config)))


def _classic(world: World, assignment: bytes | None = None, **fields: Any) -> str:
    """A stable classic group of one that has all of topic a."""
    member_id, token = world.new_member(**fields)
    world.advance(0)
    name = world.replies.pop(token).protocol_name
    shares = {member_id: assign(a=(0, 1, 2, 3)) if assignment is None else assignment}
    world.replies.pop(
        world.sync(member_id, 1, shares, protocol_name=name, protocol_type=fields.get("protocol_type", "consumer"))
    )
    return member_id


def _rejoin(world: World, member_id: str, *owned: int) -> Any:
    token = world.join(member_id, protocols={"range": subscribe("a", owned={"a": owned})})
    return world.replies.pop(token)


def _upgraded(world: World) -> tuple[str, int]:
    """A classic member with a0 and a1 beside m1 with a2 and a3; its id and generation."""
    member_id = _classic(world)
    world.beat("m1", 0)
    _rejoin(world, member_id, 0, 1, 2, 3)
    generation: int = _rejoin(world, member_id, 0, 1).generation_id
    world.replies.pop(world.sync(member_id, generation))
    assert assigned(world.beat("m1", 2)) == {A: (2, 3)}
    return member_id, generation


# Up.


def test_a_consumer_that_joins_a_classic_group_converts_it() -> None:
    world = _world()
    member_id = _classic(world)
    joined = world.beat("m1", 0)
    assert (joined.member_epoch, assigned(joined)) == (2, {})
    described = world.described()
    assert {member.member_id: (member.member_type, member.member_epoch) for member in described.members} == {
        member_id: (0, 1),
        "m1": (1, 2),
    }
    assert world.heartbeat(member_id, 1) == ErrorCode.rebalance_in_progress


def test_members_that_wait_in_the_classic_group_are_sent_to_join_again() -> None:
    world = _world()
    first = _classic(world)
    _, waiting = world.new_member()
    world.beat("m1", 0)
    assert world.replies.pop(waiting).error_code == ErrorCode.rebalance_in_progress
    assert world.heartbeat(first, 1) == ErrorCode.rebalance_in_progress


def test_an_empty_classic_group_gives_way_and_its_offsets_stay() -> None:
    world = _world()
    world.commit_offsets({("a", 0): 5})
    world.beat("m1", 0)
    assert isinstance(world.shard.registry.groups[GROUP], ConsumerGroup)
    assert world.fetch_offsets() == {("a", 0): 5}


@pytest.mark.parametrize(
    ("config", "fields", "assignment", "reason"),
    [
        ({"group_consumer_migration_policy": MigrationPolicy.DOWNGRADE}, {}, None, "online upgrade is disabled."),
        ({}, {"protocol_type": "connect"}, b"", "the group does not use the consumer embedded protocol."),
        ({"group_consumer_max_size": 0}, {}, None, "the group size exceeds the consumer group maximum size."),
        ({}, {"protocols": {"range": b"x"}}, b"", "the embedded consumer protocol is malformed."),
        ({}, {}, b"x", "the embedded consumer protocol is malformed."),
        (
            {},
            {},
            assign(a=(0,))[:-4] + b"\0\0\0\1u",
            _CUSTOM_ASSIGNOR,
        ),
    ],
)
def test_groups_that_cannot_be_converted(config: Any, fields: Any, assignment: bytes | None, reason: str) -> None:
    world = _world(**config)
    _classic(world, assignment, **fields)
    response = world.beat("m1", 0)
    assert response.error_code == ErrorCode.group_id_not_found
    assert response.error_message == f"Cannot upgrade classic group g to consumer group because {reason}"
    assert isinstance(world.shard.registry.groups[GROUP], ClassicGroup)


def test_a_conversion_that_could_not_be_stored_leaves_the_group_classic() -> None:
    world = _world()
    member_id = _classic(world)
    world.auto_append = False
    token = world.submit(beat_request("m1", 0))
    world.fail(ErrorCode.not_enough_replicas)
    assert world.replies.pop(token).error_code == ErrorCode.coordinator_not_available
    assert world.heartbeat(member_id, 1) == ErrorCode.none


def test_a_group_whose_leader_gave_a_partition_twice_is_not_converted() -> None:
    world = _world()
    first = _classic(world)
    second, waiting = world.new_member()
    world.replies.pop(world.join(first))
    world.replies.pop(waiting)
    world.sync(first, 2, {first: assign(a=(0, 1)), second: assign(a=(1,))})
    assert world.beat("m1", 0).error_code == ErrorCode.unknown_server_error


def test_a_member_whose_first_protocol_is_malformed_is_refused() -> None:
    world = _world()
    first = _classic(world, protocols={"range": subscribe("a")})
    _, waiting = world.new_member(protocols={"range": subscribe("a")})
    protocols = {"odd": b"x", "range": subscribe("a")}
    world.replies.pop(world.join(first, protocols=protocols))
    world.replies.pop(waiting)
    world.sync(first, 2, {first: assign(a=(0,))})
    world.beat("m1", 0, topics=())
    assert world.replies.pop(world.sync(first, 2, protocol_name="odd")).error_code == ErrorCode.unknown_server_error


# Together.


def test_a_classic_member_moves_by_joining_again() -> None:
    world = _world()
    member_id = _classic(world)
    world.beat("m1", 0)
    first = _rejoin(world, member_id, 0, 1, 2, 3)
    assert (first.generation_id, first.leader, first.members) == (1, "", ())
    synced = world.replies.pop(world.sync(member_id, 1))
    assert read_assignment(synced.assignment) == ({"a": (0, 1)}, b"")
    assert world.heartbeat(member_id, 1) == ErrorCode.rebalance_in_progress
    assert _rejoin(world, member_id, 0, 1).generation_id == 2
    assert world.heartbeat(member_id, 2) == ErrorCode.none
    assert assigned(world.beat("m1", 2)) == {A: (2, 3)}


def test_a_classic_member_that_does_not_join_again_is_put_out() -> None:
    world = _world()
    member_id = _classic(world, rebalance_timeout_ms=7_000, session_timeout_ms=60_000)
    world.beat("m1", 0)
    world.heartbeat(member_id, 1)
    world.advance(6_999)
    assert world.heartbeat(member_id, 1) == ErrorCode.rebalance_in_progress
    world.advance(1)
    assert world.heartbeat(member_id, 1) == ErrorCode.unknown_member_id


def test_a_classic_member_that_does_not_sync_is_put_out() -> None:
    world = _world()
    member_id, generation = _upgraded(world)
    _rejoin(world, member_id, 0, 1)
    for _ in range(7):
        world.advance(9_000)
        world.beat("m1", 2)
        last = world.heartbeat(member_id, generation)
    assert last == ErrorCode.unknown_member_id


def test_a_classic_member_keeps_its_own_session() -> None:
    world = _world()
    member_id, generation = _upgraded(world)
    world.advance(10_000)
    assert world.heartbeat(member_id, generation) == ErrorCode.unknown_member_id


def test_a_new_classic_member_may_join_unless_migration_is_disabled() -> None:
    world = _world()
    world.beat("m1", 0)
    member_id, token = world.new_member()
    assert world.replies.pop(token).generation_id == 3
    assert (
        world.replies.pop(world.join(protocols={"other": subscribe("a")})).error_code
        == ErrorCode.inconsistent_group_protocol
    )
    disabled = _world(group_consumer_migration_policy=MigrationPolicy.DISABLED)
    disabled.beat("m1", 0)
    assert disabled.replies.pop(disabled.join()).error_code == ErrorCode.inconsistent_group_protocol
    assert len(member_id) == 22


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"generation": 7}, ErrorCode.illegal_generation),
        ({"member_id": "nobody"}, ErrorCode.unknown_member_id),
        ({"member_id": "m1"}, ErrorCode.unknown_member_id),
        ({"protocol_name": "other"}, ErrorCode.inconsistent_group_protocol),
        ({"group_instance_id": "i"}, ErrorCode.unknown_member_id),
    ],
)
def test_syncs_that_are_refused(fields: dict[str, Any], error: ErrorCode) -> None:
    world = _world()
    member_id, generation = _upgraded(world)
    values: dict[str, Any] = {"member_id": member_id, "generation": generation} | fields
    assert (
        world.replies.pop(world.sync(values.pop("member_id"), values.pop("generation"), **values)).error_code == error
    )


def test_malformed_metadata_is_refused() -> None:
    world = _world()
    world.beat("m1", 0)
    refused = world.join("c", protocols={"range": b"x"})
    assert world.replies.pop(refused).error_code == ErrorCode.unknown_server_error


# Down.


def test_when_the_last_consumer_leaves_the_group_is_classic_again() -> None:
    world = _world()
    member_id, generation = _upgraded(world)
    world.beat("m1", -1)
    assert isinstance(world.shard.registry.groups[GROUP], ClassicGroup)
    assert world.heartbeat(member_id, generation) == ErrorCode.rebalance_in_progress
    assert world.replies.pop(world.join(member_id)).generation_id == 3
    other = world.reloaded().registry.classic_group(GROUP)
    assert (other.generation, list(other.members)) == (2, [member_id])


def test_when_the_last_consumers_session_ends_too() -> None:
    world = _world()
    member_id, generation = _upgraded(world)
    for _ in range(5):
        world.advance(9_000)
        world.heartbeat(member_id, generation)
    assert isinstance(world.shard.registry.groups[GROUP], ClassicGroup)


@pytest.mark.parametrize(
    "config", [{"group_consumer_migration_policy": MigrationPolicy.UPGRADE}, {"group_max_size": 0}]
)
def test_a_group_that_may_not_be_classic_stays(config: dict[str, Any]) -> None:
    world = _world()
    member_id, _ = _upgraded(world)
    world.configs.broker = GroupConfig(**config)
    world.beat("m1", -1)
    assert [member.member_id for member in world.described().members] == [member_id]


def test_a_static_consumer_that_comes_back_as_a_classic_member_converts_the_group() -> None:
    world = _world()
    world.beat("m1", 0, instance_id="i1")
    response = world.replies.pop(world.join(group_instance_id="i1"))
    assert response.generation_id == 2
    group = world.shard.registry.classic_group(GROUP)
    assert group.static_members == {"i1": response.member_id}
    synced = world.replies.pop(world.sync(response.member_id, 2, group_instance_id="i1"))
    assert read_assignment(synced.assignment) == ({"a": (0, 1, 2, 3)}, b"")
    assert world.reloaded().registry.classic_group(GROUP).static_members == group.static_members


def test_an_administrator_removes_members_of_either_protocol() -> None:
    world = _world()
    member_id, _ = _upgraded(world)
    world.beat("s", 0, instance_id="i1")
    answers = world.leave(
        MemberIdentity(member_id=member_id),
        MemberIdentity(member_id="", group_instance_id="i1"),
        MemberIdentity(member_id="other", group_instance_id="i1"),
        MemberIdentity(member_id="nobody"),
    ).members
    fenced, unknown = ErrorCode.fenced_instance_id, ErrorCode.unknown_member_id
    assert [answer.error_code for answer in answers] == [ErrorCode.none, ErrorCode.none, fenced, unknown]
    assert [member.member_id for member in world.described().members] == ["m1"]
