"""The consumer protocol (KIP-848): one test per rule."""

from typing import Any
from uuid import UUID

import pytest
from isthmus_broker.core.group.config import GroupConfig, GroupOverrides
from isthmus_broker.core.group.view import Topics
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import millis, to_millis

from tests.unit.group.harness import GROUP, A, B, World, assigned, beat_request, topic, topics
from tests.unit.group.loose import ConsumerGroupHeartbeatRequest


def _world(**config: Any) -> World:
    return World(config=GroupConfig(**({"group_consumer_assignment_interval_ms": 0} | config)))


def _two_members(world: World) -> None:
    """m1 has a0 and a1, m2 has a2 and a3, both at epoch 3."""
    world.beat("m1", 0)
    world.beat("m2", 0)
    world.beat("m1", 2)
    world.beat("m1", 2, owned={A: (0, 1)})
    assert assigned(world.beat("m2", 3)) == {A: (2, 3)}


# Validation.


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"member_id": ""}, ErrorCode.invalid_request, "MemberId can't be empty."),
        ({"group_id": " "}, ErrorCode.invalid_request, "GroupId can't be empty."),
        ({"instance_id": ""}, ErrorCode.invalid_request, "InstanceId can't be empty."),
        ({"rack_id": " "}, ErrorCode.invalid_request, "RackId can't be empty."),
        (
            {"rebalance_timeout": millis(-1)},
            ErrorCode.invalid_request,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        ({"topic_partitions": None}, ErrorCode.invalid_request, "TopicPartitions must be empty when (re-)joining."),
        (
            {"subscribed_topic_names": None},
            ErrorCode.invalid_request,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"member_epoch": -2}, ErrorCode.invalid_request, "InstanceId can't be null."),
        ({"member_epoch": -3}, ErrorCode.invalid_request, "MemberEpoch is invalid."),
        (
            {"server_assignor": "x"},
            ErrorCode.unsupported_assignor,
            "ServerAssignor x is not supported. Supported assignors: uniform, range.",
        ),
        ({"member_epoch": 5}, ErrorCode.group_id_not_found, "Consumer group g not found."),
        ({"member_epoch": -1}, ErrorCode.group_id_not_found, "Group g not found."),
    ],
)
def test_heartbeats_that_are_refused(fields: dict[str, Any], error: ErrorCode, message: str) -> None:
    values: dict[str, Any] = {
        "group_id": GROUP,
        "member_id": "m1",
        "member_epoch": 0,
        "rebalance_timeout": millis(1_000),
        "subscribed_topic_names": ("a",),
        "topic_partitions": (),
    }
    response = World().response_to(ConsumerGroupHeartbeatRequest(**(values | fields)))
    assert (response.error_code, response.error_message) == (error, message)


def test_version_0_may_request_a_member_id() -> None:
    response = World().beat("", 0, api_version=0)
    assert response.member_id == "AAAAAAAAAAAAAAAAAAAAAQ"


# Joining and reconciling.


def test_the_first_member_gets_everything_at_epoch_2() -> None:
    response = _world().beat("m1", 0)
    assert (response.member_epoch, assigned(response)) == (2, {A: (0, 1, 2, 3)})


def test_partitions_are_given_back_before_they_are_taken() -> None:
    world = _world()
    world.beat("m1", 0)
    second = world.beat("m2", 0)
    assert (second.member_epoch, assigned(second)) == (3, {})
    first = world.beat("m1", 2)
    assert (first.member_epoch, assigned(first)) == (2, {A: (0, 1)})
    assert assigned(world.beat("m2", 3)) is None
    assert world.described().group_state == "Reconciling"
    first = world.beat("m1", 2, owned={A: (0, 1)})
    assert (first.member_epoch, assigned(first)) == (3, None)
    assert assigned(world.beat("m2", 3)) == {A: (2, 3)}
    assert world.described().group_state == "Stable"


def test_a_member_that_keeps_what_it_must_give_back_is_put_out_after_its_rebalance_timeout() -> None:
    world = _world()
    world.beat("m1", 0, rebalance_timeout=millis(8_000))
    world.beat("m2", 0)
    world.beat("m1", 2)
    world.advance(7_999)
    assert world.beat("m1", 2, owned={A: (0, 1, 2, 3)}).error_code == ErrorCode.none
    world.advance(1)
    assert world.beat("m1", 2).error_code == ErrorCode.unknown_member_id
    assert assigned(world.beat("m2", 3)) == {A: (0, 1, 2, 3)}


def test_a_member_without_heartbeats_is_fenced() -> None:
    world = _world(group_consumer_session_timeout_ms=9_000)
    _two_members(world)
    world.advance(5_000)
    world.beat("m2", 3)
    world.advance(4_000)
    assert assigned(world.beat("m2", 3)) == {A: (0, 1, 2, 3)}
    assert [member.member_id for member in world.described().members] == ["m2"]


def test_a_group_may_have_timeouts_of_its_own() -> None:
    world = _world()
    world.configs.groups[GROUP] = GroupOverrides(consumer_session_timeout_ms=100, consumer_heartbeat_interval_ms=7)
    assert to_millis(world.beat("m1", 0).heartbeat_interval) == 7
    world.advance(100)
    assert world.described().members == ()


def test_targets_are_not_computed_oftener_than_the_interval() -> None:
    world = World()
    world.beat("m1", 0)
    assert world.beat("m2", 0).member_epoch == 2
    assert world.described().group_state == "Assigning"
    world.advance(1_000)
    assert world.beat("m2", 2).member_epoch == 3


def test_the_response_to_a_full_request_has_the_assignment() -> None:
    world = _world()
    world.beat("m1", 0)
    assert assigned(world.beat("m1", 2)) is None
    full = world.beat("m1", 2, topics=("a",), owned={A: (0, 1, 2, 3)}, rebalance_timeout=millis(1))
    assert assigned(full) == {A: (0, 1, 2, 3)}


def test_the_group_is_bounded() -> None:
    world = _world(group_consumer_max_size=1)
    world.beat("m1", 0)
    refused = world.beat("m2", 0)
    assert refused.error_code == ErrorCode.group_max_size_reached
    assert refused.error_message == "The consumer group has reached its maximum capacity of 1 members."
    assert world.beat("m1", 0).error_code == ErrorCode.none


# Epochs.


def test_epochs_fence() -> None:
    world = _world()
    _two_members(world)
    greater, smaller = world.beat("m1", 4), world.beat("m1", 1, owned={})
    for response, size, epoch in ((greater, "greater", 4), (smaller, "smaller", 1)):
        assert response.error_code == ErrorCode.fenced_member_epoch
        assert response.error_message == (
            f"The consumer group member has a {size} member epoch ({epoch}) than the one known by the group coordinator (3). "
            "The member must abandon all its partitions and rejoin."
        )


def test_the_previous_epoch_is_valid_while_the_response_may_be_lost() -> None:
    world = _world()
    _two_members(world)
    assert world.beat("m1", 2, owned={A: (0,)}).error_code == ErrorCode.none
    assert world.beat("m1", 2, owned={A: (0, 2)}).error_code == ErrorCode.fenced_member_epoch
    assert world.beat("m1", 2).error_code == ErrorCode.fenced_member_epoch


def test_a_member_may_always_join_again() -> None:
    world = _world()
    _two_members(world)
    again = world.beat("m1", 0)
    assert (again.member_epoch, assigned(again)) == (3, {A: (0, 1)})


# Subscriptions.


def test_a_change_of_subscription_bumps_the_group_epoch() -> None:
    world = _world()
    world.beat("m1", 0)
    response = world.beat("m1", 2, topics=("a", "b"))
    assert (response.member_epoch, assigned(response)) == (3, {A: (0, 1, 2, 3), B: (0, 1)})
    assert world.beat("m1", 3, topics=("b", "a")).member_epoch == 3


def test_partitions_of_an_unsubscribed_topic_are_revoked_even_before_a_new_target() -> None:
    world = World()
    world.beat("m1", 0, topics=("a", "b"))
    response = world.beat("m1", 2, topics=("b",))
    assert (response.member_epoch, assigned(response)) == (2, {B: (0, 1)})
    assert world.described().members[0].assignment.topic_partitions[0].partitions == (0, 1, 2, 3)


def test_new_partitions_and_topics_are_assigned() -> None:
    world = _world()
    world.beat("m1", 0, topics=("a", "c"))
    world.see(topics(2, a=5))
    response = world.beat("m1", 2)
    assert (response.member_epoch, assigned(response)) == (3, {A: (0, 1, 2, 3, 4)})
    world.see(topics(3, a=5, c=1, b=9))
    assert world.beat("m1", 3).member_epoch == 4
    world.see(topics(4, a=5, c=1, b=7))
    assert world.beat("m1", 4).member_epoch == 4


def test_most_members_choose_the_assignor() -> None:
    world = _world()
    world.beat("m1", 0, server_assignor="range")
    assert world.described().assignor_name == "range"
    world.beat("m2", 0, server_assignor="uniform")
    world.beat("m3", 0, server_assignor="uniform")
    assert world.described().assignor_name == "uniform"


def test_uniform_and_range_are_used() -> None:
    for assignor, second in (("range", {A: (2, 3), B: (1,)}), ("uniform", {A: (3,), B: (0, 1)})):
        world = _world()
        world.beat("m1", 0, topics=("a", "b"), server_assignor=assignor)
        world.beat("m2", 0, topics=("a", "b"), server_assignor=assignor)
        first = assigned(world.beat("m1", 2))
        assert first is not None
        world.beat("m1", 2, owned=first)
        assert assigned(world.beat("m2", 3)) == second


# Regular expressions.


def test_an_expression_is_resolved_after_the_heartbeat_that_brings_it() -> None:
    world = _world()
    joined = world.beat("m1", 0, subscribed_topic_regex="a|c")
    assert (joined.member_epoch, assigned(joined)) == (1, {})
    response = world.beat("m1", 1)
    assert (response.member_epoch, assigned(response)) == (2, {A: (0, 1, 2, 3)})
    world.advance(10_001)
    world.see(topics(2, a=4, b=2, c=1))
    world.beat("m1", 2)
    assert world.beat("m1", 2).member_epoch == 3


def test_an_expression_that_others_have_is_resolved_at_once() -> None:
    world = _world()
    world.beat("m1", 0, subscribed_topic_regex="a|b")
    world.beat("m1", 1)
    assert world.beat("m2", 0, subscribed_topic_regex="a|b").member_epoch == 3


def test_an_expression_without_subscribers_is_deleted() -> None:
    world = _world()
    world.beat("m1", 0, subscribed_topic_regex="a")
    world.beat("m2", 0, topics=("b",))
    world.beat("m1", -1)
    group = world.shard.registry.consumer_group(GROUP)
    assert (group.resolved, group.subscriptions.topics()) == ({}, {"b"})
    assert world.shard.registry.subscribers == {"b": {GROUP}}


def test_a_bad_expression_is_refused() -> None:
    response = _world().beat("m1", 0, subscribed_topic_regex="(")
    assert response.error_code == ErrorCode.invalid_regular_expression
    assert response.error_message == "SubscribedTopicRegex `(` is not a valid regular expression: missing closing )."


def test_an_expression_that_takes_too_long_leaves_the_group_as_it_is() -> None:
    world = _world()
    names = {f"{'a' * (number % 200)}{number}": 1 for number in range(2_000)}
    world.see(_many(names))
    world.beat("m1", 0, subscribed_topic_regex="(a?){900}x")
    assert world.beat("m1", 1).member_epoch == 1
    assert [note.event for note in world.notes if note.event == "regex not resolved"] != []


def _many(names: dict[str, int]) -> Any:

    return Topics.of(9, [topic(UUID(int=place + 1), name, count) for place, (name, count) in enumerate(names.items())])


# Leaving, and static members.


def test_a_member_that_leaves_frees_its_partitions() -> None:
    world = _world()
    _two_members(world)
    left = world.beat("m1", -1)
    assert (left.member_id, left.member_epoch) == ("m1", -1)
    assert assigned(world.beat("m2", 3)) == {A: (0, 1, 2, 3)}
    assert world.beat("m1", -1).error_code == ErrorCode.unknown_member_id


def test_a_static_member_comes_back_to_its_partitions() -> None:
    world = _world()
    world.beat("m1", 0, instance_id="i1")
    refused = world.beat("new", 0, instance_id="i1")
    assert refused.error_code == ErrorCode.unreleased_instance_id
    assert refused.error_message == (
        "Static member new with instance id i1 cannot join the group because the instance id is owned by m1 member."
    )
    assert world.beat("m1", -2, instance_id="i1").member_epoch == -2
    back = world.beat("new", 0, instance_id="i1")
    assert (back.member_epoch, assigned(back)) == (2, {A: (0, 1, 2, 3)})
    assert world.beat("m1", 2, instance_id="i1").error_code == ErrorCode.fenced_instance_id
    assert world.beat("m2", 2, instance_id="i2").error_code == ErrorCode.unknown_member_id


def test_a_static_member_keeps_its_partitions_until_its_session_ends() -> None:
    world = _world()
    world.beat("m1", 0, instance_id="i1")
    world.beat("m1", -2, instance_id="i1")
    world.beat("m2", 0)
    assert assigned(world.beat("m2", 3)) is None
    world.advance(44_000)
    world.beat("m2", 3)
    world.advance(1_000)
    assert assigned(world.beat("m2", 3)) == {A: (0, 1, 2, 3)}


def test_a_static_member_may_leave_for_good() -> None:
    world = _world()
    world.beat("m1", 0, instance_id="i1")
    world.beat("m1", -1, instance_id="i1")
    assert world.described().group_state == "Empty"


# A new leader.


def test_a_new_leader_gives_every_member_a_full_session_and_watches_revocations() -> None:
    world = _world()
    world.beat("m1", 0, rebalance_timeout=millis(8_000))
    world.beat("m2", 0)
    world.beat("m1", 2)
    world.advance(7_000)
    other = World(config=world.config, now_ms=world.now_ms, log=world.log)
    other.advance(7_999)
    assert other.beat("m1", 2).error_code == ErrorCode.none
    other.advance(1)
    assert other.beat("m1", 2).error_code == ErrorCode.unknown_member_id
    other.advance(37_000)
    assert other.described().members == ()


def test_responses_wait_for_the_commit() -> None:
    world = World(auto_commit=False)
    token = world.submit(beat_request("m1", 0))
    assert world.replies == {}
    world.commit()
    assert world.replies.pop(token).member_epoch == 2
