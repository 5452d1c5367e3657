"""DescribeProducers: the producer states of a partition's log, as this replica has them, whether it leads or follows."""

from typing import Any

from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.describe_producers.v0.request import DescribeProducersRequest
from kio.schema.describe_producers.v0.response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

from isthmus_broker.core.log.producer_state import Producer
from isthmus_broker.core.metadata.names import why_invalid
from isthmus_broker.core.metadata.result import NOT_HOSTED
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request


def handle(node: Services, request: Request) -> None:
    """Respond in the request's order."""
    body: DescribeProducersRequest = request.decode()
    topics = tuple(
        TopicResponse(
            name=topic.name, partitions=tuple(_describe(node, topic.name, p) for p in topic.partition_indexes)
        )
        for topic in body.topics
    )
    request.respond(DescribeProducersResponse(throttle_time=NO_THROTTLE, topics=topics))


def _describe(node: Services, topic: str, index: Any) -> PartitionResponse:
    invalid = why_invalid(topic)
    if invalid is not None:
        return _refused(index, ErrorCode.invalid_topic_exception, invalid)
    partition = node.replicas.find(topic, index)
    error = partition if isinstance(partition, ErrorCode) else partition.refuses(leader_only=False)
    if isinstance(partition, ErrorCode) or error is not None or partition.log is None:
        message = NOT_HOSTED if node.image.topics.named(topic) is None else None
        return _refused(index, error or ErrorCode.kafka_storage_error, message)
    producers = tuple(_state(producer) for producer in partition.log.producers.active())
    return PartitionResponse(
        partition_index=index, error_code=ErrorCode.none, error_message=None, active_producers=producers
    )


def _refused(index: Any, error: ErrorCode, message: str | None) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=error, error_message=message, active_producers=())


def _state(producer: Producer) -> ProducerState:
    start = -1 if producer.transaction_start is None else producer.transaction_start
    fields: Any = {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "last_sequence": producer.last_sequence,
        "last_timestamp": producer.last_timestamp,
        "coordinator_epoch": producer.coordinator_epoch,
        "current_txn_start_offset": start,
    }
    return ProducerState(**fields)
