"""Offsets: committing, fetching, deleting, expiring; groups that are deleted; requests that span shards."""

from typing import Any
from uuid import UUID

import pytest
from isthmus_broker.core.coordinator.partition import coordinator_partition
from isthmus_broker.core.coordinator.result import RequestContext
from isthmus_broker.core.group.config import OFFSETS_REMOVAL_RETRY_MS, GroupConfig
from isthmus_broker.core.group.request_parts import merge_responses, split_request
from isthmus_broker.core.group.shard import refuse
from isthmus_broker.core.group.view import Topics
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import Marker, ProducerId
from isthmus_wire.messages import decode_response, encode_response, millis
from isthmus_wire.records import NewRecord, build_batch
from isthmus_wire.requests import OffsetCommitRequestTopic, OffsetFetchRequest
from kio.schema.list_groups.v5.request import ListGroupsRequest

from tests.unit.group.harness import GROUP, A, B, World, commit_request, topic, topics
from tests.unit.group.loose import (
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)

MINUTE_MS = 60_000


def _world() -> World:
    return World(
        config=GroupConfig(
            offsets_retention_minutes=10,
            offsets_retention_check_interval_ms=MINUTE_MS,
            group_consumer_assignment_interval_ms=0,
        )
    )


# Committing.


def test_anybody_commits_to_a_group_without_members() -> None:
    world = World()
    answers = world.commit_offsets({("a", 0): 5, ("a", 4): 1, ("absent", 0): 1})
    assert answers == {
        ("a", 0): ErrorCode.none,
        ("a", 4): ErrorCode.unknown_topic_or_partition,
        ("absent", 0): ErrorCode.unknown_topic_or_partition,
    }
    assert world.fetch_offsets() == {("a", 0): 5}
    assert world.reloaded().offsets.by_group == world.shard.offsets.by_group


def test_metadata_is_bounded_and_kept() -> None:
    world = World()
    assert world.commit_offsets({("a", 0): 5}, metadata="x" * 4_097) == {("a", 0): ErrorCode.offset_metadata_too_large}
    assert world.commit_offsets({("a", 0): 5}, metadata="x" * 4_096) == {("a", 0): ErrorCode.none}
    assert world.shard.offsets.by_group[GROUP]["a"][0].metadata == "x" * 4_096


@pytest.mark.parametrize(
    ("fields", "api_version", "error"),
    [
        ({"generation_id_or_member_epoch": 3}, 8, ErrorCode.illegal_generation),
        ({"generation_id_or_member_epoch": 3}, 9, ErrorCode.group_id_not_found),
    ],
)
def test_a_member_of_a_group_that_is_not_there(fields: Any, api_version: int, error: ErrorCode) -> None:
    assert World().commit_offsets({("a", 0): 1}, api_version, **fields) == {("a", 0): error}


def test_members_of_classic_groups_commit_at_their_generation() -> None:
    world = World()
    member_id, generation = world.stable_member()

    def commit(**fields: Any) -> ErrorCode:
        return world.commit_offsets({("a", 0): 1}, **fields)[("a", 0)]

    mine: dict[str, Any] = {"member_id": member_id, "generation_id_or_member_epoch": generation}
    assert commit(**mine) == ErrorCode.none
    assert commit(**(mine | {"generation_id_or_member_epoch": 2})) == ErrorCode.illegal_generation
    assert commit(**(mine | {"member_id": "other"})) == ErrorCode.unknown_member_id
    assert commit(**mine, group_instance_id="i") == ErrorCode.unknown_member_id
    assert commit() == ErrorCode.unknown_member_id
    token = world.join(member_id)
    assert world.replies.pop(token).generation_id == 2
    assert commit(**(mine | {"generation_id_or_member_epoch": 2})) == ErrorCode.rebalance_in_progress


def test_members_of_consumer_groups_commit_what_they_have_had_since_the_epoch_they_name() -> None:
    world = _world()
    world.beat("m1", 0)
    world.beat("m2", 0)
    world.beat("m1", 2)
    world.beat("m1", 2, owned={A: (0, 1)})

    def commit(index: int, epoch: int, api_version: int = 9, member_id: str = "m1") -> ErrorCode:
        fields: dict[str, Any] = {"member_id": member_id, "generation_id_or_member_epoch": epoch}
        return world.commit_offsets({("a", index): 1}, api_version, **fields)[("a", index)]

    assert commit(0, 3) == ErrorCode.none
    assert commit(0, 2) == ErrorCode.none
    assert commit(0, 1) == ErrorCode.stale_member_epoch
    assert commit(2, 2) == ErrorCode.stale_member_epoch
    assert commit(0, 4) == ErrorCode.stale_member_epoch
    assert commit(0, 3, api_version=8) == ErrorCode.unsupported_version
    assert commit(0, 3, member_id="other") == ErrorCode.unknown_member_id
    assert commit(0, -1, member_id="") == ErrorCode.unknown_member_id
    world.beat("m1", -1)
    world.beat("m2", -1)
    assert commit(0, -1, member_id="") == ErrorCode.none


def test_from_version_10_on_topics_have_ids() -> None:
    world = World()

    def entry(topic_id: UUID | None, index: int) -> OffsetCommitRequestTopic:
        partition = OffsetCommitRequestPartition(partition_index=index, committed_offset=7, committed_metadata=None)
        return OffsetCommitRequestTopic(topic_id=topic_id, partitions=(partition,))

    request = OffsetCommitRequest(
        group_id=GROUP, topics=(entry(A, 0), entry(A, 9), entry(UUID(int=99), 0), entry(None, 0))
    )
    answers = {
        each.topic_id: [partition.error_code for partition in each.partitions]
        for each in world.response_to(request, 10).topics
    }
    assert answers == {
        A: [ErrorCode.unknown_topic_or_partition, ErrorCode.none],
        UUID(int=99): [ErrorCode.unknown_topic_id],
        None: [ErrorCode.unknown_topic_id],
    }
    topics_asked = tuple(OffsetFetchRequestTopic(topic_id=each, partition_indexes=(0,)) for each in (A, UUID(int=99)))
    group = OffsetFetchRequestGroup(group_id=GROUP, topics=topics_asked)
    told = world.response_to(OffsetFetchRequest(groups=(group,)), 10).groups[0].topics
    assert [(each.topic_id, each.partitions[0].error_code, each.partitions[0].committed_offset) for each in told] == [
        (A, ErrorCode.none, 7),
        (UUID(int=99), ErrorCode.unknown_topic_id, -1),
    ]
    group = OffsetFetchRequestGroup(group_id=GROUP, topics=None)
    everything = world.response_to(OffsetFetchRequest(groups=(group,)), 10).groups[0].topics
    assert [each.topic_id for each in everything] == [A]


def test_offsets_of_a_topic_are_not_those_of_its_successor() -> None:
    world = World()
    world.commit_offsets({("a", 0): 5, ("b", 0): 6})
    successor = UUID(int=0xAA)
    # A broker that was down while the topic was created again has not seen the deletion.
    other = World(view=Topics.of(5, [topic(successor, "a", 4), topic(B, "b", 2)]), log=world.log)
    asked = (
        OffsetFetchRequestTopic(topic_id=successor, partition_indexes=(0,)),
        OffsetFetchRequestTopic(topic_id=B, partition_indexes=(0,)),
    )
    group = OffsetFetchRequestGroup(group_id=GROUP, topics=asked)
    told = other.response_to(OffsetFetchRequest(groups=(group,)), 10).groups[0].topics
    assert [each.partitions[0].committed_offset for each in told] == [-1, 6]


# Fetching.


def test_a_group_that_is_not_there_has_no_offsets() -> None:
    world = World()
    assert world.fetch_offsets(("a", 0)) == {("a", 0): -1}
    assert world.fetch_offsets() == {}


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        ("m1", 2, ErrorCode.none),
        (None, -1, ErrorCode.none),
        ("m1", 1, ErrorCode.stale_member_epoch),
        ("other", 2, ErrorCode.unknown_member_id),
        (None, 2, ErrorCode.unknown_member_id),
    ],
)
def test_a_member_fetches_at_its_epoch(member_id: str | None, epoch: int, error: ErrorCode) -> None:
    world = _world()
    world.beat("m1", 0)
    group = OffsetFetchRequestGroup(group_id=GROUP, member_id=member_id, member_epoch=epoch, topics=None)
    assert world.response_to(OffsetFetchRequest(groups=(group,)), 9).groups[0].error_code == error


def test_old_versions_request_one_group() -> None:
    world = World()
    world.commit_offsets({("a", 0): 5})
    asked = (OffsetFetchRequestTopic(name="a", partition_indexes=(0, 1)),)
    response = world.response_to(OffsetFetchRequest(group_id=GROUP, topics=asked), 7)
    read = decode_response(9, 7, encode_response(9, 7, response))
    assert [each.committed_offset for each in read.topics[0].partitions] == [5, -1]
    refused = refuse(
        OffsetFetchRequest(group_id=GROUP, topics=asked), RequestContext(api_version=1), ErrorCode.not_coordinator
    )
    read = decode_response(9, 1, encode_response(9, 1, refused))
    assert [each.error_code for each in read.topics[0].partitions] == [ErrorCode.not_coordinator] * 2


# Deleting.


def _delete(world: World, **partitions: tuple[int, ...]) -> Any:
    asked = tuple(
        OffsetDeleteRequestTopic(
            name=name, partitions=tuple(OffsetDeleteRequestPartition(partition_index=index) for index in indexes)
        )
        for name, indexes in partitions.items()
    )
    response = world.response_to(OffsetDeleteRequest(group_id=GROUP, topics=asked))
    if response.error_code != ErrorCode.none:
        return response.error_code
    return {
        (each.name, partition.partition_index): partition.error_code
        for each in response.topics
        for partition in each.partitions
    }


def test_offsets_of_topics_without_subscribers_are_deleted() -> None:
    world = World()
    member_id, generation = world.stable_member()
    fields: dict[str, Any] = {"member_id": member_id, "generation_id_or_member_epoch": generation}
    world.commit_offsets({("a", 0): 5, ("b", 0): 6, ("b", 1): 7}, **fields)
    assert _delete(world, a=(0,), b=(0, 9), absent=(0,)) == {
        ("b", 9): ErrorCode.unknown_topic_or_partition,
        ("absent", 0): ErrorCode.unknown_topic_or_partition,
        ("a", 0): ErrorCode.group_subscribed_to_topic,
        ("b", 0): ErrorCode.none,
    }
    assert world.fetch_offsets() == {("a", 0): 5, ("b", 1): 7}


def test_groups_whose_offsets_cannot_be_deleted() -> None:
    world = World()
    assert _delete(world, a=(0,)) == ErrorCode.group_id_not_found
    world.join(api_version=3, protocol_type="connect")
    assert _delete(world, a=(0,)) == ErrorCode.non_empty_group
    assert world.response_to(OffsetDeleteRequest(group_id="", topics=())).error_code == ErrorCode.invalid_group_id


def test_empty_groups_are_deleted_with_their_offsets() -> None:
    world = World()
    world.commit_offsets({("a", 0): 5}, group_id="simple")
    world.beat("m1", 0, group_id="gone")
    world.beat("m1", -1, group_id="gone")
    world.beat("m1", 0, group_id="busy")
    names = ("simple", "gone", "busy", "absent", "simple")
    results = world.response_to(DeleteGroupsRequest(groups_names=names)).results
    assert [(each.group_id, each.error_code) for each in results] == [
        ("simple", ErrorCode.none),
        ("gone", ErrorCode.none),
        ("busy", ErrorCode.non_empty_group),
        ("absent", ErrorCode.group_id_not_found),
    ]
    for shard in (world.shard, world.reloaded()):
        assert list(shard.registry.groups) == ["busy"]
        assert shard.offsets.by_group == {}


def test_offsets_of_a_deleted_topic_go_at_once() -> None:
    world = World()
    world.commit_offsets({("a", 0): 5, ("b", 0): 6})
    world.see(topics(2, a=4))
    assert world.fetch_offsets() == {("a", 0): 5}
    world.see(Topics.of(3, [topic(UUID(int=99), "a", 4)]))
    assert world.fetch_offsets() == {}


# Expiry.


def test_offsets_of_a_deleted_topic_are_removed_again_after_a_failure() -> None:
    """Tombstones that were refused once, for example below min.insync.replicas, were never written."""
    world = World()
    world.commit_offsets({("a", 0): 5, ("b", 1): 6})
    world.auto_append = False
    world.see(topics(2, a=4))
    world.fail(ErrorCode.not_enough_replicas)
    world.auto_append = True
    assert world.fetch_offsets() == {("a", 0): 5, ("b", 1): 6}
    world.advance(OFFSETS_REMOVAL_RETRY_MS)
    assert world.fetch_offsets() == {("a", 0): 5}
    records = len(world.log)
    world.advance(10 * OFFSETS_REMOVAL_RETRY_MS)
    assert len(world.log) == records


def test_a_fetch_returns_committed_offsets_while_a_commit_is_not_replicated() -> None:
    """A commit that was not replicated held every OffsetFetch of the shard."""
    world = World()
    world.commit_offsets({("a", 0): 5, ("b", 0): 7})
    world.auto_commit = False
    for offset in (6, 7):
        world.submit(commit_request({("a", 0): offset, ("a", 1): offset}))
    assert world.fetch_offsets() == {("a", 0): 5, ("b", 0): 7}
    stable = world.submit(
        OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=GROUP, topics=None),), require_stable=True)
    )
    assert stable not in world.replies, "the newest offsets are sent once they are committed"
    world.runtime.committed(len(world.log) - 2, world.now)
    assert world.fetch_offsets() == {("a", 0): 6, ("a", 1): 6, ("b", 0): 7}
    world.commit()
    assert world.fetch_offsets() == {("a", 0): 7, ("a", 1): 7, ("b", 0): 7}
    assert stable in world.replies


def test_a_fetch_returns_offsets_until_their_tombstones_are_committed() -> None:
    world = World()
    world.commit_offsets({("a", 0): 5})
    world.auto_commit = False
    world.see(topics(2, b=2))
    assert world.shard.offsets.by_group == {}
    assert world.fetch_offsets() == {("a", 0): 5}
    world.commit()
    assert world.fetch_offsets() == {}


def test_many_offsets_expire_in_batches_below_the_limit() -> None:
    world = _world()
    world.commit_offsets({("a", 0): 1, ("a", 1): 1, ("a", 2): 1, ("a", 3): 1})
    world.batch_bytes_max = 150
    world.auto_append = False
    world.advance(11 * MINUTE_MS)
    batches = 0
    while world.pending:
        batches += 1
        (_, records), *_ = world.pending
        assert len(build_batch([NewRecord(key, value) for key, value in records])) <= world.batch_bytes_max
        world.append()
        world.settle()
    assert batches > 1
    assert world.fetch_offsets() == {}


def test_offsets_committed_by_hand_expire_one_by_one() -> None:
    world = _world()
    world.commit_offsets({("a", 0): 5})
    world.advance(5 * MINUTE_MS)
    world.commit_offsets({("a", 1): 6})
    world.advance(5 * MINUTE_MS)
    assert world.fetch_offsets() == {("a", 1): 6}
    world.advance(5 * MINUTE_MS)
    assert world.shard.registry.groups == {}
    assert world.reloaded().registry.groups == {}


def test_offsets_of_a_classic_group_expire_when_it_has_been_empty_long_enough() -> None:
    world = _world()
    member_id, generation = world.stable_member()
    world.commit_offsets({("a", 0): 5, ("b", 0): 6}, member_id=member_id, generation_id_or_member_epoch=generation)
    for _ in range(12 * 10):
        world.advance(6_000)
        world.heartbeat(member_id, generation)
    assert world.fetch_offsets() == {("a", 0): 5}  # for b, which has no subscribers, the time started at the commit
    world.advance(10_000)
    world.advance(9 * MINUTE_MS)
    assert world.fetch_offsets() == {("a", 0): 5}
    world.advance(2 * MINUTE_MS)
    assert world.shard.registry.groups == {}


def test_while_a_classic_group_rebalances_nothing_expires() -> None:
    world = _world()
    world.commit_offsets({("b", 0): 6})
    world.new_member(rebalance_timeout_ms=30 * MINUTE_MS, session_timeout_ms=30 * MINUTE_MS)
    world.advance(20 * MINUTE_MS)
    assert world.fetch_offsets() == {("b", 0): 6}


def test_offsets_of_a_consumer_group_expire_for_topics_it_does_not_subscribe_to() -> None:
    world = _world()
    world.beat("m1", 0, topics=("a", "b"))
    world.commit_offsets({("a", 0): 5, ("b", 0): 6}, member_id="m1", generation_id_or_member_epoch=2)
    epoch = world.beat("m1", 2, topics=("a",)).member_epoch
    for _ in range(22):
        world.advance(MINUTE_MS // 2)
        epoch = world.beat("m1", epoch, owned={A: (0, 1, 2, 3)}).member_epoch
    assert world.fetch_offsets() == {("a", 0): 5}
    world.beat("m1", -1)
    world.advance(MINUTE_MS)
    assert world.shard.registry.groups == {}


def test_an_offset_may_bring_its_own_retention() -> None:
    world = _world()
    world.commit_offsets({("a", 0): 5}, 4, retention_time=millis(2 * MINUTE_MS))
    world.commit_offsets({("a", 1): 5}, 4)
    world.advance(2 * MINUTE_MS)
    assert world.fetch_offsets() == {("a", 1): 5}


def test_a_clean_up_that_could_not_be_stored_is_made_again() -> None:
    world = _world()
    world.commit_offsets({("a", 0): 5})
    world.auto_append = False
    world.advance(10 * MINUTE_MS)
    world.fail(ErrorCode.request_timed_out)
    assert world.fetch_offsets() == {("a", 0): 5}
    world.auto_append = True
    world.advance(MINUTE_MS)
    assert world.fetch_offsets() == {}


# Over several shards.


def test_requests_about_groups_are_split_by_shard_and_the_responses_merged() -> None:
    groups = ("g1", "g2", "g3")
    fetch = OffsetFetchRequest(
        groups=tuple(OffsetFetchRequestGroup(group_id=name, topics=None) for name in groups), require_stable=True
    )
    requests: list[tuple[object, int]] = [
        (fetch, 9),
        (DescribeGroupsRequest(groups=groups, include_authorized_operations=False), 6),
        (ConsumerGroupDescribeRequest(group_ids=groups, include_authorized_operations=False), 1),
        (DeleteGroupsRequest(groups_names=groups), 2),
    ]
    world = World()
    for request, version in requests:
        parts = split_request(request, version, 50)
        assert [partition for partition, _ in parts] == [coordinator_partition(name, 50) for name in groups]
        assert merge_responses(request, [world.response_to(part, version) for _, part in parts]) == world.response_to(
            request, version
        )


def test_a_request_about_one_group_is_its_own_part() -> None:
    heartbeat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m")
    assert split_request(heartbeat, 4, 50) == [(coordinator_partition(GROUP, 50), heartbeat)]
    old = OffsetFetchRequest(group_id=GROUP)
    assert split_request(old, 7, 50) == [(coordinator_partition(GROUP, 50), old)]
    response = World().response_to(heartbeat)
    assert merge_responses(heartbeat, [response]) is response


def test_listing_leaves_out_shards_that_moved_and_waits_for_those_that_load() -> None:
    world = World()
    world.commit_offsets({("a", 0): 5})
    request = ListGroupsRequest()
    context = RequestContext(api_version=5)
    listed = world.response_to(request)
    moved, loads = (
        refuse(request, context, error) for error in (ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress)
    )
    assert merge_responses(request, [moved, listed]) == listed
    assert merge_responses(request, [listed, loads]) == loads
    assert merge_responses(request, []) == World().response_to(request)


def test_every_request_can_be_refused() -> None:
    heartbeat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m")
    context = RequestContext(api_version=4)
    answer: Any = refuse(heartbeat, context, ErrorCode.coordinator_load_in_progress)
    assert answer.error_code == ErrorCode.none  # members need not join again because their coordinator loads
    answer = refuse(heartbeat, context, ErrorCode.not_coordinator)
    assert answer.error_code == ErrorCode.not_coordinator
    answer = refuse(commit_request({("a", 0): 1}), context, ErrorCode.not_coordinator)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.not_coordinator


def test_a_shard_that_is_unloaded_refuses_pending_requests() -> None:
    world = World()
    first, _ = world.stable_member()
    joining = world.join(first, protocols={"range": b"\0\0\0\0\0\0\0\0\0\0", "x": b""})
    waiting = world.replies.pop(joining).member_id
    assert waiting == first
    other = world.new_member()[1]
    world.runtime.unload(world.now)
    world.settle()
    assert world.replies.pop(other).error_code == ErrorCode.not_coordinator


def test_offsets_of_a_transaction_count_when_it_is_committed() -> None:
    source, world = World(), World()
    producer = ProducerId(7, 0)
    for offset, committed in ((5, False), (6, True)):
        source.commit_offsets({("a", 0): offset})
        key, value = source.log[-1]
        record = world.shard.decode(key, value)
        assert record is not None
        world.shard.replay(record, 0, producer, world.now)
        before = world.fetch_offsets()
        world.shard.end_transaction(Marker(producer, committed, coordinator_epoch=0), 1, world.now)
        world.shard.committed(2)
        assert before == {}
        assert world.fetch_offsets() == ({("a", 0): offset} if committed else {})
