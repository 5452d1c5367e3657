"""OffsetForLeaderEpoch: the end of an epoch in this log, from which a reader determines whether its log has diverged."""

from typing import Any

from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderEpochRequest
from kio.schema.offset_for_leader_epoch.v4.response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request


def handle(node: Services, request: Request) -> None:
    """Respond in the request's order."""
    body: OffsetForLeaderEpochRequest = request.decode()
    topics = tuple(
        OffsetForLeaderTopicResult(
            topic=topic.topic, partitions=tuple(_epoch_end(node, topic.topic, p) for p in topic.partitions)
        )
        for topic in body.topics
    )
    request.respond(OffsetForLeaderEpochResponse(throttle_time=NO_THROTTLE, topics=topics))


def _epoch_end(node: Services, topic: str, part: Any) -> EpochEndOffset:
    partition = node.replicas.find(topic, part.partition)
    error = partition if isinstance(partition, ErrorCode) else partition.refuses(part.current_leader_epoch)
    if isinstance(partition, ErrorCode) or error is not None or partition.log is None:
        return EpochEndOffset(partition=part.partition, error_code=error or ErrorCode.kafka_storage_error)
    epoch, end = partition.log.epochs.end_offset(part.leader_epoch, partition.log.end_offset)
    fields: Any = {"leader_epoch": epoch, "end_offset": end}
    return EpochEndOffset(partition=part.partition, error_code=ErrorCode.none, **fields)
