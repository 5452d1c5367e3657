"""ListOffsets: offsets by time.

Special timestamps: -1 latest, -2 earliest, -3 the record with the largest timestamp (7), -4 earliest local (8), -5 latest in remote storage
(9), -6 earliest not yet uploaded (11). Without remote storage -4 is -2; -5 and -6 have no offset.

A new leader whose high watermark may be older than its predecessor's responds with OFFSET_NOT_AVAILABLE (5), rather than with an offset
that would go backwards.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.list_offsets.v11.request import ListOffsetsRequest
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

from isthmus_broker.core.log.append_check import is_quick
from isthmus_broker.core.log.time_lookup import TimestampOffset, first_at
from isthmus_broker.core.replica.consumer_reader import CONSUMERS, DEBUGGING, READ_COMMITTED
from isthmus_broker.edge.replication.batch_opener import BatchOpener
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.storage.files import DiskFailure
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.transport.connection import Request

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
_FIXED: Final = (EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
"""These timestamps do not depend on the high watermark."""
_SINCE: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_NOTHING: Final = (-1, -1, -1)
NOT_AVAILABLE_SINCE: Final = 5

TimestampAndOffset = tuple[int, int, int]
"""Timestamp, offset, leader epoch."""


async def handle(node: Services, request: Request) -> None:
    """Respond for every partition once, in the request's order; one named twice is an invalid request."""
    body: ListOffsetsRequest = request.decode()
    counts = Counter((topic.name, int(part.partition_index)) for topic in body.topics for part in topic.partitions)
    topics: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
    for topic in body.topics:
        for part in topic.partitions:
            partitions = topics.setdefault(topic.name, {})
            if counts[topic.name, part.partition_index] > 1:
                partitions[part.partition_index] = _refused(part.partition_index, ErrorCode.invalid_request)
            else:
                partitions[part.partition_index] = await _offset_of(
                    node, request.header.api_version, body, topic.name, part
                )
    by_name: Any = topics.items()
    listed = tuple(ListOffsetsTopicResponse(name=name, partitions=tuple(parts.values())) for name, parts in by_name)
    request.respond(ListOffsetsResponse(throttle_time=NO_THROTTLE, topics=listed))


def _refused(index: Any, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=error)


async def _offset_of(
    node: Services, version: int, body: ListOffsetsRequest, topic: str, part: Any
) -> ListOffsetsPartitionResponse:
    partition = node.replicas.find(topic, part.partition_index)
    if isinstance(partition, ErrorCode):
        return _refused(part.partition_index, partition)
    error = partition.refuses(part.current_leader_epoch, leader_only=body.replica_id != DEBUGGING)
    if error is not None or partition.log is None:
        return _refused(part.partition_index, error or ErrorCode.kafka_storage_error)
    if part.timestamp < 0 and (part.timestamp < EARLIEST_PENDING_UPLOAD or version < _SINCE.get(part.timestamp, 1)):
        return _refused(part.partition_index, ErrorCode.unsupported_version)
    if body.isolation_level > READ_COMMITTED:
        return _refused(part.partition_index, ErrorCode.unknown_server_error)
    is_consumer = body.replica_id in CONSUMERS
    committed = is_consumer and body.isolation_level == READ_COMMITTED
    try:
        timestamp, offset, epoch = await _find_offset(
            node, partition, partition.log, part.timestamp, committed=committed, consumer=is_consumer
        )
    except DiskFailure as failure:
        node.replicas.fail(partition, failure)
        return _refused(part.partition_index, ErrorCode.kafka_storage_error)
    except _LogClosed:
        return _refused(part.partition_index, ErrorCode.not_leader_or_follower)
    if is_consumer and _runs_ahead(partition, part.timestamp, offset):
        later = version >= NOT_AVAILABLE_SINCE
        return _refused(
            part.partition_index, ErrorCode.offset_not_available if later else ErrorCode.leader_not_available
        )
    values: Any = {"timestamp": timestamp, "offset": offset, "leader_epoch": epoch}
    return ListOffsetsPartitionResponse(partition_index=part.partition_index, error_code=ErrorCode.none, **values)


def _runs_ahead(partition: Partition, timestamp: int, offset: int) -> bool:
    """Whether the response depends on records that this leader may not know to be committed yet."""
    leader, log = partition.leader, partition.log
    if leader is None or log is None or leader.is_high_watermark_current(log):
        return False
    return timestamp == LATEST or (timestamp not in _FIXED and offset < 0)


async def _find_offset(
    node: Services, partition: Partition, log: Log, timestamp: int, *, committed: bool, consumer: bool
) -> TimestampAndOffset:
    """The offset for a timestamp, special or not."""
    end = log.last_stable_offset if committed else log.high_watermark if consumer else log.end_offset
    if timestamp == LATEST:
        return -1, end, log.epochs.latest_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset, log.epochs.epoch_at(log.log_start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOTHING

    def is_open() -> bool:
        return partition.log is log and node.replicas.find(partition.topic, partition.index) is partition

    record = await find_record(node.replicas.opener, log, timestamp, is_open)
    if record is None or record.offset >= end:
        return _NOTHING
    return record


class _LogClosed(Exception):
    """The log was deleted or moved during the lookup."""


async def find_record(
    opener: BatchOpener, log: Log, timestamp: int, is_open: Callable[[], bool] = lambda: True
) -> TimestampOffset | None:
    """The first record not earlier than `timestamp`, or the one with the largest timestamp; large batches are opened in a thread."""
    from_offset = 0 if timestamp == MAX_TIMESTAMP else log.log_start_offset
    stored = log.latest_batch() if timestamp == MAX_TIMESTAMP else log.batch_at_time(timestamp, from_offset)
    while stored is not None:
        header, batch = stored
        earliest = header.max_timestamp if timestamp == MAX_TIMESTAMP else timestamp
        lookup = partial(first_at, batch, header, earliest, from_offset, log.config.max_message_bytes)
        record = lookup() if is_quick(header) else await opener.run(lookup)
        if not is_open():
            raise _LogClosed
        if record is not None or timestamp == MAX_TIMESTAMP:
            return record
        from_offset = header.last_offset + 1
        stored = log.batch_at_time(timestamp, from_offset)
    return None
