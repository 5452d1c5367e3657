"""A topic's replicas by region, on any cluster; what Apache Kafka does not report is null."""

from __future__ import annotations

from collections.abc import Mapping

from isthmus_client.admin import cluster as cluster_admin
from isthmus_client.admin import topics as topic_admin
from isthmus_client.admin.replicas import PartitionStatus, ReplicaStatus, replica_status
from isthmus_client.metadata import Partition, TopicPartition
from isthmus_model.lag import number_or_none
from isthmus_model.regions import region_of
from pydantic import Field

from isthmus_api.core.inventory import ClusterKind
from isthmus_api.limits import STATUS_PARTITIONS_MAX
from isthmus_api.models import Shape
from isthmus_api.problems import Problem
from isthmus_api.registry import Routes
from isthmus_api.request_context import Call
from isthmus_api.routes.v1.inventory import ClusterIdPath

routes = Routes("Replicas", "/api/v1")


class TopicReplicasPath(ClusterIdPath):
    """One topic of a cluster."""

    topic_name: str = Field(min_length=1)


class ReplicaPlace(Shape):
    """A replica; unknown offsets and times are null."""

    broker_id: int
    region: str
    is_leader: bool
    is_in_isr: bool
    is_observer: bool | None
    is_caught_up: bool | None
    log_start_offset: int | None
    log_end_offset: int | None
    caught_up_lag_ms: int | None


class PartitionPlaces(Shape):
    """A partition; its leader is -1 while there is none."""

    partition_id: int
    leader: int
    leader_epoch: int
    replicas: list[ReplicaPlace]


class TopicReplicas(Shape):
    """All partitions of a topic."""

    cluster_id: str
    topic_name: str
    is_internal: bool
    partitions: list[PartitionPlaces]


@routes.get("/clusters/{cluster_id}/topics/{topic_name}/replicas")
async def get_topic_replicas(call: Call, path: TopicReplicasPath) -> TopicReplicas:
    """Get the replicas of a topic with their regions and log end offsets."""
    cluster = await call.parts.clusters.registered(path.cluster_id)
    async with call.parts.clusters.use(path.cluster_id) as client:
        topic = (await topic_admin.describe(client, [path.topic_name]))[path.topic_name]
        if len(topic.partitions) > STATUS_PARTITIONS_MAX:
            raise Problem(
                400, f"The topic has {len(topic.partitions)} partitions; the most is {STATUS_PARTITIONS_MAX}."
            )
        brokers = (await cluster_admin.describe(client)).brokers
        led = [TopicPartition(topic.name, one.index) for one in topic.partitions.values() if one.leader >= 0]
        statuses = await replica_status(client, led) if cluster.kind is ClusterKind.ISTHMUS else {}
    regions = {broker.node_id: region_of(broker.rack) for broker in brokers}
    partitions = [
        _partition(topic.partitions[index], statuses.get(TopicPartition(topic.name, index)), regions)
        for index in sorted(topic.partitions)
    ]
    return TopicReplicas(
        cluster_id=path.cluster_id, topic_name=topic.name, is_internal=topic.is_internal, partitions=partitions
    )


def _partition(partition: Partition, reported: object, regions: Mapping[int, str]) -> PartitionPlaces:
    status = {one.broker: one for one in reported.replicas} if isinstance(reported, PartitionStatus) else {}
    return PartitionPlaces(
        partition_id=partition.index,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        replicas=[_replica(partition, broker, status.get(broker), regions) for broker in partition.replicas],
    )


def _replica(
    partition: Partition, broker: int, status: ReplicaStatus | None, regions: Mapping[int, str]
) -> ReplicaPlace:
    return ReplicaPlace(
        broker_id=broker,
        region=regions.get(broker, ""),
        is_leader=broker == partition.leader,
        is_in_isr=broker in partition.in_sync,
        is_observer=None if status is None else status.is_observer,
        is_caught_up=None if status is None else status.is_caught_up,
        log_start_offset=None if status is None else number_or_none(status.log_start),
        log_end_offset=None if status is None else number_or_none(status.log_end),
        caught_up_lag_ms=None if status is None else number_or_none(status.caught_up_lag_ms),
    )
