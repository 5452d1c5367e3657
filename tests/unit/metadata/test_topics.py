"""Creating topics, adding partitions, deleting: outcomes and messages equal Apache Kafka's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from isthmus_broker.core.metadata.schema import ClearElrRecord, ConfigRecord, PartitionRecord, TopicRecord
from isthmus_model.config_resources import ResourceType
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from isthmus_wire.requests import DeleteTopicsRequest
from kio.schema.create_partitions.v3.request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kio.schema.create_topics.v7.request import CreatableTopic
from kio.schema.delete_topics.v6.request import DeleteTopicState

from tests.unit.metadata.cluster import Cluster, creation, directory, new_topic, outcome


def create_one(cluster: Cluster, topic: CreatableTopic) -> Any:
    (result,) = cluster.response_to(creation(topic)).topics
    return result


def test_a_topic_is_created_with_its_settings_before_its_partitions() -> None:
    cluster = Cluster()
    request = creation(new_topic("a", 2, configs={"retention.ms": "5", "min.insync.replicas": "1"}))
    records = cluster.records_of(request)
    kinds = [type(record) for record in records]
    assert kinds == [TopicRecord, ConfigRecord, ConfigRecord, ClearElrRecord, PartitionRecord, PartitionRecord]
    (result,) = cluster.response_to(request).topics
    assert outcome(result) == (ErrorCode.none, None)
    assert (result.num_partitions, result.replication_factor) == (2, 1)
    assert result.topic_id == cluster.topic("a").id
    assert cluster.image.config(ResourceType.TOPIC, "a") == {"retention.ms": "5", "min.insync.replicas": "1"}
    assert cluster.partition("a", 1) == PartitionRecord(
        partition_id=1,
        topic_id=cluster.topic("a").id,
        replicas=(1,),
        isr=(1,),
        removing_replicas=(),
        adding_replicas=(),
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=(directory(1),),
    )


def test_the_response_has_every_setting_and_its_source() -> None:
    cluster = Cluster(log_retention_hours="2")
    result = create_one(cluster, new_topic("a", configs={"segment.ms": " 7 "}))
    entries = {entry.name: entry for entry in result.configs}
    assert len(entries) == 33
    assert list(entries) == sorted(entries)
    assert (entries["segment.ms"].value, entries["segment.ms"].config_source) == (" 7 ", 1)
    assert (entries["retention.ms"].value, entries["retention.ms"].config_source) == ("7200000", 4)
    assert (entries["min.insync.replicas"].value, entries["min.insync.replicas"].config_source) == ("1", 3)
    assert (entries["segment.bytes"].value, entries["segment.bytes"].config_source) == ("1073741824", 5)


def test_defaults_of_the_controller() -> None:
    cluster = Cluster((1, 2, 3), num_partitions="4", default_replication_factor="2")
    result = create_one(cluster, new_topic("a", -1, -1))
    assert (result.num_partitions, result.replication_factor) == (4, 2)


def test_validation_only_makes_nothing() -> None:
    cluster = Cluster()
    (result,) = cluster.response_to(creation(new_topic("a"), validate_only=True)).topics
    assert result.error_code is ErrorCode.none
    assert cluster.image.topics.ids == {}


INVALID = "Topic name is invalid: "


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (new_topic("known"), ErrorCode.topic_already_exists, "Topic 'known' already exists."),
        (new_topic(""), ErrorCode.invalid_topic_exception, INVALID + "the empty string is not allowed"),
        (new_topic(".."), ErrorCode.invalid_topic_exception, INVALID + "'..' is not allowed"),
        (
            new_topic("x" * 250),
            ErrorCode.invalid_topic_exception,
            INVALID + f"the length of '{'x' * 250}' is longer than the max allowed length 249",
        ),
        (
            new_topic("a b"),
            ErrorCode.invalid_topic_exception,
            INVALID + "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
        ),
        (
            new_topic("with_dot"),
            ErrorCode.invalid_topic_exception,
            "Topic 'with_dot' collides with existing topic: with.dot",
        ),
        (
            new_topic("__cluster_metadata"),
            ErrorCode.invalid_request,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        (
            new_topic("t", 1, 0),
            ErrorCode.invalid_replication_factor,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            new_topic("t", 0),
            ErrorCode.invalid_partitions,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            new_topic("t", 1, 2),
            ErrorCode.invalid_replication_factor,
            (
                "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because "
                "only 1 broker(s) are registered or some brokers have all their log directories cordoned."
            ),
        ),
        (
            new_topic("t", assignments=[(0, [1]), (0, [1])]),
            ErrorCode.invalid_replica_assignment,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            new_topic("t", assignments={1: [1]}),
            ErrorCode.invalid_replica_assignment,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            new_topic("t", assignments={0: []}),
            ErrorCode.invalid_replica_assignment,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            new_topic("t", assignments={0: [5]}),
            ErrorCode.invalid_replica_assignment,
            "The manual partition assignment includes broker 5, but no such broker is registered.",
        ),
        (
            new_topic("t", assignments={0: [1, 1]}),
            ErrorCode.invalid_replica_assignment,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (new_topic("t", configs={"nope": "1"}), ErrorCode.invalid_config, "Unknown topic config name: nope"),
        (
            new_topic("t", configs={"retention.ms": None}),
            ErrorCode.invalid_config,
            "Null value not supported for topic configs: retention.ms",
        ),
    ],
)
def test_refused_topics(topic: CreatableTopic, code: ErrorCode, message: str) -> None:
    cluster = Cluster()
    cluster.put_topic("known", (1,))
    cluster.put_topic("with.dot", (1,))
    assert outcome(create_one(cluster, topic)) == (code, message)
    assert sorted(cluster.image.topics.ids) == ["known", "with.dot"]


def test_a_manual_assignment_excludes_counts() -> None:
    mixed = creation(
        entity(CreatableTopic, **{**fields_of(new_topic("t", assignments={0: [1]})), "replication_factor": 1}),
        entity(CreatableTopic, **{**fields_of(new_topic("u", assignments={0: [1]})), "num_partitions": 1}),
    )
    assert [outcome(result) for result in Cluster().response_to(mixed).topics] == [
        (
            ErrorCode.invalid_request,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (
            ErrorCode.invalid_request,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
    ]


def fields_of(topic: CreatableTopic) -> dict[str, Any]:
    return {name: getattr(topic, name) for name in topic.__slots__}


def test_partitions_of_one_topic_have_equally_many_replicas() -> None:
    result = create_one(Cluster((1, 2)), new_topic("t", assignments={0: [1], 1: [1, 2]}))
    assert outcome(result) == (
        ErrorCode.invalid_replica_assignment,
        (
            "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent with "
            "previous partitions, which have 1 replica(s)."
        ),
    )


def test_a_fenced_broker_is_a_replica_but_not_in_sync() -> None:
    cluster = Cluster()
    cluster.add_broker(2, fenced=True)
    create_one(cluster, new_topic("t", assignments={0: [2, 1]}))
    partition = cluster.partition("t")
    assert (partition.replicas, partition.isr, partition.leader) == ((2, 1), (1,), 1)
    refused = create_one(cluster, new_topic("u", assignments={0: [2]}))
    assert outcome(refused) == (
        ErrorCode.invalid_replica_assignment,
        "All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled shutdown.",
    )


def test_without_a_broker_that_serves_nothing_is_created() -> None:
    cluster = Cluster(())
    cluster.add_broker(1, fenced=True)
    assert outcome(create_one(cluster, new_topic("t"))) == (
        ErrorCode.invalid_replication_factor,
        (
            "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log "
            "directories cordoned."
        ),
    )


def test_a_name_that_is_given_twice_is_not_created() -> None:
    cluster = Cluster()
    results = cluster.response_to(creation(new_topic("d"), new_topic("x"), new_topic("d", 2))).topics
    assert [(result.name, outcome(result)) for result in results] == [
        ("x", (ErrorCode.none, None)),
        ("d", (ErrorCode.invalid_request, "Duplicate topic name.")),
    ]


def test_too_many_partitions_refuse_the_whole_request() -> None:
    cluster = Cluster()
    results = cluster.response_to(creation(new_topic("a", 6000), new_topic("b", 4001))).topics
    refused = (ErrorCode.policy_violation, "Excessively large number of partitions per request.")
    assert [outcome(result) for result in results] == [refused, refused]
    assert cluster.image.topics.ids == {}


def addition(*topics: tuple[str, int, Sequence[Sequence[int]] | None], validate_only: bool = False) -> Any:
    return entity(
        CreatePartitionsRequest,
        topics=tuple(
            entity(
                CreatePartitionsTopic,
                name=name,
                count=count,
                assignments=None
                if assignments is None
                else tuple(entity(CreatePartitionsAssignment, broker_ids=tuple(ids)) for ids in assignments),
            )
            for name, count, assignments in topics
        ),
        timeout=NO_THROTTLE,
        validate_only=validate_only,
    )


def test_partitions_are_added() -> None:
    cluster = Cluster()
    cluster.put_topic("a", (1,))
    cluster.put_topic("b", (1,))
    results = cluster.response_to(addition(("a", 3, None), ("b", 2, [[1]]))).results
    assert [(result.name, outcome(result)) for result in results] == [
        ("a", (ErrorCode.none, None)),
        ("b", (ErrorCode.none, None)),
    ]
    assert (len(cluster.topic("a").partitions), len(cluster.topic("b").partitions)) == (3, 2)
    cluster.response_to(addition(("a", 9, None), validate_only=True))
    assert len(cluster.topic("a").partitions) == 3


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (("none", 2, None), ErrorCode.unknown_topic_or_partition, None),
        (("a", 2, None), ErrorCode.invalid_partitions, "Topic already has 2 partition(s)."),
        (
            ("a", 1, None),
            ErrorCode.invalid_partitions,
            "The topic a currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            ("a", 4, [[1]]),
            ErrorCode.invalid_replica_assignment,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            ("a", 3, [[7]]),
            ErrorCode.invalid_replica_assignment,
            "The manual partition assignment includes broker 7, but no such broker is registered.",
        ),
        (("a", 20_000, None), ErrorCode.policy_violation, "Excessively large number of partitions per request."),
    ],
)
def test_refused_additions(topic: tuple[str, int, Any], code: ErrorCode, message: str | None) -> None:
    cluster = Cluster()
    cluster.put_topic("a", (1,), 2)
    (result,) = cluster.response_to(addition(topic)).results
    assert outcome(result) == (code, message)
    assert len(cluster.topic("a").partitions) == 2


def deletion(*topics: tuple[str | None, UUID | None], names: Sequence[str] = ()) -> DeleteTopicsRequest:
    return entity(
        DeleteTopicsRequest,
        topics=tuple(entity(DeleteTopicState, name=name, topic_id=topic_id) for name, topic_id in topics),
        topic_names=tuple(names),
        timeout=NO_THROTTLE,
    )


def test_topics_are_deleted_by_name_and_by_id() -> None:
    cluster = Cluster()
    a, b, c = (cluster.put_topic(name, (1,)).id for name in "abc")
    response = cluster.response_to(deletion((None, a), ("b", None)))
    assert {(r.name, r.topic_id, *outcome(r)) for r in response.responses} == {
        ("a", a, ErrorCode.none, None),
        ("b", b, ErrorCode.none, None),
    }
    assert dict(cluster.image.topics.ids) == {"c": c}
    cluster.response_to(deletion(names=["c"]))
    assert cluster.image.topics.ids == {}


def test_what_cannot_be_deleted() -> None:
    cluster = Cluster()
    a, b = (cluster.put_topic(name, (1,)).id for name in "ab")
    other = UUID(int=3)
    request = deletion(
        ("a", None), (None, a), ("none", None), (None, other), ("b", b), (None, None), ("x", None), ("x", None)
    )
    responses = cluster.response_to(request).responses
    assert {(r.name, r.topic_id, *outcome(r)) for r in responses} == {
        (
            "a",
            a,
            ErrorCode.invalid_request,
            "The provided topic name maps to an ID that was already supplied.",
        ),
        (
            "none",
            None,
            ErrorCode.unknown_topic_or_partition,
            "This server does not host this topic-partition.",
        ),
        (None, other, ErrorCode.unknown_topic_id, "This server does not host this topic ID."),
        ("b", b, ErrorCode.invalid_request, "You may not specify both topic name and topic id."),
        (None, None, ErrorCode.invalid_request, "Neither topic name nor id were specified."),
        ("x", None, ErrorCode.invalid_request, "Duplicate topic name."),
    }
    assert sorted(cluster.image.topics.ids) == ["a", "b"]


def test_deletion_can_be_turned_off() -> None:
    cluster = Cluster(delete_topic_enable="false")
    cluster.put_topic("a", (1,))
    (response,) = cluster.response_to(deletion(("a", None))).responses
    assert response.error_code is ErrorCode.topic_deletion_disabled
    assert "a" in cluster.image.topics.ids
