"""Consumer groups, their consumers, and what is assigned to them."""

from __future__ import annotations

import re
from typing import Literal

from isthmus_client.admin import groups as group_admin
from isthmus_client.admin.groups import CONSUMER, Group, Member
from isthmus_client.client import Client
from isthmus_client.errors import ClientError, Refused
from isthmus_client.metadata import Broker, TopicPartition
from pydantic import Field

from isthmus_api.problems import Problem
from isthmus_api.registry import Routes
from isthmus_api.request_context import Call
from isthmus_api.routes.v3.shapes import (
    CLUSTER,
    INT32_MAX,
    ClusterPath,
    KafkaList,
    Related,
    Resource,
    listed,
    metadata,
    related,
)

routes = Routes("Consumer groups", CLUSTER)


class GroupPath(ClusterPath):
    """One group."""

    consumer_group_id: str = Field(min_length=1)


class ConsumerPath(GroupPath):
    """One consumer of a group."""

    consumer_id: str = Field(min_length=1)


class AssignmentPath(ConsumerPath):
    """One partition that is assigned to a consumer."""

    topic_name: str = Field(min_length=1)
    partition_id: int = Field(ge=0, le=INT32_MAX)


class GroupData(Resource):
    """A group; without a coordinator while that is unknown."""

    kind: Literal["KafkaConsumerGroup"] = "KafkaConsumerGroup"
    consumer_group_id: str
    is_simple: bool
    partition_assignor: str
    state: str
    type: str
    coordinator: Related | None
    consumers: Related
    lag_summary: Related


class GroupDataList(KafkaList[GroupData]):
    """Groups."""

    kind: Literal["KafkaConsumerGroupList"] = "KafkaConsumerGroupList"


class ConsumerData(Resource):
    """A consumer."""

    kind: Literal["KafkaConsumer"] = "KafkaConsumer"
    consumer_group_id: str
    consumer_id: str
    instance_id: str | None
    client_id: str
    assignments: Related


class ConsumerDataList(KafkaList[ConsumerData]):
    """Consumers of a group."""

    kind: Literal["KafkaConsumerList"] = "KafkaConsumerList"


class AssignmentData(Resource):
    """A partition that is assigned to a consumer."""

    kind: Literal["KafkaConsumerAssignment"] = "KafkaConsumerAssignment"
    consumer_group_id: str
    consumer_id: str
    topic_name: str
    partition_id: int
    partition: Related
    lag: Related


class AssignmentDataList(KafkaList[AssignmentData]):
    """What is assigned to a consumer."""

    kind: Literal["KafkaConsumerAssignmentList"] = "KafkaConsumerAssignmentList"


@routes.get("/consumer-groups")
async def list_kafka_consumer_groups(call: Call, path: ClusterPath) -> GroupDataList:
    """List the groups."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        names = [group.group_id for group in await group_admin.list_groups(client)]
        described = await group_admin.describe(client, names)
        coordinators = await client.coordinators(names)
    # A group that was deleted between the two requests.
    groups = [group for group in described.values() if isinstance(group, Group)]
    data = [_group(call, path.cluster_id, group, coordinators[group.group_id]) for group in groups]
    return GroupDataList(metadata=listed(call), data=data)


@routes.get("/consumer-groups/{consumer_group_id}")
async def get_kafka_consumer_group(call: Call, path: GroupPath) -> GroupData:
    """Get a group."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        group = await existing_group(client, path.consumer_group_id)
        coordinator = (await client.coordinators([group.group_id]))[group.group_id]
    return _group(call, path.cluster_id, group, coordinator)


@routes.get("/consumer-groups/{consumer_group_id}/consumers")
async def list_kafka_consumers(call: Call, path: GroupPath) -> ConsumerDataList:
    """List the consumers of a group."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        group = await existing_group(client, path.consumer_group_id)
    data = [_consumer(call, path, member) for member in group.members]
    return ConsumerDataList(metadata=listed(call), data=data)


@routes.get("/consumer-groups/{consumer_group_id}/consumers/{consumer_id}")
async def get_kafka_consumer(call: Call, path: ConsumerPath) -> ConsumerData:
    """Get a consumer of a group."""
    return _consumer(call, path, await _member(call, path))


@routes.get("/consumer-groups/{consumer_group_id}/consumers/{consumer_id}/assignments")
async def list_kafka_consumer_assignment(call: Call, path: ConsumerPath) -> AssignmentDataList:
    """List what is assigned to a consumer."""
    member = await _member(call, path)
    data = [_assignment(call, path, partition) for partition in member.partitions]
    return AssignmentDataList(metadata=listed(call), data=data)


@routes.get(
    "/consumer-groups/{consumer_group_id}/consumers/{consumer_id}/assignments/{topic_name}/partitions/{partition_id}"
)
async def get_kafka_consumer_assignment(call: Call, path: AssignmentPath) -> AssignmentData:
    """Get one partition that is assigned to a consumer."""
    partition = TopicPartition(path.topic_name, path.partition_id)
    if partition not in (await _member(call, path)).partitions:
        raise Problem(404, f"Partition {partition} is not assigned to consumer {path.consumer_id}.")
    return _assignment(call, path, partition)


async def existing_group(client: Client, group_id: str) -> Group:
    """One group; raises the client's error."""
    described = (await group_admin.describe(client, [group_id]))[group_id]
    if isinstance(described, ClientError):
        raise described
    return described


async def _member(call: Call, path: ConsumerPath) -> Member:
    async with call.parts.clusters.use(path.cluster_id) as client:
        group = await existing_group(client, path.consumer_group_id)
    for member in group.members:
        if member.member_id == path.consumer_id:
            return member
    raise Problem(404, f"Consumer {path.consumer_id} cannot be found in group {path.consumer_group_id}.")


def _group(call: Call, cluster_id: str, group: Group, coordinator: Broker | Refused) -> GroupData:
    here = ("clusters", cluster_id, "consumer-groups", group.group_id)
    node_id = coordinator.node_id if isinstance(coordinator, Broker) else None
    return GroupData(
        metadata=metadata(call, here, ("kafka", cluster_id, "consumer-group", group.group_id)),
        cluster_id=cluster_id,
        consumer_group_id=group.group_id,
        # A group that is only used to commit offsets has no protocol.
        is_simple=group.type != CONSUMER and not group.protocol_type,
        partition_assignor=group.assignor,
        state=capitals(group.state),
        type=group.type.upper(),
        coordinator=None if node_id is None else related(call, "clusters", cluster_id, "brokers", node_id),
        consumers=related(call, *here, "consumers"),
        lag_summary=related(call, *here, "lag-summary"),
    )


def capitals(state: str) -> str:
    """PreparingRebalance, as the protocol has it, is PREPARING_REBALANCE here."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", state).upper()


def _consumer(call: Call, path: GroupPath, member: Member) -> ConsumerData:
    group = path.consumer_group_id
    here = ("clusters", path.cluster_id, "consumer-groups", group, "consumers", member.member_id)
    crn = ("kafka", path.cluster_id, "consumer-group", group, "consumer", member.member_id)
    return ConsumerData(
        metadata=metadata(call, here, crn),
        cluster_id=path.cluster_id,
        consumer_group_id=group,
        consumer_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        assignments=related(call, *here, "assignments"),
    )


def _assignment(call: Call, path: ConsumerPath, partition: TopicPartition) -> AssignmentData:
    cluster, group, (topic, index) = path.cluster_id, path.consumer_group_id, partition
    consumers = ("clusters", cluster, "consumer-groups", group, "consumers", path.consumer_id)
    crn = ("kafka", cluster, "consumer-group", group, "consumer", path.consumer_id, "topic", topic, "partition", index)
    return AssignmentData(
        metadata=metadata(call, (*consumers, "assignments", topic, "partitions", index), crn),
        cluster_id=cluster,
        consumer_group_id=group,
        consumer_id=path.consumer_id,
        topic_name=topic,
        partition_id=index,
        partition=related(call, "clusters", cluster, "topics", topic, "partitions", index),
        lag=related(call, "clusters", cluster, "consumer-groups", group, "lags", topic, "partitions", index),
    )
