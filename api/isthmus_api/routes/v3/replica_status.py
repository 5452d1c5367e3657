"""The progress of every replica, observers included. Only Isthmus clusters report it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from isthmus_client.admin import topics as topic_admin
from isthmus_client.admin.replicas import PartitionStatus, ReplicaStatus, replica_status
from isthmus_client.client import Client
from isthmus_client.errors import NotSupported
from isthmus_client.metadata import Partition, Topic, TopicPartition
from isthmus_model.clocks import WallMs

from isthmus_api.limits import STATUS_PARTITIONS_MAX
from isthmus_api.problems import Problem
from isthmus_api.registry import Routes
from isthmus_api.request_context import Call
from isthmus_api.routes.v3.partitions import PartitionPath, existing_partition
from isthmus_api.routes.v3.shapes import CLUSTER, ClusterPath, KafkaList, Resource, listed, metadata
from isthmus_api.routes.v3.topics import TopicPath, described

routes = Routes("Replica status", CLUSTER)
_UNKNOWN = -1


class ReplicaStatusData(Resource):
    """A replica, as its leader reports it. Without a leader, offsets and times are -1."""

    kind: Literal["KafkaReplicaStatus"] = "KafkaReplicaStatus"
    topic_name: str
    broker_id: int
    partition_id: int
    is_leader: bool
    is_observer: bool
    is_isr_eligible: bool
    is_in_isr: bool
    is_caught_up: bool
    log_start_offset: int
    log_end_offset: int
    last_caught_up_time_ms: int
    last_fetch_time_ms: int
    link_name: str | None


class ReplicaStatusDataList(KafkaList[ReplicaStatusData]):
    """Replicas of partitions."""

    kind: Literal["KafkaReplicaStatusList"] = "KafkaReplicaStatusList"


@routes.get("/topics/-/partitions/-/replica-status")
async def list_kafka_all_replica_status(call: Call, path: ClusterPath) -> ReplicaStatusDataList:
    """List the status of all replicas of a cluster."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        return await _statuses(call, path.cluster_id, client, _partitions(await topic_admin.list_topics(client)))


@routes.get("/topics/{topic_name}/partitions/-/replica-status")
async def list_kafka_replica_status(call: Call, path: TopicPath) -> ReplicaStatusDataList:
    """List the status of all replicas of a topic."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        topic = await described(client, path.topic_name)
        return await _statuses(call, path.cluster_id, client, _partitions({topic.name: topic}))


@routes.get("/topics/{topic_name}/partitions/{partition_id}/replica-status")
async def list_kafka_partition_replica_status(call: Call, path: PartitionPath) -> ReplicaStatusDataList:
    """List the status of all replicas of a partition."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        partition = await existing_partition(client, path.topic_name, path.partition_id)
        partitions = {TopicPartition(path.topic_name, path.partition_id): partition}
        return await _statuses(call, path.cluster_id, client, partitions)


def _partitions(topics: Mapping[str, Topic]) -> dict[TopicPartition, Partition]:
    return {
        TopicPartition(topic.name, index): topic.partitions[index]
        for topic in topics.values()
        for index in sorted(topic.partitions)
    }


async def _statuses(
    call: Call, cluster_id: str, client: Client, partitions: Mapping[TopicPartition, Partition]
) -> ReplicaStatusDataList:
    if len(partitions) > STATUS_PARTITIONS_MAX:
        raise Problem(
            400,
            f"The request covers {len(partitions)} partitions; request one topic. The maximum is {STATUS_PARTITIONS_MAX}.",
        )
    led = [partition for partition, placed in partitions.items() if placed.leader >= 0]
    statuses = await replica_status(client, led)
    for outcome in statuses.values():
        if isinstance(outcome, NotSupported):
            raise outcome
    now = call.parts.now_ms()
    data: list[ReplicaStatusData] = []
    for partition, placed in partitions.items():
        status = statuses.get(partition)
        replicas = (
            status.replicas if isinstance(status, PartitionStatus) else [_unknown(one) for one in placed.replicas]
        )
        data.extend(_data(call, cluster_id, partition, replica, now) for replica in replicas)
    return ReplicaStatusDataList(metadata=listed(call), data=data)


def _unknown(broker: int) -> ReplicaStatus:
    """A replica without any report."""
    return ReplicaStatus(broker, False, False, False, False, False, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN)


def _data(
    call: Call, cluster_id: str, partition: TopicPartition, one: ReplicaStatus, now_ms: WallMs
) -> ReplicaStatusData:
    topic, index = partition
    here = ("clusters", cluster_id, "topics", topic, "partitions", index, "replica-status")
    crn = ("kafka", cluster_id, "topic", topic, "partition", index, "replica", one.broker)
    return ReplicaStatusData(
        metadata=metadata(call, here, crn),
        cluster_id=cluster_id,
        topic_name=topic,
        broker_id=one.broker,
        partition_id=index,
        is_leader=one.is_leader,
        is_observer=one.is_observer,
        is_isr_eligible=one.is_isr_eligible,
        is_in_isr=one.is_in_isr,
        is_caught_up=one.is_caught_up,
        log_start_offset=one.log_start,
        log_end_offset=one.log_end,
        last_caught_up_time_ms=_time(now_ms, one.caught_up_lag_ms),
        last_fetch_time_ms=_time(now_ms, one.fetch_lag_ms),
        link_name=None,
    )


def _time(now_ms: WallMs, ago_ms: int) -> int:
    return _UNKNOWN if ago_ms < 0 else now_ms - ago_ms
