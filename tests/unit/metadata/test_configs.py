"""Changing configurations: outcomes and messages equal Apache Kafka's."""

from __future__ import annotations

from typing import Any

import pytest
from isthmus_broker.core.metadata.image import DEFAULT_BROKER, Resource
from isthmus_broker.core.metadata.schema import ClearElrRecord, ConfigRecord
from isthmus_model.config_resources import ResourceType
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from kio.schema.alter_configs.v2 import request as whole
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from tests.unit.metadata.cluster import Cluster, outcome

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, GROUP, METRICS = 2, 4, 32, 16
OK = (ErrorCode.none, None)
Ops = list[tuple[str, int, str | None]]


def operations(*resources: tuple[int, str, Ops], validate_only: bool = False) -> IncrementalAlterConfigsRequest:
    return entity(
        IncrementalAlterConfigsRequest,
        resources=tuple(
            entity(
                AlterConfigsResource,
                resource_type=kind,
                resource_name=name,
                configs=tuple(entity(AlterableConfig, name=n, config_operation=o, value=v) for n, o, v in ops),
            )
            for kind, name, ops in resources
        ),
        validate_only=validate_only,
    )


def replacement(*resources: tuple[int, str, dict[str, str | None]]) -> whole.AlterConfigsRequest:
    return entity(
        whole.AlterConfigsRequest,
        resources=tuple(
            entity(
                whole.AlterConfigsResource,
                resource_type=kind,
                resource_name=name,
                configs=tuple(entity(whole.AlterableConfig, name=n, value=v) for n, v in settings.items()),
            )
            for kind, name, settings in resources
        ),
        validate_only=False,
    )


def cluster_with_topic() -> Cluster:
    cluster = Cluster()
    cluster.put_topic("a", (1,))
    return cluster


def outcomes(cluster: Cluster, request: Any) -> list[tuple[ErrorCode, str | None]]:
    return [outcome(response) for response in cluster.response_to(request).responses]


def test_operations_on_a_topic() -> None:
    cluster = cluster_with_topic()
    ops: Ops = [("retention.ms", SET, "5"), ("cleanup.policy", APPEND, "compact")]
    assert outcomes(cluster, operations((TOPIC, "a", ops))) == [OK]
    assert cluster.image.config(TOPIC, "a") == {"retention.ms": "5", "cleanup.policy": "delete,compact"}
    ops = [("retention.ms", DELETE, None), ("cleanup.policy", SUBTRACT, "delete,none")]
    assert outcomes(cluster, operations((TOPIC, "a", ops))) == [OK]
    assert cluster.image.config(TOPIC, "a") == {"cleanup.policy": "compact"}


def test_a_value_that_stays_the_same_is_written_only_for_brokers() -> None:
    cluster = cluster_with_topic()
    request = operations((TOPIC, "a", [("retention.ms", SET, "5")]), (BROKER, "1", [("message.max.bytes", SET, "9")]))
    cluster.response_to(request)
    assert cluster.records_of(request) == (
        ConfigRecord(resource_type=4, resource_name="1", name="message.max.bytes", value="9"),
    )


def test_another_min_isr_clears_eligible_leaders() -> None:
    cluster = cluster_with_topic()
    records = cluster.records_of(
        operations((TOPIC, "a", [("min.insync.replicas", SET, "2")]), (BROKER, "", [("min.insync.replicas", SET, "2")]))
    )
    assert records[2:] == (ClearElrRecord(topic_name="a"), ClearElrRecord(topic_name=""))


def test_validation_only_changes_nothing() -> None:
    cluster = cluster_with_topic()
    assert outcomes(cluster, operations((TOPIC, "a", [("retention.ms", SET, "5")]), validate_only=True)) == [OK]
    assert cluster.image.config(TOPIC, "a") == {}


@pytest.mark.parametrize(
    ("resource", "code", "message"),
    [
        (
            (TOPIC, "a", [("retention.ms", APPEND, "1")]),
            ErrorCode.invalid_config,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        ((TOPIC, "a", [("zzz", SET, "1")]), ErrorCode.invalid_config, "Unknown topic config name: zzz"),
        ((TOPIC, "a", [("zzz", DELETE, None)]), *OK),
        (
            (TOPIC, "a", [("retention.ms", SET, "1"), ("retention.ms", SET, "2")]),
            ErrorCode.invalid_request,
            "Error due to duplicate config keys",
        ),
        (
            (TOPIC, "a", [("retention.ms", SET, None), ("segment.ms", SET, None)]),
            ErrorCode.invalid_request,
            "Null value not supported for : retention.ms, segment.ms",
        ),
        (
            (TOPIC, "none", [("retention.ms", SET, "1")]),
            ErrorCode.unknown_topic_or_partition,
            "The topic 'none' does not exist.",
        ),
        (
            (TOPIC, "", [("retention.ms", SET, "1")]),
            ErrorCode.invalid_request,
            "Default topic resources are not allowed.",
        ),
        ((TOPIC, "a", [("retention.ms", 9, "1")]), ErrorCode.unknown_server_error, None),
        ((3, "a", [("retention.ms", SET, "1")]), ErrorCode.invalid_request, "Unknown resource type 3"),
        (
            (TOPIC, "a", [("cleanup.policy", APPEND, "x" * 40_000)]),
            ErrorCode.invalid_config,
            "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.",
        ),
        (
            (BROKER, "1", [("node.id", SET, "5")]),
            ErrorCode.invalid_request,
            "Cannot update these configs dynamically: [node.id]",
        ),
        (
            (BROKER, "", [("listeners", SET, "PLAINTEXT://:1")]),
            ErrorCode.invalid_request,
            "Cannot update these configs at default cluster level, broker id must be specified: [listeners]",
        ),
        (
            (BROKER, "1", [("ssl.keystore.location", SET, "x")]),
            ErrorCode.invalid_request,
            (
                "These security configs can be dynamically updated only per-listener using the listener prefix: "
                "[ssl.keystore.location]"
            ),
        ),
        (
            (BROKER, "1", [("message.max.bytes", SET, "-1")]),
            ErrorCode.invalid_request,
            "Invalid value -1 for configuration message.max.bytes: Value must be at least 0",
        ),
        (
            (BROKER, "1", [("log.retention.ms", SET, "0")]),
            ErrorCode.invalid_request,
            "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
        ),
        ((BROKER, "1", [("unknown.key", SET, "1")]), *OK),
        ((BROKER, "1", [("unknown.key", APPEND, "1")]), ErrorCode.invalid_config, "Unknown config name: unknown.key"),
        (
            (BROKER, "1", [("message.max.bytes", APPEND, "1")]),
            ErrorCode.invalid_config,
            "Config value append is not allowed for config key: message.max.bytes",
        ),
        ((BROKER, "1", [("message.max.bytes", 9, "1")]), ErrorCode.invalid_request, "Unknown operations type 9"),
        (
            (BROKER, "1", [("min.insync.replicas", SET, "2")]),
            ErrorCode.invalid_config,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        ),
        (
            (BROKER, "", [("min.insync.replicas", DELETE, None)]),
            ErrorCode.invalid_config,
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        ),
        (
            (BROKER, "5", [("message.max.bytes", SET, "5")]),
            ErrorCode.invalid_request,
            "Unexpected broker id, expected 1, but received 5",
        ),
        (
            (BROKER, "x", [("message.max.bytes", SET, "5")]),
            ErrorCode.invalid_request,
            "Node id must be an integer, but it is: x",
        ),
        ((BROKER, "", [("leader.replication.throttled.rate", SET, "5")]), *OK),
        ((GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")]), *OK),
        (
            (GROUP, "", [("consumer.session.timeout.ms", SET, "50000")]),
            ErrorCode.invalid_request,
            "Default group resources are not allowed.",
        ),
        ((GROUP, "g", [("zzz", SET, "1")]), ErrorCode.invalid_config, "Unknown group config name: zzz"),
        ((METRICS, "m", [("interval.ms", SET, "1000")]), *OK),
        (
            (METRICS, "m", [("interval.ms", SET, "1")]),
            ErrorCode.invalid_request,
            "Invalid value 1 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        (
            (METRICS, "m", [("match", SET, "zz=a")]),
            ErrorCode.invalid_config,
            "Illegal client matching pattern: zz=a",
        ),
        (
            (METRICS, "m", [("zzz", SET, "1")]),
            ErrorCode.invalid_request,
            "Unknown client metrics configuration: zzz",
        ),
        (
            (METRICS, "", [("interval.ms", SET, "1000")]),
            ErrorCode.invalid_request,
            "Subscription name can't be empty",
        ),
    ],
)
def test_outcomes(resource: tuple[int, str, Ops], code: ErrorCode, message: str | None) -> None:
    assert outcomes(cluster_with_topic(), operations(resource)) == [(code, message)]


def test_one_resource_does_not_hold_up_another() -> None:
    cluster = cluster_with_topic()
    good: Ops = [("retention.ms", SET, "5")]
    results = outcomes(cluster, operations((TOPIC, "none", good), (TOPIC, "a", good)))
    assert [code for code, _ in results] == [ErrorCode.unknown_topic_or_partition, ErrorCode.none]
    assert cluster.image.config(TOPIC, "a") == {"retention.ms": "5"}


def test_a_resource_may_appear_once() -> None:
    cluster = cluster_with_topic()
    request = operations((TOPIC, "a", [("retention.ms", SET, "1")]), (TOPIC, "a", [("segment.ms", SET, "1")]))
    refused = (ErrorCode.invalid_request, "Each resource must appear at most once.")
    assert outcomes(cluster, request) == [refused, refused]


def test_the_old_way_replaces_everything() -> None:
    cluster = cluster_with_topic()
    cluster.response_to(operations((TOPIC, "a", [("retention.ms", SET, "5"), ("segment.ms", SET, "6")])))
    assert outcomes(cluster, replacement((TOPIC, "a", {"segment.ms": "7"}))) == [OK]
    assert cluster.image.config(TOPIC, "a") == {"segment.ms": "7"}
    assert outcomes(cluster, replacement((BROKER, "", {}))) == [
        (ErrorCode.invalid_config, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
    ]
    assert outcomes(cluster, replacement((8, "1", {"x": "INFO"}))) == [
        (ErrorCode.invalid_request, "Unknown resource type 8")
    ]


def test_settings_without_eligible_leaders_are_free() -> None:
    cluster = Cluster(elr=False)
    request = operations(
        (BROKER, "1", [("min.insync.replicas", SET, "2")]), (BROKER, "", [("min.insync.replicas", DELETE, None)])
    )
    assert outcomes(cluster, request) == [OK, OK]
    assert DEFAULT_BROKER not in cluster.image.configs
    assert cluster.image.configs[Resource(ResourceType.BROKER, "1")] == {"min.insync.replicas": "2"}
