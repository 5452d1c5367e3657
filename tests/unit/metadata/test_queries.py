"""Queries by clients: Metadata, DescribeCluster, DescribeTopicPartitions, DescribeConfigs, ListConfigResources."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from isthmus_broker.core.metadata import config_queries, queries
from isthmus_broker.core.metadata.queries import View
from isthmus_broker.core.metadata.schema import ConfigRecord
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.requests import MetadataRequest
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_topic_partitions.v0.request import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest
from kio.schema.metadata.v13.request import MetadataRequestTopic

from tests.unit.metadata.cluster import CLUSTER_ID, Cluster, outcome


def view(cluster: Cluster, listener: str = "PLAINTEXT") -> View:
    return View(cluster.image, listener, CLUSTER_ID)


def metadata_request(
    *names: str | None, ids: tuple[UUID, ...] = (), everything: bool = False, **given: Any
) -> MetadataRequest:
    topics = [entity(MetadataRequestTopic, name=name, topic_id=None) for name in names]
    topics += [entity(MetadataRequestTopic, name=None, topic_id=topic_id) for topic_id in ids]
    fields: dict[str, Any] = {"include_topic_authorized_operations": False, **given}
    return entity(MetadataRequest, topics=None if everything else tuple(topics), **fields)


def test_a_broker_fenced_a_moment_ago_is_listed_and_leads_nothing() -> None:
    cluster = Cluster((1,))
    cluster.add_broker(2, fenced=True)
    listed = View(cluster.image, "PLAINTEXT", CLUSTER_ID, frozenset({2}))
    assert [broker.node_id for broker in queries.metadata(listed, metadata_request(), 13).brokers] == [1, 2]
    assert [broker.node_id for broker in queries.metadata(view(cluster), metadata_request(), 13).brokers] == [1]
    assert not listed.alive(2)


def test_the_whole_cluster() -> None:
    cluster = Cluster((1, 2))
    cluster.add_broker(3, rack="eu-west/a", fenced=True)
    topic = cluster.put_topic("__consumer_offsets", (1, 3), isr=(1,))
    response = queries.metadata(view(cluster), metadata_request(everything=True), 13)
    assert [(b.node_id, b.host, b.port, b.rack) for b in response.brokers] == [
        (1, "host-1", 9092, None),
        (2, "host-2", 9092, None),
    ]
    assert (response.cluster_id, response.controller_id) == (CLUSTER_ID, 1)
    (described,) = response.topics
    assert (described.name, described.topic_id, described.is_internal) == (topic.name, topic.id, True)
    (partition,) = described.partitions
    assert (partition.leader_id, partition.leader_epoch, partition.error_code) == (1, 0, ErrorCode.none)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ((1, 3), (1,), (3,))


def test_named_topics_and_those_that_are_missing() -> None:
    cluster = Cluster()
    cluster.put_topic("a", (1,))
    request = metadata_request("a", "none", "no ne", "made", "a")
    assert queries.missing_topics(cluster.image, request) == ("none", "no ne", "made")
    response = queries.metadata(view(cluster), request, 13, {"made": ErrorCode.leader_not_available})
    assert [(t.name, t.error_code) for t in response.topics] == [
        ("a", ErrorCode.none),
        ("none", ErrorCode.unknown_topic_or_partition),
        ("no ne", ErrorCode.invalid_topic_exception),
        ("made", ErrorCode.leader_not_available),
    ]


def test_topics_by_id() -> None:
    cluster = Cluster()
    topic = cluster.put_topic("a", (1,))
    unknown = UUID(int=1)
    response = queries.metadata(view(cluster), metadata_request(ids=(topic.id, unknown)), 13)
    assert {(t.name, t.topic_id, t.error_code) for t in response.topics} == {
        ("a", topic.id, ErrorCode.none),
        (None, unknown, ErrorCode.unknown_topic_id),
    }


def test_before_version_12_topics_have_names() -> None:
    response = queries.metadata(view(Cluster()), metadata_request(ids=(UUID(int=1),)), 11)
    assert [(t.name, t.error_code) for t in response.topics] == [("", ErrorCode.invalid_request)]


def test_an_empty_list_is_everything_in_version_0_only() -> None:
    cluster = Cluster()
    cluster.put_topic("a", (1,))
    assert [t.name for t in queries.metadata(view(cluster), metadata_request(), 0).topics] == ["a"]
    assert queries.metadata(view(cluster), metadata_request(), 1).topics == ()


@pytest.mark.parametrize(
    ("listener", "version", "code"),
    [
        ("PLAINTEXT", 13, ErrorCode.none),
        ("OTHER", 13, ErrorCode.listener_not_found),
        ("OTHER", 5, ErrorCode.leader_not_available),
    ],
)
def test_a_leader_without_the_listener(listener: str, version: int, code: ErrorCode) -> None:
    cluster = Cluster()
    cluster.put_topic("a", (1,))
    (topic,) = queries.metadata(view(cluster, listener), metadata_request("a"), version).topics
    assert topic.partitions[0].error_code is code


def test_no_leader() -> None:
    cluster = Cluster()
    cluster.put_topic("a", (1,), leader=-1)
    (topic,) = queries.metadata(view(cluster), metadata_request("a"), 13).topics
    assert (topic.partitions[0].error_code, topic.partitions[0].leader_id) == (ErrorCode.leader_not_available, -1)


def test_version_0_hides_replicas_that_are_not_alive() -> None:
    cluster = Cluster((1, 2))
    cluster.put_topic("a", (1, 2))
    cluster.append([replace(cluster.image.brokers[2], fenced=True)])
    (topic,) = queries.metadata(view(cluster), metadata_request("a"), 0).topics
    partition = topic.partitions[0]
    assert (partition.error_code, partition.replica_nodes) == (ErrorCode.replica_not_available, (1,))


def test_all_operations_are_authorized_and_listed_on_request() -> None:
    cluster = Cluster()
    cluster.put_topic("a", (1,))
    (topic,) = queries.metadata(
        view(cluster), metadata_request("a", include_topic_authorized_operations=True), 13
    ).topics
    assert topic.topic_authorized_operations == 3576
    (topic,) = queries.metadata(view(cluster), metadata_request("a"), 13).topics
    assert topic.topic_authorized_operations == -(1 << 31)


def describing(endpoint: int = 1, *, fenced: bool = False, operations: bool = False) -> DescribeClusterRequest:
    return entity(
        DescribeClusterRequest,
        include_cluster_authorized_operations=operations,
        endpoint_type=endpoint,
        include_fenced_brokers=fenced,
    )


def test_describing_the_cluster() -> None:
    cluster = Cluster((1,))
    cluster.add_broker(2, fenced=True)
    response = queries.describe_cluster(view(cluster), describing(), 2)
    assert [b.broker_id for b in response.brokers] == [1]
    assert response.cluster_authorized_operations == -(1 << 31)
    response = queries.describe_cluster(view(cluster), describing(fenced=True, operations=True), 2)
    assert [(b.broker_id, b.is_fenced) for b in response.brokers] == [(1, False), (2, True)]
    assert response.cluster_authorized_operations == 8096
    wrong = queries.describe_cluster(view(cluster), describing(2), 1)
    assert wrong.error_code is ErrorCode.mismatched_endpoint_type
    assert queries.describe_cluster(view(cluster), describing(9), 1).error_code is ErrorCode.unsupported_endpoint_type
    assert queries.describe_cluster(view(cluster), describing(9), 0).error_code is ErrorCode.invalid_request


def page(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> DescribeTopicPartitionsRequest:
    return entity(
        DescribeTopicPartitionsRequest,
        topics=tuple(entity(TopicRequest, name=name) for name in names),
        response_partition_limit=limit,
        cursor=None if cursor is None else entity(Cursor, topic_name=cursor[0], partition_index=cursor[1]),
    )


def paged(cluster: Cluster, request: DescribeTopicPartitionsRequest, most: int = 2000) -> Any:
    response = queries.describe_topic_partitions(view(cluster), request, most)
    found = [(t.name, [p.partition_index for p in t.partitions]) for t in response.topics]
    following = response.next_cursor
    return found, None if following is None else (following.topic_name, following.partition_index)


def test_partitions_page_by_page() -> None:
    cluster = Cluster()
    cluster.put_topic("b", (1,), 3)
    cluster.put_topic("a", (1,), 2)
    assert paged(cluster, page()) == ([("a", [0, 1]), ("b", [0, 1, 2])], None)
    assert paged(cluster, page(limit=2)) == ([("a", [0, 1])], ("b", 0))
    assert paged(cluster, page(), most=3) == ([("a", [0, 1]), ("b", [0])], ("b", 1))
    assert paged(cluster, page(cursor=("b", 1))) == ([("b", [1, 2])], None)
    assert paged(cluster, page("b", "a", "b", limit=0)) == ([("a", [0])], ("a", 1))
    assert paged(cluster, page(cursor=("a", 30))) == ([("a", []), ("b", [0, 1, 2])], None)


def test_partitions_of_topics_that_are_not_there() -> None:
    cluster = Cluster()
    response = queries.describe_topic_partitions(view(cluster), page("none", "no ne"), 10)
    assert [(t.name, t.error_code) for t in response.topics] == [
        ("no ne", ErrorCode.invalid_topic_exception),
        ("none", ErrorCode.unknown_topic_or_partition),
    ]
    for request in (page("a", cursor=("b", 0)), page("a", cursor=("a", -1))):
        response = queries.describe_topic_partitions(view(cluster), request, 10)
        assert [(t.name, t.error_code) for t in response.topics] == [("a", ErrorCode.invalid_request)]


def configs(*resources: tuple[int, str], keys: tuple[str, ...] | None = None, **given: Any) -> DescribeConfigsRequest:
    return entity(
        DescribeConfigsRequest,
        resources=tuple(
            entity(DescribeConfigsResource, resource_type=kind, resource_name=name, configuration_keys=keys)
            for kind, name in resources
        ),
        **given,
    )


def test_configs_of_a_topic() -> None:
    cluster = Cluster()
    cluster.put_topic("a", (1,))
    cluster.append([ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value="5")])
    request = configs((2, "a"), keys=("retention.ms", "zzz"), include_synonyms=True, include_documentation=True)
    (result,) = config_queries.describe_configs(cluster.image, request, cluster.context.node).results
    assert outcome(result) == (ErrorCode.none, "")
    (entry,) = result.configs
    assert (entry.name, entry.value, entry.config_source, entry.config_type) == ("retention.ms", "5", 1, 5)
    assert [(s.name, s.value, s.source) for s in entry.synonyms] == [("retention.ms", "5", 1)]
    assert entry.documentation == "The age beyond which segments are deleted; -1 for no limit."
    (result,) = config_queries.describe_configs(cluster.image, configs((2, "a")), cluster.context.node).results
    assert len(result.configs) == 33
    assert all(entry.synonyms == () and entry.documentation is None for entry in result.configs)


def test_configs_that_cannot_be_described() -> None:
    cluster = Cluster()
    asked = [(2, "none"), (2, "no ne"), (4, "5"), (4, "x"), (8, ""), (8, "5"), (16, ""), (32, "")]
    response = config_queries.describe_configs(cluster.image, configs(*asked), cluster.context.node)
    assert [outcome(result) for result in response.results] == [
        (ErrorCode.unknown_topic_or_partition, ""),
        (
            ErrorCode.invalid_topic_exception,
            (
                "Topic name is invalid: 'no ne' contains one or more characters other than "
                "ASCII alphanumerics, '.', '_' and '-'"
            ),
        ),
        (ErrorCode.invalid_request, "Unexpected broker id, expected 1 or empty string, but received 5"),
        (ErrorCode.invalid_request, "Broker id must be an integer, but it is: x"),
        (ErrorCode.invalid_request, "Broker id must not be empty"),
        (ErrorCode.invalid_request, "Unexpected broker id, expected 1 but received 5"),
        (ErrorCode.invalid_request, "Client metrics subscription name must not be empty"),
        (ErrorCode.invalid_request, "Group name must not be empty"),
    ]


def test_an_unknown_type_fails_the_whole_request() -> None:
    cluster = Cluster()
    response = config_queries.describe_configs(cluster.image, configs((4, "1"), (3, "x")), cluster.context.node)
    assert [result.error_code for result in response.results] == [ErrorCode.invalid_request] * 2


def listed(cluster: Cluster, *types: int, version: int = 1) -> Any:
    request = entity(ListConfigResourcesRequest, resource_types=types)
    response = config_queries.list_config_resources(cluster.image, request, version)
    return response.error_code, [(r.resource_type, r.resource_name) for r in response.config_resources]


def test_resources_with_configs() -> None:
    cluster = Cluster()
    cluster.put_topic("a", (1,))
    for kind, name in ((32, "g"), (16, "m")):
        cluster.append([ConfigRecord(resource_type=kind, resource_name=name, name="x", value="1")])
    everything = [(32, "g"), (16, "m"), (8, "1"), (4, "1"), (2, "a")]
    assert listed(cluster) == (ErrorCode.none, everything)
    assert listed(cluster, 2, 32) == (ErrorCode.none, [(32, "g"), (2, "a")])
    assert listed(cluster, 3) == (ErrorCode.unsupported_version, [])
    assert listed(cluster, version=0) == (ErrorCode.none, [(16, "m")])
