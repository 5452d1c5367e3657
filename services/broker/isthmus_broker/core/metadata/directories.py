"""Replicas' log directories: a broker with several chooses one, and reports it to the controller (KIP-858)."""

from __future__ import annotations

from uuid import UUID

from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.assign_replicas_to_dirs.v0.request import AssignReplicasToDirsRequest
from kio.schema.assign_replicas_to_dirs.v0.response import (
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)

from isthmus_broker.core.metadata.image import ClusterImage, Partition, Topic
from isthmus_broker.core.metadata.partitions import change_of, check_broker_epoch, leader_and_isr_updates
from isthmus_broker.core.metadata.result import ControllerContext, ControllerError, Result
from isthmus_broker.core.metadata.schema import MetadataRecord


def assign_replicas_to_dirs(
    image: ClusterImage, request: AssignReplicasToDirsRequest, context: ControllerContext
) -> Result[AssignReplicasToDirsResponse]:
    """Record the directory of each replica; replicas in a directory that failed meanwhile leave the ISR."""
    broker_id = int(request.broker_id)
    broker = check_broker_epoch(image, broker_id, request.broker_epoch)
    records: list[MetadataRecord] = []
    lost: list[tuple[Topic, Partition]] = []

    def assign(directory: UUID | None, topic_id: UUID | None, index: int) -> ErrorCode:
        try:
            topic, partition = _replica(image, topic_id, index, broker_id)
        except ControllerError as refusal:
            return refusal.code
        change = change_of(image, context, topic, partition)
        change.directories = {broker_id: directory}
        record = change.record()
        if record is not None:
            records.append(record)
        if directory not in broker.log_dirs:
            lost.append((topic, partition))
        return ErrorCode.none

    directories = tuple(
        entity(
            DirectoryData,
            id_=directory.id_,
            topics=tuple(
                entity(
                    TopicData,
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        entity(
                            PartitionData,
                            partition_index=partition.partition_index,
                            error_code=assign(directory.id_, topic.topic_id, partition.partition_index),
                        )
                        for partition in topic.partitions
                    ),
                )
                for topic in directory.topics
            ),
        )
        for directory in request.directories
    )
    records += leader_and_isr_updates(image, context, lost, leaving=broker_id)
    response = entity(
        AssignReplicasToDirsResponse,
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        directories=directories,
    )
    return Result(tuple(records), response)


def _replica(image: ClusterImage, topic_id: UUID | None, index: int, broker_id: int) -> tuple[Topic, Partition]:
    topic = None if topic_id is None else image.topics.by_id.get(topic_id)
    if topic is None:
        raise ControllerError(ErrorCode.unknown_topic_id)
    partition = topic.partitions.get(index)
    if partition is None:
        raise ControllerError(ErrorCode.unknown_topic_or_partition)
    if broker_id not in partition.replicas:
        raise ControllerError(ErrorCode.not_leader_or_follower)
    return topic, partition
