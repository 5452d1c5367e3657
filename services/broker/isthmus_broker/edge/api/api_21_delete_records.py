"""DeleteRecords, versions 0 to 2: raise the log start offset; -1 means up to the high watermark."""

from typing import Any, Final

from isthmus_wire.apis import ApiKey
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.delete_records.v2.request import DeleteRecordsRequest
from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

from isthmus_broker.edge.api.registry import handles
from isthmus_broker.edge.disk.files import DiskFailure
from isthmus_broker.edge.net.connection import Request
from isthmus_broker.edge.services import INTERNAL_TOPICS, Services

HIGH_WATERMARK: Final = -1
_NOTHING: Final = -1


@handles(ApiKey.DELETE_RECORDS)
def delete_records(node: Services, request: Request) -> None:
    """Each partition is answered by its new low watermark."""
    asked: DeleteRecordsRequest = request.decode()
    wanted: dict[str, dict[int, Any]] = {}
    for topic in asked.topics:
        for part in topic.partitions:
            wanted.setdefault(topic.name, {})[part.partition_index] = part  # of one named twice the last counts
    named: Any = wanted.items()
    topics = tuple(
        DeleteRecordsTopicResult(
            name=name, partitions=tuple(_result(index, *_delete(node, name, part)) for index, part in parts.items())
        )
        for name, parts in named
    )
    request.respond(DeleteRecordsResponse(throttle_time=NO_THROTTLE, topics=topics))


def _result(index: Any, low_watermark: Any, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark, error_code=error)


def _delete(node: Services, topic: str, part: Any) -> tuple[int, ErrorCode]:
    partition = node.replicas.find(topic, part.partition_index)
    if isinstance(partition, ErrorCode):
        return _NOTHING, partition
    if topic in INTERNAL_TOPICS:
        return _NOTHING, ErrorCode.invalid_topic_exception
    error = partition.refuses()
    log = partition.log
    if error is not None or log is None:
        return _NOTHING, error or ErrorCode.kafka_storage_error
    if not log.config.deletes and log.config.cleanup_policy:
        return _NOTHING, ErrorCode.policy_violation
    offset = log.high_watermark if part.offset == HIGH_WATERMARK else part.offset
    if offset < 0 or offset > log.high_watermark:
        return _NOTHING, ErrorCode.offset_out_of_range
    try:
        log.raise_start(offset)
    except DiskFailure as failure:
        node.replicas.fail(partition, failure)
        return _NOTHING, ErrorCode.kafka_storage_error
    return log.log_start_offset, ErrorCode.none
