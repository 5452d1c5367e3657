"""Topics."""

from __future__ import annotations

from typing import Literal

from isthmus_client.admin import topics as topic_admin
from isthmus_client.client import Client
from isthmus_client.metadata import Topic
from pydantic import Field, model_validator

from isthmus_api.models import RequestBody
from isthmus_api.problems import BAD_REQUEST, Problem
from isthmus_api.registry import Routes
from isthmus_api.request_context import Call
from isthmus_api.routes.v3.shapes import (
    CLUSTER,
    INT16_MAX,
    INT32_MAX,
    ClusterPath,
    KafkaList,
    NewConfig,
    Related,
    Resource,
    listed,
    metadata,
    related,
)

routes = Routes("Topics", CLUSTER)
_NAME_MAX = 249


class TopicPath(ClusterPath):
    """One topic."""

    topic_name: str = Field(min_length=1)


class TopicData(Resource):
    """A topic."""

    kind: Literal["KafkaTopic"] = "KafkaTopic"
    topic_name: str
    is_internal: bool
    replication_factor: int
    partitions_count: int
    partitions: Related
    configs: Related
    partition_reassignments: Related
    authorized_operations: list[str]


class TopicDataList(KafkaList[TopicData]):
    """Topics."""

    kind: Literal["KafkaTopicList"] = "KafkaTopicList"


class ReplicasAssignment(RequestBody):
    """The brokers of a partition, the preferred leader first."""

    partition_id: int = Field(ge=0, le=INT32_MAX)
    broker_ids: list[int] = Field(min_length=1, max_length=1000)


class CreateTopicRequest(RequestBody):
    """A new topic; without numbers it gets the cluster's defaults."""

    topic_name: str = Field(min_length=1, max_length=_NAME_MAX)
    partitions_count: int | None = Field(None, ge=1, le=INT32_MAX)
    replication_factor: int | None = Field(None, ge=1, le=INT16_MAX)
    replicas_assignments: list[ReplicasAssignment] = Field([], max_length=100_000)
    configs: list[NewConfig] = Field([], max_length=1000)
    validate_only: bool = False

    @model_validator(mode="after")
    def _one_way_to_place(self) -> CreateTopicRequest:
        if self.replicas_assignments and (self.partitions_count or self.replication_factor):
            raise ValueError("replicas_assignments determines the numbers of partitions and replicas; leave them out")
        named = [one.partition_id for one in self.replicas_assignments]
        if sorted(named) != list(range(len(named))):
            raise ValueError("replicas_assignments must name the partitions from 0 on, each once")
        return self


class UpdatePartitionCountRequest(RequestBody):
    """The new number of partitions."""

    partitions_count: int = Field(ge=1, le=INT32_MAX)


@routes.get("/topics")
async def list_kafka_topics(call: Call, path: ClusterPath) -> TopicDataList:
    """List the topics."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        topics = await topic_admin.list_topics(client)
    return TopicDataList(
        metadata=listed(call), data=[_topic(call, path.cluster_id, topic) for topic in topics.values()]
    )


@routes.post("/topics", status=201)
async def create_kafka_topic(call: Call, path: ClusterPath, body: CreateTopicRequest) -> TopicData:
    """Create a topic, or only validate the request."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        new = new_topic(body)
        refused = (await topic_admin.create(client, [new], validate_only=body.validate_only))[body.topic_name]
        if refused is not None:
            raise refused
        if body.validate_only:
            return _planned(call, path.cluster_id, body)
        return _topic(call, path.cluster_id, await described(client, body.topic_name))


@routes.get("/topics/{topic_name}")
async def get_kafka_topic(call: Call, path: TopicPath) -> TopicData:
    """Get a topic."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        return _topic(call, path.cluster_id, await described(client, path.topic_name))


@routes.patch("/topics/{topic_name}")
async def update_partition_count_kafka_topic(
    call: Call, path: TopicPath, body: UpdatePartitionCountRequest
) -> TopicData:
    """Add partitions to a topic."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        before = await described(client, path.topic_name)
        if body.partitions_count < len(before.partitions):
            raise Problem(
                400, f"The topic has {len(before.partitions)} partitions, and none can be removed.", BAD_REQUEST
            )
        if body.partitions_count > len(before.partitions):
            refused = await topic_admin.create_partitions(client, {path.topic_name: body.partitions_count})
            if (error := refused[path.topic_name]) is not None:
                raise error
        return _topic(call, path.cluster_id, before, body.partitions_count)


@routes.delete("/topics/{topic_name}")
async def delete_kafka_topic(call: Call, path: TopicPath) -> None:
    """Delete a topic and its records."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        refused = (await topic_admin.delete(client, [path.topic_name]))[path.topic_name]
        if refused is not None:
            raise refused


def new_topic(body: CreateTopicRequest) -> topic_admin.NewTopic:
    """The topic as the cluster's client takes it."""
    return topic_admin.NewTopic(
        body.topic_name,
        partitions=body.partitions_count or -1,
        replication_factor=body.replication_factor or -1,
        assignments={one.partition_id: one.broker_ids for one in body.replicas_assignments},
        configs={config.name: config.value or "" for config in body.configs},
    )


async def described(client: Client, name: str) -> Topic:
    """One topic, looked up again; raises the client's Refused."""
    return (await topic_admin.describe(client, [name]))[name]


def _topic(call: Call, cluster_id: str, topic: Topic, partitions: int | None = None) -> TopicData:
    replicas = max((len(partition.replicas) for partition in topic.partitions.values()), default=0)
    return _data(call, cluster_id, topic.name, partitions or len(topic.partitions), replicas, topic.is_internal)


def _planned(call: Call, cluster_id: str, body: CreateTopicRequest) -> TopicData:
    """The topic that would be created; numbers that the cluster would choose are 0."""
    partitions = len(body.replicas_assignments) or body.partitions_count or 0
    placed = max((len(one.broker_ids) for one in body.replicas_assignments), default=0)
    return _data(call, cluster_id, body.topic_name, partitions, placed or body.replication_factor or 0, False)


def _data(call: Call, cluster_id: str, name: str, partitions: int, replicas: int, internal: bool) -> TopicData:
    here = ("clusters", cluster_id, "topics", name)
    return TopicData(
        metadata=metadata(call, here, ("kafka", cluster_id, "topic", name)),
        cluster_id=cluster_id,
        topic_name=name,
        is_internal=internal,
        authorized_operations=[],
        replication_factor=replicas,
        partitions_count=partitions,
        partitions=related(call, *here, "partitions"),
        configs=related(call, *here, "configs"),
        partition_reassignments=related(call, *here, "partitions", "-", "reassignment"),
    )
