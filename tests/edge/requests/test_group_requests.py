"""Requests of the consumer and streams group protocols are served if the settings and the cluster's features enable them."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from isthmus_broker.core.group.streams.configured import Status
from isthmus_broker.core.group.streams.member import StreamsMember
from isthmus_broker.core.group.streams.records import TopicInfo
from isthmus_broker.core.group.streams.responses import TopicsToCreate, heartbeat_response
from isthmus_broker.edge.requests import (
    api_68_consumer_group_heartbeat,
    api_69_consumer_group_describe,
    api_88_streams_group_heartbeat,
    api_89_streams_group_describe,
)
from isthmus_broker.edge.requests.services import Services
from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import decode_response, encode_request, highest_version
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.streams_group_describe.v0.request import StreamsGroupDescribeRequest

from tests.edge.requests.test_dispatch import Client, request
from tests.unit.group.streams.clients import beat_request
from tests.unit.metadata.cluster import Cluster


class Groups:
    """Records the requests that the shards would serve, and responds to those that have a response."""

    def __init__(self, response: object = None) -> None:
        self.submitted: list[object] = []
        self._response = response

    def topic_partitions(self) -> int:
        return 1

    def submit(self, _partition: int, part: object, _context: object, respond: Callable[[object], None]) -> bool:
        self.submitted.append(part)
        if self._response is not None:
            respond(self._response)
        return self._is_here

    _is_here = True


class Elsewhere(Groups):
    """The groups of another node."""

    _is_here = False


class Topics:
    """Records the topics to create; their last creation failed."""

    def __init__(self) -> None:
        self.created: list[tuple[str, int]] = []

    def create(self, topics: Iterable[TopicInfo], retry_ms: int) -> None:
        self.created += [(topic.name, retry_ms) for topic in topics]

    def errors(self, topics: Iterable[str]) -> dict[str, str]:
        return dict.fromkeys(topics, "no space")


def served(
    cluster: Cluster, module: Any, key: ApiKey, body: Any, groups: Groups | None = None, topics: Topics | None = None
) -> tuple[list[object], list[bytes]]:
    """The requests that the shards received, and the responses that the client received."""
    client, shards, version = Client(), groups or Groups(), highest_version(key)
    node = SimpleNamespace(config=cluster.context.node, image=cluster.image, groups=shards, streams_topics=topics)
    module.handle(cast(Services, node), request(key, version, encode_request(key, version, body), client))
    return shards.submitted, client.responses


HEARTBEAT = entity(
    ConsumerGroupHeartbeatRequest,
    group_id="g",
    member_id="m",
    member_epoch=0,
    subscribed_topic_names=("t",),
    topic_partitions=(),
)
DESCRIBE = entity(ConsumerGroupDescribeRequest, group_ids=("g", "h"), include_authorized_operations=False)


def test_it_is_enabled_by_default() -> None:
    submitted, responses = served(
        Cluster(), api_68_consumer_group_heartbeat, ApiKey.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT
    )
    assert (len(submitted), responses) == (1, [])


def by_setting() -> Cluster:
    return Cluster(group_coordinator_rebalance_protocols="classic")


def by_feature() -> Cluster:
    cluster = Cluster()
    cluster.image_with_features({"group.version": 0, "streams.version": 0})
    return cluster


@pytest.mark.parametrize("disabled", [by_setting, by_feature])
def test_where_it_is_disabled_its_requests_are_unsupported(disabled: Any) -> None:
    """Neither the setting nor the feature level had an effect."""
    cluster = disabled()
    submitted, (data,) = served(cluster, api_68_consumer_group_heartbeat, ApiKey.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT)
    assert submitted == []
    heartbeat = decode_response(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, data)
    assert (heartbeat.error_code, heartbeat.error_message) == (ErrorCode.unsupported_version, None)
    submitted, (data,) = served(cluster, api_69_consumer_group_describe, ApiKey.CONSUMER_GROUP_DESCRIBE, DESCRIBE)
    assert submitted == []
    described = decode_response(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, data)
    assert [(group.group_id, group.error_code) for group in described.groups] == [
        ("g", ErrorCode.unsupported_version),
        ("h", ErrorCode.unsupported_version),
    ]


STREAMS_HEARTBEAT = beat_request("m", 3)
STREAMS_DESCRIBE = entity(StreamsGroupDescribeRequest, group_ids=("g", "h"), include_authorized_operations=False)


def streams_heartbeat(data: bytes) -> Any:
    return decode_response(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, data)


@pytest.mark.parametrize("disabled", [by_setting, by_feature])
def test_where_the_streams_protocol_is_disabled_its_requests_are_unsupported(disabled: Any) -> None:
    cluster, key = disabled(), ApiKey.STREAMS_GROUP_HEARTBEAT
    submitted, (data,) = served(cluster, api_88_streams_group_heartbeat, key, STREAMS_HEARTBEAT)
    assert (submitted, streams_heartbeat(data).error_code) == ([], ErrorCode.unsupported_version)
    key = ApiKey.STREAMS_GROUP_DESCRIBE
    submitted, (data,) = served(cluster, api_89_streams_group_describe, key, STREAMS_DESCRIBE)
    assert submitted == []
    described = decode_response(key, 0, data)
    assert [group.error_code for group in described.groups] == [ErrorCode.unsupported_version] * 2


def test_streams_groups_are_served_by_their_coordinator() -> None:
    key = ApiKey.STREAMS_GROUP_HEARTBEAT
    submitted, responses = served(Cluster(), api_88_streams_group_heartbeat, key, STREAMS_HEARTBEAT)
    assert (len(submitted), responses) == (1, [])
    _, (data,) = served(Cluster(), api_88_streams_group_heartbeat, key, STREAMS_HEARTBEAT, Elsewhere())
    assert streams_heartbeat(data).error_code == ErrorCode.not_coordinator
    submitted, responses = served(
        Cluster(), api_89_streams_group_describe, ApiKey.STREAMS_GROUP_DESCRIBE, STREAMS_DESCRIBE
    )
    assert (len(submitted), responses) == (2, [])


def test_missing_internal_topics_are_created_after_the_response() -> None:
    statuses = [(Status.MISSING_INTERNAL_TOPICS, "missing")]
    response = heartbeat_response(StreamsMember(member_id="m"), 5_000, statuses, 0, None, with_tasks=False)
    outcome = TopicsToCreate(response, (TopicInfo("log", 3, 0, ()),), 10_000)
    topics, key = Topics(), ApiKey.STREAMS_GROUP_HEARTBEAT
    _, (data,) = served(Cluster(), api_88_streams_group_heartbeat, key, STREAMS_HEARTBEAT, Groups(outcome), topics)
    assert topics.created == [("log", 10_000)]
    (status,) = streams_heartbeat(data).status
    assert status.status_detail == "missing; Creation failed: log (no space)."
