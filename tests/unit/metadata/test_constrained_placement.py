"""Topics with placement constraints: placement, observers, and the effects of a change of the constraints."""

import json
from collections import Counter
from typing import Any

import pytest
from isthmus_broker.core.metadata.auto_placement import (
    CHANGES_MAX,
    balance_leaders,
    release_observers,
    satisfy_constraints,
)
from isthmus_broker.core.metadata.brokers import fence_dead_broker
from isthmus_model.config_resources import ResourceType
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.alter_partition.v3.request import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from kio.schema.alter_partition_reassignments.v1.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from tests.unit.metadata.cluster import Cluster, creation, new_topic, outcome

KEY = "isthmus.placement.constraints"


def shares(**racks: int) -> list[dict[str, Any]]:
    return [{"count": count, "constraints": {"rack": rack}} for rack, count in racks.items()]


def constraints(replicas: dict[str, int], observers: dict[str, int] | None = None, policy: str | None = None) -> str:
    given: dict[str, Any] = {"version": 1, "replicas": shares(**replicas), "observers": shares(**(observers or {}))}
    if policy is not None:
        given |= {"version": 2, "observerPromotionPolicy": policy}
    return json.dumps(given)


WEST_EAST = constraints({"west": 2}, {"east": 2}, "under-min-isr")


def two_regions(**static: str) -> Cluster:
    """Brokers 1 to 3 in the west, 4 to 6 in the east."""
    cluster = Cluster((), elr=True, **static)
    for broker_id in range(1, 7):
        cluster.add_broker(broker_id, rack="west" if broker_id <= 3 else "east")
    return cluster


def create(cluster: Cluster, text: str = WEST_EAST, partitions: int = 1, **configs: str) -> None:
    settings: dict[str, str | None] = {KEY: text, **{key.replace("_", "."): value for key, value in configs.items()}}
    (result,) = cluster.response_to(creation(new_topic("t", partitions, -1, configs=settings))).topics
    assert outcome(result) == (ErrorCode.none, None)


def configure(cluster: Cluster, key: str, value: str) -> None:
    config = entity(AlterableConfig, name=key, config_operation=0, value=value)
    resource = entity(AlterConfigsResource, resource_type=ResourceType.TOPIC, resource_name="t", configs=(config,))
    request = entity(IncrementalAlterConfigsRequest, resources=(resource,), validate_only=False)
    assert outcome(cluster.response_to(request).responses[0])[0] is ErrorCode.none


def propose(cluster: Cluster, *isr: int) -> ErrorCode:
    partition = cluster.partition("t")
    states = tuple(entity(BrokerState, broker_id=replica) for replica in isr)
    data = entity(
        PartitionData,
        partition_index=0,
        leader_epoch=partition.leader_epoch,
        new_isr_with_epochs=states,
        leader_recovery_state=0,
        partition_epoch=partition.partition_epoch,
    )
    leader = cluster.image.brokers[partition.leader]
    topics = (entity(TopicData, topic_id=partition.topic_id, partitions=(data,)),)
    request = entity(AlterPartitionRequest, broker_id=partition.leader, broker_epoch=leader.broker_epoch, topics=topics)
    answer = cluster.response_to(request)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def maintain(cluster: Cluster) -> None:
    cluster.append(satisfy_constraints(cluster.image, cluster.context).records)
    cluster.append(balance_leaders(cluster.image, cluster.context).records)


# -- placing ---------------------------------------------------------------------------------------------------------------------


def test_sync_replicas_come_first_observers_last_and_only_the_former_are_in_sync() -> None:
    cluster = two_regions()
    create(cluster, partitions=12)
    partitions = cluster.topic("t").partitions.values()
    for partition in partitions:
        assert set(partition.replicas[:2]) < {1, 2, 3}
        assert set(partition.replicas[2:]) < {4, 5, 6}
        assert partition.observers == partition.replicas[2:]
        assert set(partition.isr) == set(partition.replicas[:2])
        assert partition.leader in partition.replicas[:2]
    assert Counter(partition.leader for partition in partitions) == {1: 4, 2: 4, 3: 4}
    assert set(Counter(replica for partition in partitions for replica in partition.replicas).values()) == {8}


def test_a_partition_without_observers_has_no_field_for_them() -> None:
    cluster = two_regions()
    create(cluster, constraints({"west": 1, "east": 1}))
    assert cluster.partition("t").observers is None


def test_a_replication_factor_and_constraints_exclude_each_other() -> None:
    cluster = two_regions()
    (result,) = cluster.response_to(creation(new_topic("t", 1, 4, configs={KEY: WEST_EAST}))).topics
    assert result.error_code is ErrorCode.invalid_replication_factor
    assert "set the replication factor to -1" in result.error_message


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{}", ErrorCode.invalid_config),
        (constraints({"west": 4}), ErrorCode.invalid_replication_factor),
        (constraints({"north": 1}), ErrorCode.invalid_replication_factor),
    ],
)
def test_constraints_that_cannot_be_read_or_satisfied(text: str, code: ErrorCode) -> None:
    cluster = two_regions()
    (result,) = cluster.response_to(creation(new_topic("t", 1, -1, configs={KEY: text}))).topics
    assert result.error_code is code
    assert cluster.image.topics.named("t") is None


def test_an_assignment_must_satisfy_the_constraints() -> None:
    cluster = two_regions()
    wrong = new_topic("t", assignments={0: (1, 4, 2, 5)}, configs={KEY: WEST_EAST})
    assert cluster.response_to(creation(wrong)).topics[0].error_code is ErrorCode.invalid_replica_assignment
    right = new_topic("t", assignments={0: (3, 1, 6, 4)}, configs={KEY: WEST_EAST})
    assert cluster.response_to(creation(right)).topics[0].error_code is ErrorCode.none
    assert cluster.partition("t").observers == (6, 4)


def test_topics_without_a_factor_inherit_the_brokers_constraints_and_keep_them() -> None:
    cluster = two_regions(isthmus_log_placement_constraints=WEST_EAST)
    cluster.response_to(creation(new_topic("t", 1, -1), new_topic("u", 1, 3)))
    assert len(cluster.partition("t").observers or ()) == 2
    assert cluster.image.config(ResourceType.TOPIC, "t") == {KEY: WEST_EAST}
    assert cluster.partition("u").observers is None


def test_partitions_added_later_follow_the_constraints() -> None:
    cluster = two_regions()
    create(cluster)
    asked = entity(CreatePartitionsTopic, name="t", count=3, assignments=None)
    cluster.response_to(entity(CreatePartitionsRequest, topics=(asked,), timeout=None, validate_only=False))
    assert [len(p.observers or ()) for p in cluster.topic("t").partitions.values()] == [2, 2, 2]


# -- promotion -------------------------------------------------------------------------------------------------------------------


def fence(cluster: Cluster, *broker_ids: int) -> None:
    for broker_id in broker_ids:
        epoch = cluster.image.brokers[broker_id].broker_epoch
        fencing = fence_dead_broker(cluster.image, cluster.context, cluster.sessions, broker_id, epoch)
        cluster.append(fencing.records)


@pytest.mark.parametrize(
    ("policy", "min_isr", "outcomes"),
    [
        (None, "2", [ErrorCode.ineligible_replica, ErrorCode.ineligible_replica]),
        ("under-min-isr", "2", [ErrorCode.none, ErrorCode.ineligible_replica]),
        ("under-min-isr", "1", [ErrorCode.ineligible_replica, ErrorCode.ineligible_replica]),
        ("under-replicated", "1", [ErrorCode.none, ErrorCode.ineligible_replica]),
        ("leader-is-observer", "2", [ErrorCode.ineligible_replica, ErrorCode.ineligible_replica]),
    ],
)
def test_observers_stand_in_as_the_policy_says(policy: str | None, min_isr: str, outcomes: list[ErrorCode]) -> None:
    cluster = two_regions()
    create(cluster, constraints({"west": 2}, {"east": 2}, policy), min_insync_replicas=min_isr)
    first, second, near, far = cluster.partition("t").replicas
    assert propose(cluster, first, second, near) is ErrorCode.ineligible_replica
    fence(cluster, second)
    assert [propose(cluster, first, near), propose(cluster, first, near, far)] == outcomes


def test_after_an_unclean_election_observers_join_their_like() -> None:
    cluster = two_regions()
    create(cluster, constraints({"west": 2}, {"east": 2}, "leader-is-observer"))
    first, second, near, far = cluster.partition("t").replicas
    fence(cluster, first, second)
    assert cluster.partition("t").leader == -1
    topic = entity(TopicPartitions, topic="t", partitions=(0,))
    cluster.response_to(entity(ElectLeadersRequest, election_type=1, topic_partitions=(topic,), timeout=None))
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (near, (near,))
    assert propose(cluster, near) is ErrorCode.none  # its log is in order now
    assert propose(cluster, near, far) is ErrorCode.none


# -- carrying out changes ----------------------------------------------------------------------------------------------------------


def test_roles_that_are_swapped_change_nothing_on_disk_and_leadership_follows() -> None:
    cluster = two_regions()
    create(cluster)
    before = cluster.partition("t").replicas
    configure(cluster, KEY, constraints({"east": 2}, {"west": 2}, "under-min-isr"))
    maintain(cluster)
    partition = cluster.partition("t")
    assert partition.replicas == (*before[2:], *before[:2])
    assert partition.observers == before[:2]
    assert (partition.adding_replicas, partition.removing_replicas) == ((), ())
    assert partition.isr == before[:2], "members stay until others are in sync"
    assert propose(cluster, *before) is ErrorCode.none
    maintain(cluster)
    assert cluster.partition("t").leader == before[2]
    assert propose(cluster, *before[2:]) is ErrorCode.none


def test_a_change_moves_no_more_than_it_must() -> None:
    cluster = two_regions()
    create(cluster, constraints({"west": 3}))
    configure(cluster, KEY, constraints({"west": 2, "east": 1}))
    maintain(cluster)
    partition = cluster.partition("t")
    assert len(partition.adding_replicas) == len(partition.removing_replicas) == 1
    leader_before = partition.leader
    (new,) = partition.adding_replicas
    assert new in {4, 5, 6}
    propose(cluster, *partition.isr, new)
    after = cluster.partition("t")
    assert set(after.replicas) == (set(partition.replicas) - set(partition.removing_replicas))
    assert len(after.replicas) == 3
    assert after.leader == leader_before
    assert satisfy_constraints(cluster.image, cluster.context).records == ()


def test_a_replica_is_only_removed_when_promoted_observers_are_in_sync() -> None:
    cluster = two_regions()
    create(cluster, constraints({"west": 1}, {"east": 1}))
    west, east = cluster.partition("t").replicas
    configure(cluster, KEY, constraints({"east": 1}))
    maintain(cluster)
    assert cluster.partition("t").removing_replicas == (west,)
    assert cluster.partition("t").leader == west
    propose(cluster, west, east)
    partition = cluster.partition("t")
    assert (partition.replicas, partition.isr, partition.leader, partition.observers) == ((east,), (east,), east, None)


def test_so_many_partitions_move_at_once_and_no_more() -> None:
    cluster = two_regions(isthmus_placement_moves_max="2")
    create(cluster, constraints({"west": 2}), partitions=5)
    configure(cluster, KEY, constraints({"east": 2}))
    maintain(cluster)
    maintain(cluster)
    moving = [p for p in cluster.topic("t").partitions.values() if p.adding_replicas]
    assert len(moving) == 2


def test_constraints_that_cannot_be_satisfied_now_wait() -> None:
    cluster = two_regions()
    create(cluster, constraints({"west": 2}))
    configure(cluster, KEY, constraints({"north": 1}))
    assert satisfy_constraints(cluster.image, cluster.context).records == ()
    cluster.add_broker(7, rack="north")
    maintain(cluster)
    assert cluster.partition("t").adding_replicas == (7,)


def reassign(cluster: Cluster, *replicas: int) -> tuple[ErrorCode, str | None]:
    partition = entity(ReassignablePartition, partition_index=0, replicas=replicas)
    topic = entity(ReassignableTopic, name="t", partitions=(partition,))
    request = entity(AlterPartitionReassignmentsRequest, timeout=NO_THROTTLE, topics=(topic,))
    return outcome(cluster.response_to(request).responses[0].partitions[0])


def test_a_manual_reassignment_must_satisfy_the_constraints() -> None:
    """It was carried out, made sync replicas of what should be observers, and was undone by the controller afterwards."""
    cluster = two_regions()
    create(cluster, constraints({"west": 2}, {"east": 1}))
    before = cluster.partition("t")
    code, message = reassign(cluster, 4, 5, 1)
    assert code is ErrorCode.invalid_replica_assignment
    assert message == (
        "The assignment [4, 5, 1] does not satisfy the topic's placement constraints; observers come last in it."
    )
    assert cluster.partition("t") == before


def test_a_manual_reassignment_chooses_the_observers_as_well() -> None:
    """An observer was replaced by an ordinary replica: the role is a matter of the assignment, not of the broker."""
    cluster = two_regions()
    create(cluster, constraints({"west": 2}, {"east": 1}))
    *synced, observer = cluster.partition("t").replicas
    other = 4 if observer != 4 else 5
    assert reassign(cluster, *synced, other) == (ErrorCode.none, None)
    # No observer is waited for: the reassignment is complete at once.
    partition = cluster.partition("t")
    assert (partition.replicas, partition.observers) == ((*synced, other), (other,))
    assert satisfy_constraints(cluster.image, cluster.context).records == ()


# -- removing constraints ----------------------------------------------------------------------------------------------------------


def release(cluster: Cluster) -> int:
    records = release_observers(cluster.image, cluster.context).records
    cluster.append(records)
    return len(records)


@pytest.mark.parametrize("replaced_by", ["", constraints({"west": 2, "east": 2})])
def test_observers_without_a_constraint_become_ordinary_replicas(replaced_by: str) -> None:
    """They remained observers for good: replicated, but never in sync, and never leaders."""
    cluster = two_regions()
    create(cluster)
    before = cluster.partition("t")
    configure(cluster, KEY, replaced_by)
    release(cluster)
    maintain(cluster)
    partition = cluster.partition("t")
    assert (partition.replicas, partition.isr, partition.leader) == (before.replicas, before.isr, before.leader)
    assert partition.observers is None
    assert propose(cluster, *before.replicas) is ErrorCode.none
    assert cluster.partition("t").isr == before.replicas


def test_observers_under_a_constraint_stay_observers() -> None:
    cluster = two_regions()
    create(cluster)
    cluster.response_to(creation(new_topic("u", assignments={0: (1, 2)})))
    assert release(cluster) == 0


def test_observers_are_released_in_bounded_steps() -> None:
    cluster = two_regions()
    create(cluster, partitions=CHANGES_MAX + 5)
    configure(cluster, KEY, "")
    assert [release(cluster), release(cluster), release(cluster)] == [CHANGES_MAX, 5, 0]


# -- leaders -----------------------------------------------------------------------------------------------------------------------


def test_leaders_are_in_the_region_liked_best_and_come_back_to_it() -> None:
    cluster = two_regions()
    create(cluster, constraints({"west": 2, "east": 1}), partitions=6, isthmus_leader_preference="east,west")
    assert {partition.leader for partition in cluster.topic("t").partitions.values()} <= {4, 5, 6}
    configure(cluster, "isthmus.leader.preference", "west")
    maintain(cluster)
    assert {partition.leader for partition in cluster.topic("t").partitions.values()} <= {1, 2, 3}


def test_the_brokers_preference_counts_for_topics_that_have_none() -> None:
    cluster = two_regions(isthmus_leader_preference="east")
    cluster.response_to(creation(new_topic("t", 6, 6)))
    assert {partition.leader for partition in cluster.topic("t").partitions.values()} <= {4, 5, 6}


def test_an_election_takes_the_best_liked_region_that_is_left() -> None:
    cluster = two_regions(isthmus_leader_preference="north,east")
    cluster.response_to(creation(new_topic("t", assignments={0: (1, 2, 4)})))
    assert cluster.partition("t").leader == 4
    fence(cluster, 4)
    assert cluster.partition("t").leader == 1
