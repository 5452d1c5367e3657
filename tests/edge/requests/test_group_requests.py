"""Requests of the consumer group protocol are served if the settings and the cluster's features enable it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from isthmus_broker.edge.requests import api_68_consumer_group_heartbeat, api_69_consumer_group_describe
from isthmus_broker.edge.requests.services import Services
from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import decode_response, encode_request
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest

from tests.edge.requests.test_dispatch import Client, request
from tests.unit.metadata.cluster import Cluster


class Groups:
    """Records the requests that the shards would serve."""

    def __init__(self) -> None:
        self.submitted: list[object] = []

    def topic_partitions(self) -> int:
        return 1

    def submit(self, _partition: int, part: object, *_: Any) -> bool:
        self.submitted.append(part)
        return True


def served(cluster: Cluster, module: Any, key: ApiKey, body: Any) -> tuple[list[object], list[bytes]]:
    """The requests that the shards received, and the responses that the client received."""
    client, groups = Client(), Groups()
    node = SimpleNamespace(config=cluster.context.node, image=cluster.image, groups=groups)
    module.handle(cast(Services, node), request(key, 1, encode_request(key, 1, body), client))
    return groups.submitted, client.responses


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
    cluster.image_with_features({"group.version": 0})
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
