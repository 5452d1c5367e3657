"""Partitions, their replicas, and reassignments in progress."""

from __future__ import annotations

from typing import Literal

from isthmus_client.admin import partitions as partition_admin
from isthmus_client.admin.partitions import Move
from isthmus_client.client import Client
from isthmus_client.metadata import Partition
from pydantic import Field

from isthmus_api.problems import UNKNOWN_TOPIC_OR_PARTITION, Problem
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
from isthmus_api.routes.v3.topics import TopicPath, described

routes = Routes("Partitions", CLUSTER)


class PartitionPath(TopicPath):
    """One partition."""

    partition_id: int = Field(ge=0, le=INT32_MAX)


class ReplicaPath(PartitionPath):
    """One replica."""

    broker_id: int = Field(ge=0, le=INT32_MAX)


class PartitionData(Resource):
    """A partition; without a leader while there is none."""

    kind: Literal["KafkaPartition"] = "KafkaPartition"
    topic_name: str
    partition_id: int
    leader: Related | None
    replicas: Related
    reassignment: Related


class PartitionDataList(KafkaList[PartitionData]):
    """Partitions of a topic."""

    kind: Literal["KafkaPartitionList"] = "KafkaPartitionList"


class ReplicaData(Resource):
    """A replica of a partition."""

    kind: Literal["KafkaReplica"] = "KafkaReplica"
    topic_name: str
    partition_id: int
    broker_id: int
    is_leader: bool
    is_in_sync: bool
    broker: Related


class ReplicaDataList(KafkaList[ReplicaData]):
    """Replicas."""

    kind: Literal["KafkaReplicaList"] = "KafkaReplicaList"


class ReassignmentData(Resource):
    """A reassignment in progress."""

    kind: Literal["KafkaReassignment"] = "KafkaReassignment"
    topic_name: str
    partition_id: int
    adding_replicas: list[int]
    removing_replicas: list[int]
    replicas: Related


class ReassignmentDataList(KafkaList[ReassignmentData]):
    """Reassignments in progress."""

    kind: Literal["KafkaReassignmentList"] = "KafkaReassignmentList"


@routes.get("/topics/{topic_name}/partitions")
async def list_kafka_partitions(call: Call, path: TopicPath) -> PartitionDataList:
    """List the partitions of a topic."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        topic = await described(client, path.topic_name)
    data = [
        _partition(call, path.cluster_id, topic.name, topic.partitions[index]) for index in sorted(topic.partitions)
    ]
    return PartitionDataList(metadata=listed(call), data=data)


@routes.get("/topics/{topic_name}/partitions/{partition_id}")
async def get_kafka_partition(call: Call, path: PartitionPath) -> PartitionData:
    """Get a partition."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        partition = await existing_partition(client, path.topic_name, path.partition_id)
    return _partition(call, path.cluster_id, path.topic_name, partition)


@routes.get("/topics/{topic_name}/partitions/{partition_id}/replicas")
async def list_kafka_replicas(call: Call, path: PartitionPath) -> ReplicaDataList:
    """List the replicas of a partition, the preferred leader first."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        partition = await existing_partition(client, path.topic_name, path.partition_id)
    data = [replica_data(call, path.cluster_id, path.topic_name, partition, broker) for broker in partition.replicas]
    return ReplicaDataList(metadata=listed(call), data=data)


@routes.get("/topics/{topic_name}/partitions/{partition_id}/replicas/{broker_id}")
async def get_kafka_replica(call: Call, path: ReplicaPath) -> ReplicaData:
    """Get a replica."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        partition = await existing_partition(client, path.topic_name, path.partition_id)
    if path.broker_id not in partition.replicas:
        raise Problem(404, f"Broker {path.broker_id} has no replica of {path.topic_name}-{path.partition_id}.")
    return replica_data(call, path.cluster_id, path.topic_name, partition, path.broker_id)


@routes.get("/topics/-/partitions/-/reassignment")
async def list_kafka_all_reassignments(call: Call, path: ClusterPath) -> ReassignmentDataList:
    """List the reassignments in progress in a cluster."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        moves = await partition_admin.moves(client)
    return _moves(call, path.cluster_id, moves)


@routes.get("/topics/{topic_name}/partitions/-/reassignment")
async def search_kafka_reassignments_by_topic(call: Call, path: TopicPath) -> ReassignmentDataList:
    """List the reassignments in progress of a topic."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        await described(client, path.topic_name)
        moves = await partition_admin.moves(client)
    return _moves(call, path.cluster_id, [move for move in moves if move.partition.topic == path.topic_name])


@routes.get("/topics/{topic_name}/partitions/{partition_id}/reassignment")
async def get_kafka_reassignment(call: Call, path: PartitionPath) -> ReassignmentData:
    """Get the reassignment of a partition, while it is in progress."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        await existing_partition(client, path.topic_name, path.partition_id)
        moves = await partition_admin.moves(client)
    for move in moves:
        if move.partition == (path.topic_name, path.partition_id):
            return _move(call, path.cluster_id, move)
    raise Problem(404, f"Partition {path.topic_name}-{path.partition_id} is not being reassigned.")


async def existing_partition(client: Client, topic_name: str, index: int) -> Partition:
    """One partition, looked up again; raises Problem or the client's Refused."""
    topic = await described(client, topic_name)
    partition = topic.partitions.get(index)
    if partition is None:
        raise Problem(404, "This server does not host this topic-partition.", UNKNOWN_TOPIC_OR_PARTITION)
    return partition


def replica_data(call: Call, cluster_id: str, topic: str, partition: Partition, broker: int) -> ReplicaData:
    """One replica of a partition."""
    here = ("clusters", cluster_id, "topics", topic, "partitions", partition.index, "replicas", broker)
    crn = ("kafka", cluster_id, "topic", topic, "partition", partition.index, "replica", broker)
    return ReplicaData(
        metadata=metadata(call, here, crn),
        cluster_id=cluster_id,
        topic_name=topic,
        partition_id=partition.index,
        broker_id=broker,
        is_leader=broker == partition.leader,
        is_in_sync=broker in partition.in_sync,
        broker=related(call, "clusters", cluster_id, "brokers", broker),
    )


def _partition(call: Call, cluster_id: str, topic: str, partition: Partition) -> PartitionData:
    here = ("clusters", cluster_id, "topics", topic, "partitions", partition.index)
    leads = related(call, *here, "replicas", partition.leader) if partition.leader >= 0 else None
    return PartitionData(
        metadata=metadata(call, here, ("kafka", cluster_id, "topic", topic, "partition", partition.index)),
        cluster_id=cluster_id,
        topic_name=topic,
        partition_id=partition.index,
        leader=leads,
        replicas=related(call, *here, "replicas"),
        reassignment=related(call, *here, "reassignment"),
    )


def _moves(call: Call, cluster_id: str, moves: list[Move]) -> ReassignmentDataList:
    data = [_move(call, cluster_id, move) for move in sorted(moves, key=lambda move: move.partition)]
    return ReassignmentDataList(metadata=listed(call), data=data)


def _move(call: Call, cluster_id: str, move: Move) -> ReassignmentData:
    topic, index = move.partition
    here = ("clusters", cluster_id, "topics", topic, "partitions", index)
    crn = ("kafka", cluster_id, "topic", topic, "partition", index, "reassignment", index)
    return ReassignmentData(
        metadata=metadata(call, (*here, "reassignment"), crn),
        cluster_id=cluster_id,
        topic_name=topic,
        partition_id=index,
        adding_replicas=list(move.adding),
        removing_replicas=list(move.removing),
        replicas=related(call, *here, "replicas"),
    )
