"""Partitions under change: ISR proposals, elections, eligible leaders, reassignments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isthmus_broker.core.metadata.image import Partition
from isthmus_broker.core.metadata.partition_change import Election, PartitionChange
from isthmus_broker.core.metadata.replay import merged
from isthmus_broker.core.metadata.schema import PartitionChangeRecord, PartitionRecord
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.alter_partition.v3.request import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from kio.schema.alter_partition_reassignments.v1.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest

from tests.unit.metadata.cluster import Cluster, outcome


def a_partition(**given: Any) -> Partition:
    fields: dict[str, Any] = {
        "replicas": (1, 2, 3),
        "isr": (1, 2, 3),
        "removing_replicas": (),
        "adding_replicas": (),
        "leader": 1,
        "leader_epoch": 4,
        "partition_epoch": 6,
        "directories": (None,) * len(given.get("replicas", (1, 2, 3))),
        **given,
    }
    return PartitionRecord(partition_id=0, topic_id=None, **fields)


def changed(partition: Partition, alive: set[int], min_isr: int = 1, elr: bool = True, **given: Any) -> Partition:
    """The partition after the change; the same when there is none."""
    change = PartitionChange(
        partition=partition,
        may_lead=lambda broker: broker in alive,
        min_isr=min_isr,
        elr_enabled=elr,
        default_directory=lambda _: None,
    )
    for name, value in given.items():
        setattr(change, name, value)
    record = change.record()
    return partition if record is None else merged(partition, record)


def test_nothing_to_change_makes_no_record() -> None:
    partition = a_partition()
    assert changed(partition, {1, 2, 3}) is partition


def test_the_leader_that_leaves_is_followed_by_the_next_replica_in_sync() -> None:
    after = changed(a_partition(isr=(1, 3)), {2, 3}, isr=(3,))
    assert (after.leader, after.isr, after.leader_epoch, after.partition_epoch) == (3, (3,), 5, 7)


def test_an_isr_that_grows_or_shrinks_keeps_the_leader_epoch() -> None:
    after = changed(a_partition(), {1, 2, 3}, isr=(1, 2))
    assert (after.leader_epoch, after.partition_epoch, after.isr) == (4, 7, (1, 2))


def test_below_min_isr_those_who_leave_stay_eligible() -> None:
    partition = a_partition(isr=(1, 2))
    after = changed(partition, {1, 3}, min_isr=2, isr=(1,))
    assert (after.isr, after.eligible_leader_replicas) == ((1,), (2,))
    # The last one leaves as well: there is no leader, both may return, and the last leader is recorded.
    gone = changed(after, {3}, min_isr=2, isr=())
    assert (gone.leader, gone.isr, gone.eligible_leader_replicas, gone.last_known_elr) == (-1, (), (1, 2), (1,))
    back = changed(gone, {2}, min_isr=2)
    assert (back.leader, back.isr, back.eligible_leader_replicas, back.last_known_elr) == (2, (2,), (1,), None)
    full = changed(back, {1, 2}, min_isr=2, isr=(2, 1))
    assert (full.isr, full.eligible_leader_replicas) == ((2, 1), None)


def test_an_eligible_replica_that_stopped_uncleanly_is_eligible_no_more() -> None:
    partition = a_partition(isr=(), leader=-1, eligible_leader_replicas=(1, 2), last_known_elr=(1,))
    after = changed(partition, set(), min_isr=2, isr=(), uncleanly_stopped=(1,))
    assert (after.leader, after.eligible_leader_replicas) == (-1, (2,))


def test_the_last_leader_may_return_when_no_replica_is_eligible() -> None:
    partition = a_partition(isr=(), leader=-1, last_known_elr=(3,))
    after = changed(partition, {1, 3})
    assert (after.leader, after.isr, after.leader_recovery_state, after.last_known_elr) == (3, (3,), 1, None)
    assert changed(partition, {1}) is partition


def test_an_unclean_election_takes_any_replica_that_lives() -> None:
    partition = a_partition(isr=(1,), leader=1)
    after = changed(partition, {2, 3}, elr=False, isr=(), election=Election.UNCLEAN)
    assert (after.leader, after.isr, after.leader_recovery_state) == (2, (2,), 1)


def test_without_eligible_leaders_the_last_in_sync_replica_is_kept() -> None:
    after = changed(a_partition(isr=(1,)), {2, 3}, elr=False, isr=())
    assert (after.leader, after.isr, after.leader_epoch) == (-1, (1,), 5)


def test_a_preferred_election_moves_leadership_only_where_it_is_safe() -> None:
    partition = a_partition(leader=2)
    assert changed(partition, {1, 2, 3}, election=Election.PREFERRED).leader == 1
    assert changed(partition, {2, 3}, election=Election.PREFERRED) is partition
    assert changed(partition, {1, 2, 3}) is partition


replicas = st.lists(st.integers(0, 5), min_size=1, max_size=5, unique=True).map(tuple)


@given(st.data())
def test_a_leader_is_always_a_replica_in_sync_and_alive(data: st.DataObject) -> None:
    these = data.draw(replicas)
    some = st.lists(st.sampled_from(these), unique=True).map(tuple)
    isr = data.draw(some)
    elr = tuple(r for r in data.draw(some) if r not in isr)
    leader = data.draw(st.sampled_from((-1, *isr))) if isr else -1
    partition = a_partition(replicas=these, isr=isr, leader=leader, eligible_leader_replicas=elr or None)
    alive = set(data.draw(some))
    target = tuple(r for r in isr if data.draw(st.booleans()))
    after = changed(
        partition,
        alive,
        min_isr=data.draw(st.integers(1, 3)),
        elr=data.draw(st.booleans()),
        isr=target,
        election=data.draw(st.sampled_from(Election)),
    )
    if after.leader != -1:
        assert after.leader in after.isr
        assert after.leader in after.replicas
        assert after.leader in alive
    assert not set(after.isr) & set(after.eligible_leader_replicas or ())
    assert (after.leader_epoch > partition.leader_epoch) == (after.leader != partition.leader)


def proposal(cluster: Cluster, isr: tuple[int, ...], broker: int = 1, **given: Any) -> Any:
    topic = cluster.topic("a")
    partition = topic.partitions[0]
    fields = {
        "partition_index": 0,
        "leader_epoch": partition.leader_epoch,
        "new_isr_with_epochs": tuple(
            entity(BrokerState, broker_id=r, broker_epoch=cluster.image.brokers[r].broker_epoch) for r in isr
        ),
        "leader_recovery_state": 0,
        "partition_epoch": partition.partition_epoch,
        **given,
    }
    request = entity(
        AlterPartitionRequest,
        broker_id=broker,
        broker_epoch=cluster.image.brokers[broker].broker_epoch,
        topics=(entity(TopicData, topic_id=topic.id, partitions=(entity(PartitionData, **fields),)),),
    )
    (answered,) = cluster.response_to(request).topics
    return answered.partitions[0]


def three_brokers(**given: Any) -> Cluster:
    cluster = Cluster((1, 2, 3))
    cluster.put_topic("a", (1, 2, 3), **given)
    return cluster


def test_a_leader_changes_its_isr() -> None:
    cluster = three_brokers()
    answer = proposal(cluster, (1, 2))
    assert (answer.error_code, answer.isr, answer.partition_epoch, answer.leader_id) == (ErrorCode.none, (1, 2), 1, 1)
    assert cluster.partition("a").isr == (1, 2)


@pytest.mark.parametrize(
    ("isr", "broker", "given", "code"),
    [
        ((1, 2), 1, {"leader_epoch": 9}, ErrorCode.not_controller),
        ((1, 2), 1, {"partition_epoch": 9}, ErrorCode.not_controller),
        ((1, 2), 1, {"leader_epoch": -1}, ErrorCode.fenced_leader_epoch),
        ((1, 2), 2, {}, ErrorCode.invalid_request),
        ((1, 2), 1, {"partition_epoch": -1}, ErrorCode.invalid_update_version),
        ((2, 3), 1, {}, ErrorCode.invalid_request),
        ((1, 4), 1, {}, ErrorCode.invalid_request),
        ((1, 2), 1, {"leader_recovery_state": 1}, ErrorCode.invalid_request),
        ((1, 2), 1, {"partition_index": 7}, ErrorCode.unknown_topic_or_partition),
    ],
)
def test_refused_proposals(isr: tuple[int, ...], broker: int, given: dict[str, Any], code: ErrorCode) -> None:
    cluster = three_brokers()
    cluster.add_broker(4)
    assert proposal(cluster, isr, broker, **given).error_code is code
    assert cluster.partition("a").isr == (1, 2, 3)


def test_a_fenced_broker_cannot_join_the_isr() -> None:
    cluster = three_brokers(isr=(1,))
    cluster.append([replace(cluster.image.brokers[2], fenced=True)])
    assert proposal(cluster, (1, 2)).error_code is ErrorCode.ineligible_replica
    stale = (entity(BrokerState, broker_id=1), entity(BrokerState, broker_id=3, broker_epoch=0))
    assert proposal(cluster, (1, 3), new_isr_with_epochs=stale).error_code is ErrorCode.ineligible_replica


def test_a_refusal_for_an_ineligible_replica_makes_older_copies_of_the_proposal_stale() -> None:
    cluster = three_brokers(isr=(1,))
    before = cluster.partition("a").partition_epoch
    cluster.append([replace(cluster.image.brokers[2], fenced=True)])
    assert proposal(cluster, (1, 2)).error_code is ErrorCode.ineligible_replica
    cluster.append([replace(cluster.image.brokers[2], fenced=False)])
    assert cluster.partition("a").partition_epoch == before + 1
    late = proposal(cluster, (1, 2), partition_epoch=before)
    assert late.error_code is ErrorCode.invalid_update_version
    assert cluster.partition("a").isr == (1,)


def test_a_proposal_of_a_stale_broker_is_refused_as_a_whole() -> None:
    cluster = three_brokers()
    request = entity(AlterPartitionRequest, broker_id=1, broker_epoch=0, topics=())
    assert cluster.response_to(request).error_code is ErrorCode.stale_broker_epoch


def election(kind: int, *topics: tuple[str, tuple[int, ...]], everything: bool = False) -> ElectLeadersRequest:
    named = tuple(entity(TopicPartitions, topic=name, partitions=indexes) for name, indexes in topics)
    return entity(ElectLeadersRequest, election_type=kind, topic_partitions=None if everything else named)


def elected(cluster: Cluster, request: ElectLeadersRequest) -> list[tuple[str, int, ErrorCode, str | None]]:
    return [
        (result.topic, partition.partition_id, *outcome(partition))
        for result in cluster.response_to(request).replica_election_results
        for partition in result.partition_result
    ]


def test_elections() -> None:
    cluster = three_brokers(leader=2)
    cluster.put_topic("b", (1,))
    assert elected(cluster, election(0, ("a", (0, 9)), ("none", (0,)), ("b", (0,)))) == [
        ("a", 0, ErrorCode.none, None),
        ("a", 9, ErrorCode.unknown_topic_or_partition, "No such partition as a-9"),
        ("none", 0, ErrorCode.unknown_topic_or_partition, "No such topic as none"),
        ("b", 0, ErrorCode.election_not_needed, "Leader election not needed for topic partition."),
    ]
    assert cluster.partition("a").leader == 1
    assert elected(cluster, election(0, everything=True)) == []
    assert elected(cluster, election(7, ("a", (0,)))) == [
        ("a", 0, ErrorCode.invalid_request, "Unknown election type 7")
    ]


def test_elections_without_an_eligible_replica() -> None:
    cluster = three_brokers(leader=2, isr=(2,))
    message = "The preferred leader was not available."
    assert elected(cluster, election(0, ("a", (0,)))) == [("a", 0, ErrorCode.preferred_leader_not_available, message)]
    cluster = Cluster((1,))
    cluster.add_broker(2, fenced=True)
    cluster.put_topic("a", (2,), leader=-1, isr=(), eligible_leader_replicas=(2,))
    message = "Eligible topic partition leaders are not available."
    assert elected(cluster, election(1, ("a", (0,)))) == [("a", 0, ErrorCode.eligible_leaders_not_available, message)]


def reassignment(*partitions: tuple[int, tuple[int, ...] | None], resize: bool = True, name: str = "a") -> Any:
    asked = tuple(entity(ReassignablePartition, partition_index=i, replicas=r) for i, r in partitions)
    return entity(
        AlterPartitionReassignmentsRequest,
        timeout=NO_THROTTLE,
        allow_replication_factor_change=resize,
        topics=(entity(ReassignableTopic, name=name, partitions=asked),),
    )


def reassigned(cluster: Cluster, request: Any) -> list[tuple[ErrorCode, str | None]]:
    (response,) = cluster.response_to(request).responses
    return [outcome(partition) for partition in response.partitions]


def test_a_reassignment_is_complete_when_the_new_replicas_are_in_sync() -> None:
    cluster = Cluster((1, 2, 3, 4))
    cluster.put_topic("a", (1, 2))
    assert reassigned(cluster, reassignment((0, (3, 4)))) == [(ErrorCode.none, None)]
    partition = cluster.partition("a")
    assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == (
        (3, 4, 1, 2),
        (3, 4),
        (1, 2),
    )
    listed = cluster.response_to(entity(ListPartitionReassignmentsRequest, timeout=NO_THROTTLE, topics=None))
    assert [(t.name, t.partitions[0].adding_replicas) for t in listed.topics] == [("a", (3, 4))]
    assert proposal(cluster, (1, 2, 3)).error_code is ErrorCode.none
    assert cluster.partition("a").adding_replicas == (3, 4)
    # The last one completes it, and the sender, no longer a replica, learns that there is another leader.
    assert proposal(cluster, (1, 2, 3, 4)).error_code is ErrorCode.new_leader_elected
    partition = cluster.partition("a")
    assert (partition.replicas, partition.isr, partition.leader) == ((3, 4), (3, 4), 3)
    assert (partition.adding_replicas, partition.removing_replicas) == ((), ())


def in_progress(cluster: Cluster) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    partition = cluster.partition("a")
    return partition.replicas, partition.adding_replicas, partition.removing_replicas


@pytest.mark.parametrize(
    ("first", "then", "after", "cancelled"),
    [
        ((4, 5, 6), (4, 5, 6), ((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3)), (1, 2, 3)),
        ((4, 5, 6), (4, 5, 7), ((4, 5, 7, 1, 2, 3, 6), (7,), (1, 2, 3, 6)), (4, 5, 1, 2, 3, 6)),
        ((1, 2, 3, 4), (1, 2, 3, 4, 5), ((1, 2, 3, 4, 5), (5,), ()), (1, 2, 3, 4)),
        ((1, 2, 4), (1, 5, 6), ((1, 5, 6, 2, 3, 4), (5, 6), (2, 3, 4)), (1, 2, 3, 4)),
    ],
)
def test_a_reassignment_over_another_is_that_of_kafka(
    first: tuple[int, ...],
    then: tuple[int, ...],
    after: tuple[tuple[int, ...], ...],
    cancelled: tuple[int, ...],
) -> None:
    """Adding are the replicas that the new target adds to the present ones, and a cancellation removes no others."""
    cluster = Cluster((1, 2, 3, 4, 5, 6, 7))
    cluster.put_topic("a", (1, 2, 3))
    assert reassigned(cluster, reassignment((0, first))) == [(ErrorCode.none, None)]
    assert reassigned(cluster, reassignment((0, then))) == [(ErrorCode.none, None)]
    assert in_progress(cluster) == after
    assert cluster.partition("a").isr == (1, 2, 3)
    assert reassigned(cluster, reassignment((0, None))) == [(ErrorCode.none, None)]
    replicas, adding, removing = in_progress(cluster)
    assert (sorted(replicas), adding, removing) == (sorted(cancelled), (), ())
    assert cluster.partition("a").isr == (1, 2, 3)


def test_a_reassignment_does_not_wait_for_a_replica_that_it_removes() -> None:
    """In Kafka broker 2 is being added and removed by the second reassignment, which never completes."""
    cluster = Cluster((1, 2, 3))
    cluster.put_topic("a", (1,))
    cluster.response_to(reassignment((0, (2, 3))))
    cluster.response_to(reassignment((0, (3,))))
    assert in_progress(cluster) == ((3, 1), (3,), (1,))
    assert proposal(cluster, (1, 3)).error_code is ErrorCode.new_leader_elected
    assert (cluster.partition("a").replicas, cluster.partition("a").isr) == ((3,), (3,))


@pytest.mark.parametrize("in_sync", [(1, 2), (1, 2, 3), (1,)])
def test_a_reassignment_back_to_the_first_replicas_completes(in_sync: tuple[int, ...]) -> None:
    """In Kafka brokers 3 and 4 remain being added and removed for good."""
    cluster = Cluster((1, 2, 3, 4))
    cluster.put_topic("a", (1, 2))
    cluster.response_to(reassignment((0, (3, 4))))
    assert proposal(cluster, in_sync).error_code is ErrorCode.none
    cluster.response_to(reassignment((0, (1, 2))))
    assert in_progress(cluster) == ((1, 2), (), ())


def test_a_replica_in_sync_stays_until_the_replicas_of_the_new_target_are_too() -> None:
    cluster = Cluster((1, 2, 3, 4))
    cluster.put_topic("a", (1, 2))
    cluster.response_to(reassignment((0, (3, 4))))
    proposal(cluster, (1, 3))
    cluster.response_to(reassignment((0, (1, 2))))
    assert in_progress(cluster) == ((1, 2, 3), (), (3,))
    proposal(cluster, (1, 2, 3))
    assert in_progress(cluster) == ((1, 2), (), ())


def test_a_replica_that_was_being_removed_and_is_in_the_new_target_stays() -> None:
    """In Kafka broker 1 is still being removed."""
    cluster = Cluster((1, 2))
    cluster.put_topic("a", (1,))
    cluster.response_to(reassignment((0, (2,))))
    cluster.response_to(reassignment((0, (1, 2))))
    assert in_progress(cluster) == ((1, 2), (2,), ())


def test_the_replication_factor_of_a_reassignment_in_progress_is_that_of_its_target() -> None:
    cluster = Cluster((1, 2, 3, 4))
    cluster.put_topic("a", (1, 2))
    assert reassigned(cluster, reassignment((0, (2, 3, 4)))) == [(ErrorCode.none, None)]
    assert reassigned(cluster, reassignment((0, (1, 2)), resize=False)) == [
        (ErrorCode.invalid_replication_factor, "The replication factor is changed from 3 to 2")
    ]
    assert reassigned(cluster, reassignment((0, (1, 2, 3)), resize=False)) == [(ErrorCode.none, None)]


def test_a_cancellation_that_would_leave_only_observers_is_refused() -> None:
    """None of them would ever be in sync."""
    cluster = Cluster((1, 2))
    cluster.put_topic("a", (1, 2), isr=(1,), adding_replicas=(1,), observers=(2,))
    message = "Every replica of the assignment is an observer."
    assert reassigned(cluster, reassignment((0, None))) == [(ErrorCode.invalid_replica_assignment, message)]


def test_an_election_may_complete_a_reassignment() -> None:
    """The only remaining replica returns and becomes leader: no later event could complete the reassignment."""
    waiting = a_partition(
        replicas=(1, 2), isr=(), leader=-1, removing_replicas=(2,), eligible_leader_replicas=(1,), last_known_elr=(1,)
    )
    after = changed(waiting, {1, 2})
    assert (after.leader, after.isr, after.replicas, after.removing_replicas) == (1, (1,), (1,), ())
    assert (after.eligible_leader_replicas, after.leader_recovery_state) == (None, 0)


def test_an_unclean_election_may_complete_a_reassignment() -> None:
    waiting = a_partition(replicas=(1, 2, 3), isr=(3,), leader=-1, removing_replicas=(2, 3))
    after = changed(waiting, {1, 2}, election=Election.UNCLEAN, min_isr=2)
    assert (after.leader, after.isr, after.replicas, after.removing_replicas) == (1, (1,), (1,), ())
    assert (after.eligible_leader_replicas, after.leader_recovery_state) == (None, 1)


def test_the_last_leader_must_still_be_a_replica() -> None:
    """A cancelled reassignment has deleted its log: it would become leader without the records."""
    after = changed(a_partition(replicas=(1, 2), isr=(), leader=-1, last_known_elr=(3,)), {2, 3})
    assert (after.leader, after.isr) == (-1, ())


def test_a_reassignment_is_cancelled() -> None:
    cluster = Cluster((1, 2, 3))
    cluster.put_topic("a", (1, 2))
    cluster.response_to(reassignment((0, (2, 3))))
    assert reassigned(cluster, reassignment((0, None))) == [(ErrorCode.none, None)]
    partition = cluster.partition("a")
    assert (sorted(partition.replicas), partition.adding_replicas, partition.removing_replicas) == ([1, 2], (), ())
    assert reassigned(cluster, reassignment((0, None))) == [(ErrorCode.no_reassignment_in_progress, None)]


def test_refused_reassignments() -> None:
    cluster = Cluster((1, 2))
    cluster.put_topic("a", (1,))
    assert reassigned(cluster, reassignment((9, (1,)), (0, ()), (0, (5,)))) == [
        (ErrorCode.unknown_topic_or_partition, "Unable to find partition a:9."),
        (ErrorCode.invalid_replica_assignment, "The manual partition assignment includes an empty replica list."),
        (
            ErrorCode.invalid_replica_assignment,
            "The manual partition assignment includes broker 5, but no such broker is registered.",
        ),
    ]
    assert reassigned(cluster, reassignment((0, (1, 2)), resize=False)) == [
        (ErrorCode.invalid_replication_factor, "The replication factor is changed from 1 to 2")
    ]
    assert reassigned(cluster, reassignment((0, (1,)), name="none")) == [
        (ErrorCode.unknown_topic_or_partition, "Unable to find a topic named none.")
    ]


def test_a_change_names_only_what_changes() -> None:
    cluster = three_brokers()
    topic = cluster.topic("a")
    request = entity(
        AlterPartitionRequest,
        broker_id=1,
        broker_epoch=cluster.image.brokers[1].broker_epoch,
        topics=(
            entity(
                TopicData,
                topic_id=topic.id,
                partitions=(
                    entity(
                        PartitionData,
                        partition_index=0,
                        leader_epoch=0,
                        partition_epoch=0,
                        new_isr_with_epochs=(entity(BrokerState, broker_id=1),),
                    ),
                ),
            ),
        ),
    )
    assert cluster.records_of(request) == (PartitionChangeRecord(partition_id=0, topic_id=topic.id, isr=(1,)),)
