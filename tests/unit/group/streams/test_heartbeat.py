"""Lives of streams groups in one shard: delays, timeouts, topics that change, failed appends, and new coordinators."""

from dataclasses import replace
from typing import Any

import pytest
from isthmus_broker.core.group.config import GroupConfig, GroupOverrides
from isthmus_broker.core.group.streams.configured import Status
from isthmus_broker.core.group.streams.responses import TopicsToCreate
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import millis
from kio.schema.list_groups.v5.request import ListGroupsRequest

from tests.unit.group.harness import GROUP, World, topics
from tests.unit.group.loose import ConsumerGroupDescribeRequest, DeleteGroupsRequest
from tests.unit.group.streams.clients import (
    Client,
    beat,
    beat_request,
    described,
    internal,
    part,
    settle,
    statuses,
    tasks_of,
    the_group,
    topology,
    wire,
)

COUNT = topology(part("0", "a", changelogs=[internal("c")]))
"""A topology whose tasks have state."""


def world(**config: Any) -> World:
    """Without delays, unless the test wants them."""
    values = {"group_streams_initial_rebalance_delay_ms": 0, "group_streams_assignment_interval_ms": 0}
    return World(config=GroupConfig(**(values | config)))


def active(response: Any) -> dict[str, tuple[int, ...]] | None:
    return tasks_of(response.active_tasks)


def listed(shard: World) -> list[tuple[str, str, str]]:
    groups = shard.response_to(ListGroupsRequest()).groups
    return [(each.group_id, each.group_type, each.group_state) for each in groups]


def delete(shard: World) -> ErrorCode:
    (result,) = shard.response_to(DeleteGroupsRequest(groups_names=(GROUP,))).results
    error: ErrorCode = result.error_code
    return error


# Tasks.


def test_a_member_gets_all_tasks_and_gives_half_of_them_to_the_next() -> None:
    shard = world()
    a, b = Client("a", "p", topology()), Client("b", "q", topology())
    assert active(a.beat(shard)) == {"0": (0, 1, 2, 3)}
    assert active(b.beat(shard)) == {}
    settle(shard, a, b)
    assert (a.active, b.active) == ({"0": (0, 1)}, {"0": (2, 3)})
    a.leave(shard)
    settle(shard, b)
    assert b.active == {"0": (0, 1, 2, 3)}


def test_standbys_of_a_group_are_its_own_setting() -> None:
    shard = world()
    shard.see(topics(2, a=4, c=4))
    a, b = Client("a", "p", COUNT), Client("b", "q", COUNT)
    a.beat(shard)
    settle(shard, a, b)
    assert (a.standby, b.standby) == ({}, {})
    shard.configs.groups[GROUP] = GroupOverrides(streams_num_standby_replicas=1)
    settle(shard, a, b)
    assert (a.standby, b.standby) == (b.active, a.active)


def test_a_late_response_may_be_repeated_with_the_last_epoch() -> None:
    shard = world()
    first = beat(shard, "a", 0).member_epoch
    second = beat(shard, "a", first, rack_id="r").member_epoch
    assert second == first + 1
    assert beat(shard, "a", first, active={"0": (0, 3)}).member_epoch == second
    for owned in (None, {"1": ()}):
        assert beat(shard, "a", first, active=owned).error_code == ErrorCode.fenced_member_epoch


# Delays.


def test_the_first_assignment_waits_for_others() -> None:
    shard = world(group_streams_initial_rebalance_delay_ms=3_000)
    a, b = Client("a", "p", topology()), Client("b", "q", topology())
    assert statuses(a.beat(shard)) == [Status.ASSIGNMENT_DELAYED]
    shard.advance(2_000)
    assert statuses(b.beat(shard)) == [Status.ASSIGNMENT_DELAYED]
    shard.advance(999)
    assert statuses(a.beat(shard)) == [Status.ASSIGNMENT_DELAYED]
    shard.advance(1)
    assert described(shard).group_state == "Reconciling"
    settle(shard, a, b)
    assert (a.active, b.active) == ({"0": (0, 2)}, {"0": (1, 3)})


def test_a_group_whose_topics_were_not_checked_since_is_assigned_by_the_next_heartbeat() -> None:
    shard = world(group_streams_initial_rebalance_delay_ms=3_000)
    beat(shard, "a", 0)
    shard.advance(3_000)
    assert described(shard).group_state == "Assigning"
    assert active(beat(shard, "a", 1)) == {"0": (0, 1, 2, 3)}


def test_a_group_that_is_empty_again_when_the_delay_ends_gets_nothing() -> None:
    shard = world(group_streams_initial_rebalance_delay_ms=3_000)
    beat(shard, "a", 0)
    beat(shard, "a", -1)
    records = len(shard.log)
    shard.advance(3_000)
    assert len(shard.log) == records


def test_the_delay_of_a_deleted_group_is_cancelled() -> None:
    shard = world(group_streams_initial_rebalance_delay_ms=3_000)
    beat(shard, "a", 0)
    beat(shard, "a", -1)
    assert delete(shard) == ErrorCode.none
    beat(shard, "a", 0)
    shard.advance(2_999)
    assert statuses(beat(shard, "a", 1)) == [Status.ASSIGNMENT_DELAYED]


def test_assignments_have_a_minimum_interval() -> None:
    shard = world(group_streams_assignment_interval_ms=5_000)
    a, b = Client("a", "p", topology()), Client("b", "q", topology())
    a.beat(shard)
    assert statuses(b.beat(shard)) == [Status.ASSIGNMENT_DELAYED]
    shard.advance(4_999)
    assert statuses(a.beat(shard)) == [Status.ASSIGNMENT_DELAYED]
    shard.advance(1)
    assert active(a.beat(shard)) == {"0": (0, 1)}


# Timeouts.


def test_a_member_that_sends_nothing_is_fenced_after_its_session() -> None:
    shard = world(group_streams_session_timeout_ms=45_000)
    a, b = Client("a", "p", topology()), Client("b", "q", topology())
    settle(shard, a, b)
    shard.advance(40_000)
    b.beat(shard)
    shard.advance(4_900)
    assert len(the_group(shard).members) == 2
    shard.advance(200)
    assert list(the_group(shard).members) == ["b"]
    settle(shard, b)
    assert b.active == {"0": (0, 1, 2, 3)}
    assert beat(shard, "a", a.epoch).error_code == ErrorCode.unknown_member_id


def test_a_group_may_have_a_session_timeout_of_its_own() -> None:
    shard = world()
    shard.configs.groups[GROUP] = GroupOverrides(streams_session_timeout_ms=60_000, streams_heartbeat_interval_ms=7_000)
    assert beat(shard, "a", 0).heartbeat_interval == millis(7_000)
    shard.advance(59_999)
    assert the_group(shard).members
    shard.advance(1)
    assert not the_group(shard).members


def test_a_member_that_does_not_revoke_in_time_is_fenced() -> None:
    shard = world()
    beat(shard, "a", 0, rebalance_timeout=millis(10_000))
    epoch = beat(shard, "b", 0).member_epoch
    shard.advance(1_000)
    beat(shard, "a", epoch - 1)
    shard.advance(9_999)
    assert "a" in the_group(shard).members
    shard.advance(1)
    assert list(the_group(shard).members) == ["b"]


def test_a_member_that_has_revoked_is_not_fenced() -> None:
    shard = world()
    a, b = Client("a", "p", topology()), Client("b", "q", topology())
    a.beat(shard)
    settle(shard, a, b)
    shard.advance(44_000)
    assert len(the_group(shard).members) == 2


# Topics.


def test_internal_topics_are_to_be_created_until_they_exist() -> None:
    shard = world()
    outcome = shard.response_to(beat_request("a", 0, topology=COUNT))
    assert isinstance(outcome, TopicsToCreate)
    assert ([each.name for each in outcome.topics], outcome.retry_ms) == (["c"], 10_000)
    assert statuses(outcome.response) == [Status.MISSING_INTERNAL_TOPICS]
    assert described(shard).group_state == "NotReady"
    explained = outcome.explained({"c": "no space", "d": "x", "e": "y", "f": "z"})
    detail = "Internal topics are missing: c; Creation failed: c (no space), d (x), e (y) and 1 more."
    assert [status.status_detail for status in explained.status or ()] == [detail]
    assert outcome.explained({}) is outcome.response
    epoch = outcome.response.member_epoch
    shard.see(topics(2, a=4, c=4))
    ready = beat(shard, "a", epoch)
    assert (statuses(ready), active(ready)) == ([], {"0": (0, 1, 2, 3)})


def test_more_partitions_of_a_source_topic_are_more_tasks() -> None:
    shard = world()
    a = Client("a", "p", topology())
    settle(shard, a)
    shard.see(topics(2, a=6))
    settle(shard, a)
    assert a.active == {"0": (0, 1, 2, 3, 4, 5)}


def test_without_its_source_topic_a_group_has_no_tasks() -> None:
    shard = world()
    a = Client("a", "p", topology())
    settle(shard, a)
    shard.see(topics(2, b=2))
    assert statuses(a.beat(shard)) == [Status.MISSING_SOURCE_TOPICS]
    assert statuses(a.beat(shard)) == [Status.MISSING_SOURCE_TOPICS]
    assert (a.active, described(shard).group_state) == ({}, "NotReady")
    shard.see(topics(3, a=4))
    settle(shard, a)
    assert a.active == {"0": (0, 1, 2, 3)}


def test_other_topics_change_nothing() -> None:
    shard = world()
    a = Client("a", "p", topology())
    settle(shard, a)
    records = len(shard.log)
    shard.see(topics(2, a=4, b=9, c=1))
    a.beat(shard)
    assert len(shard.log) == records


def test_an_endpoint_does_not_need_a_valid_topology() -> None:
    """Kafka responds with UNKNOWN_SERVER_ERROR."""
    shard = world()
    endpoint = wire.Endpoint(host="h", port=1)
    fields = {"topology": topology(part("0", "absent")), "user_endpoint": endpoint, "endpoint_epoch": -1}
    response = beat(shard, "a", 0, **fields)
    assert (response.error_code, statuses(response)) == (ErrorCode.none, [Status.MISSING_SOURCE_TOPICS])
    (entry,) = response.partitions_by_user_endpoint
    assert (entry.user_endpoint.host, entry.active_partitions) == ("h", ())


# Appends.


def test_an_append_that_fails_changes_nothing() -> None:
    shard = world()
    a = Client("a", "p", topology())
    settle(shard, a)
    shard.auto_append = False
    shard.see(topics(2, a=6))
    token = shard.submit(beat_request("a", a.epoch))
    shard.fail(ErrorCode.not_enough_replicas)
    assert shard.replies.pop(token).error_code == ErrorCode.coordinator_not_available
    assert (the_group(shard).epoch, described(shard).group_state) == (a.epoch, "Stable")
    shard.auto_append = True
    settle(shard, a)
    assert a.active == {"0": (0, 1, 2, 3, 4, 5)}


def test_a_first_heartbeat_whose_append_fails_leaves_no_group() -> None:
    shard = world()
    shard.auto_append = False
    shard.submit(beat_request("a", 0))
    shard.fail(ErrorCode.not_enough_replicas)
    assert listed(shard) == []
    shard.auto_append = True
    assert active(beat(shard, "a", 0)) == {"0": (0, 1, 2, 3)}


def test_queries_reflect_committed_records() -> None:
    shard = world()
    shard.auto_commit = False
    token = shard.submit(beat_request("a", 0))
    shard.settle()
    assert (listed(shard), described(shard).error_code) == ([], ErrorCode.group_id_not_found)
    assert token not in shard.replies
    shard.commit()
    assert listed(shard) == [(GROUP, "streams", "Stable")]
    shard.submit(beat_request("b", 0))
    shard.settle()
    assert [member.member_id for member in described(shard).members] == ["a"]


# New coordinators.


def test_another_coordinator_continues_where_this_one_was() -> None:
    shard = world()
    shard.see(topics(2, a=4, c=4))
    a, b = Client("a", "p", COUNT), Client("b", "q", COUNT)
    shard.configs.groups[GROUP] = GroupOverrides(streams_num_standby_replicas=1)
    settle(shard, a, b)
    before = (a.epoch, b.epoch, the_group(shard).target)
    shard.runtime.unload(shard.now)
    shard.load()
    records = len(shard.log)
    for client in (a, b):
        assert active(client.beat(shard)) is None
    assert (a.epoch, b.epoch, the_group(shard).target) == before
    assert len(shard.log) == records
    assert described(shard).topology.subtopologies[0].state_changelog_topics[0].partitions == 4


def test_members_have_a_full_session_at_another_coordinator() -> None:
    shard = world()
    beat(shard, "a", 0)
    epoch = beat(shard, "b", 0).member_epoch
    shard.advance(20_000)
    beat(shard, "a", epoch - 1)
    shard.runtime.unload(shard.now)
    shard.load()
    shard.advance(44_999)
    assert sorted(the_group(shard).members) == ["a", "b"]
    shard.advance(1)
    assert not the_group(shard).members


def test_a_member_must_revoke_in_time_at_another_coordinator_as_well() -> None:
    shard = world(group_streams_session_timeout_ms=60_000)
    beat(shard, "a", 0, rebalance_timeout=millis(10_000))
    epoch = beat(shard, "b", 0).member_epoch
    beat(shard, "a", epoch - 1)
    shard.runtime.unload(shard.now)
    shard.load()
    shard.advance(10_000)
    assert list(the_group(shard).members) == ["b"]


def test_topics_that_changed_while_no_coordinator_was_there_are_noticed() -> None:
    shard = world()
    a = Client("a", "p", topology())
    settle(shard, a)
    shard.runtime.unload(shard.now)
    shard.view = topics(2, a=6)
    shard.runtime.metadata(shard.view, shard.now)
    shard.load()
    settle(shard, a)
    assert a.active == {"0": (0, 1, 2, 3, 4, 5)}


# Offsets, deletion and expiry.


def test_members_commit_at_their_epoch_or_for_tasks_that_they_have_had_since() -> None:
    shard = world()
    first = beat(shard, "a", 0).member_epoch

    def commit(epoch: int, *partitions: tuple[str, int], member: str = "a", version: int = 9) -> list[str]:
        errors = shard.commit_offsets(
            dict.fromkeys(partitions, 1), version, member_id=member, generation_id_or_member_epoch=epoch
        )
        return [error.name for error in errors.values()]

    assert commit(first, ("a", 0), ("b", 1)) == ["none", "none"]
    beat(shard, "a", first, rack_id="r")
    assert commit(first, ("a", 0)) == ["none"]
    assert commit(first, ("b", 0)) == ["stale_member_epoch"]
    assert commit(first + 1, ("b", 0)) == ["none"]
    assert commit(first + 2, ("a", 0)) == ["stale_member_epoch"]
    assert commit(first - 1, ("a", 0)) == ["stale_member_epoch"]
    assert commit(first + 1, ("a", 0), version=8) == ["unsupported_version"]
    assert commit(first + 1, ("a", 0), member="stranger") == ["unknown_member_id"]
    assert commit(-1, ("a", 0), member="") == ["unknown_member_id"]
    beat(shard, "a", -1)
    assert commit(-1, ("a", 0), member="") == ["none"]


def test_a_task_that_is_being_revoked_may_be_committed() -> None:
    shard = world()
    first = beat(shard, "a", 0).member_epoch
    beat(shard, "b", 0)
    assert active(beat(shard, "a", first)) == {"0": (0, 1)}
    assert the_group(shard).members["a"].assignment_epoch("0", 3) == first
    offsets = {("a", 3): 7}
    assert shard.commit_offsets(offsets, 9, member_id="a", generation_id_or_member_epoch=first) == {
        ("a", 3): ErrorCode.none
    }


def test_only_an_empty_group_is_deleted() -> None:
    shard = world()
    epoch = beat(shard, "a", 0).member_epoch
    shard.commit_offsets({("a", 0): 1}, 9, member_id="a", generation_id_or_member_epoch=epoch)
    assert delete(shard) == ErrorCode.non_empty_group
    beat(shard, "a", -1)
    assert delete(shard) == ErrorCode.none
    assert (shard.shard.registry.groups, shard.shard.registry.subscribers) == ({}, {})
    assert shard.fetch_offsets() == {}
    assert shard.reloaded().registry.groups == {}
    assert delete(shard) == ErrorCode.group_id_not_found


def test_an_empty_group_expires_with_its_offsets() -> None:
    shard = world(offsets_retention_minutes=1, offsets_retention_check_interval_ms=10_000)
    epoch = beat(shard, "a", 0).member_epoch
    shard.commit_offsets({("a", 0): 1, ("b", 0): 1}, 9, member_id="a", generation_id_or_member_epoch=epoch)
    for _ in range(7):
        shard.advance(10_000)
        beat(shard, "a", epoch)
    assert shard.fetch_offsets() == {("a", 0): 1}, "members may be reading topic a"
    beat(shard, "a", -1)
    shard.advance(10_000)
    assert (shard.fetch_offsets(), listed(shard)) == ({}, [])


# Other types of groups.


def test_an_empty_group_becomes_a_classic_one_and_back() -> None:
    shard = world()
    beat(shard, "a", 0)
    refused = shard.replies.pop(shard.join())
    assert refused.error_code == ErrorCode.inconsistent_group_protocol
    beat(shard, "a", -1)
    assert shard.replies.pop(shard.join()).error_code == ErrorCode.member_id_required
    assert listed(shard) == [(GROUP, "classic", "Empty")]
    assert shard.shard.registry.subscribers == {}
    assert active(beat(shard, "a", 0)) == {"0": (0, 1, 2, 3)}
    assert [each[1] for each in listed(shard)] == ["streams"]
    request = ConsumerGroupDescribeRequest(group_ids=(GROUP,), include_authorized_operations=False)
    assert shard.response_to(request).groups[0].error_code == ErrorCode.group_id_not_found


def test_a_conversion_that_is_not_appended_is_undone() -> None:
    shard = world()
    beat(shard, "a", 0)
    beat(shard, "a", -1)
    shard.auto_append = False
    shard.join()
    assert shard.shard.registry.subscribers == {}
    shard.fail(ErrorCode.not_enough_replicas)
    assert (listed(shard), shard.shard.registry.subscribers) == ([(GROUP, "streams", "Empty")], {"a": {GROUP}})


def test_a_group_with_offsets_only_becomes_a_streams_group() -> None:
    shard = world()
    shard.commit_offsets({("a", 0): 5})
    beat(shard, "a", 0)
    assert (listed(shard), shard.fetch_offsets()) == ([(GROUP, "streams", "Stable")], {("a", 0): 5})
    assert list(shard.reloaded().registry.groups) == [GROUP]


# Shutdown.


def test_a_shutdown_ends_with_the_last_member() -> None:
    shard = world()
    a, b = Client("a", "p", topology()), Client("b", "q", topology())
    settle(shard, a, b)
    beat(shard, "a", a.epoch, shutdown_application=True)
    assert statuses(b.beat(shard)) == [Status.SHUTDOWN_APPLICATION]
    a.leave(shard)
    assert statuses(b.beat(shard)) == [Status.SHUTDOWN_APPLICATION]
    b.leave(shard)
    assert statuses(a.beat(shard)) == []


def test_a_member_with_an_old_topology_learns_that() -> None:
    shard = world()
    beat(shard, "a", 0, topology=topology(part("0", "a"), epoch=2))
    response = beat(shard, "b", 0, topology=topology(part("0", "b"), epoch=1))
    assert statuses(response) == [Status.STALE_TOPOLOGY]
    refused = beat(shard, "b", 0, topology=topology(part("0", "b"), epoch=2))
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.invalid_request,
        "Topology updates are not supported yet.",
    )


@pytest.mark.parametrize("size", [1, 2])
def test_a_full_group_takes_no_more(size: int) -> None:
    shard = world(group_streams_max_size=size)
    for number in range(size):
        assert beat(shard, f"m{number}", 0).error_code == ErrorCode.none
    assert beat(shard, "late", 0).error_code == ErrorCode.group_max_size_reached
    shard.configs.broker = replace(shard.configs.broker, group_streams_max_size=size + 1)
    assert beat(shard, "late", 0).error_code == ErrorCode.none
