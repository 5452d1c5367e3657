"""DeleteRecords: raise the log start offset; -1 means up to the high watermark.

The response is the low watermark: the lowest log start offset of the live replicas. It is sent when every one of them has deleted the
records, which followers do with their next fetch, or when the request times out.
"""

import asyncio
from typing import Any, Final, NamedTuple

from isthmus_model.internal_topics import INTERNAL_TOPICS
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.delete_records.v2.request import DeleteRecordsRequest
from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

from isthmus_broker.core.replica.leader import ReplicaLeader
from isthmus_broker.core.replica.waiting import Waiting
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.storage.files import DiskFailure
from isthmus_broker.edge.transport.connection import Request

HIGH_WATERMARK: Final = -1
_NOTHING: Final = -1
_TIMED_OUT: Final = (_NOTHING, ErrorCode.request_timed_out)
_Key = tuple[str, int]
_Outcome = tuple[int, ErrorCode]


class _Deleting(NamedTuple):
    """A partition whose records are deleted here, and perhaps not yet on its other replicas."""

    partition: Partition
    leader: ReplicaLeader
    offset: int

    def outcome(self) -> _Outcome | None:
        """None while replicas are missing."""
        log = self.partition.log
        if log is None:
            return _NOTHING, ErrorCode.kafka_storage_error
        if self.partition.leader is not self.leader:
            return _NOTHING, ErrorCode.not_leader_or_follower
        low_watermark = self.leader.low_watermark(log)
        return (low_watermark, ErrorCode.none) if low_watermark >= self.offset else None


def handle(node: Services, request: Request) -> None:
    """Delete here, then wait for the other replicas of the partitions that have some."""
    body: DeleteRecordsRequest = request.decode()
    requested: dict[_Key, Any] = {}
    for topic in body.topics:
        for part in topic.partitions:
            requested[topic.name, part.partition_index] = part  # the last counts if a partition is named twice
    deletions = {key: _delete(node, key[0], part) for key, part in requested.items()}
    deleting = [one.partition for one in deletions.values() if isinstance(one, _Deleting)]

    def outcomes_now() -> dict[_Key, _Outcome | None]:
        return {key: one.outcome() if isinstance(one, _Deleting) else one for key, one in deletions.items()}

    def is_complete(outcomes: dict[_Key, _Outcome | None]) -> bool:
        return None not in outcomes.values()

    def respond(outcomes: dict[_Key, _Outcome | None]) -> None:
        request.respond(_response(outcomes))

    outcomes = outcomes_now()
    if is_complete(outcomes):
        respond(outcomes)
    else:
        timeout_ms = int(body.timeout.total_seconds() * 1000)
        waiting = Waiting(asyncio.get_running_loop(), deleting, timeout_ms, outcomes_now, is_complete, respond)
        request.connection.on_abandoned = waiting.cancel


def _response(outcomes: dict[_Key, _Outcome | None]) -> DeleteRecordsResponse:
    topics: dict[Any, list[DeleteRecordsPartitionResult]] = {}
    for (name, index), outcome in outcomes.items():
        topics.setdefault(name, []).append(_result(index, *(outcome or _TIMED_OUT)))
    return DeleteRecordsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            DeleteRecordsTopicResult(name=name, partitions=tuple(results)) for name, results in topics.items()
        ),
    )


def _result(index: Any, low_watermark: Any, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark, error_code=error)


def _delete(node: Services, topic: str, part: Any) -> _Outcome | _Deleting:
    partition = node.replicas.find(topic, part.partition_index)
    if isinstance(partition, ErrorCode):
        return _NOTHING, partition
    if topic in INTERNAL_TOPICS:
        return _NOTHING, ErrorCode.invalid_topic_exception
    error = partition.refuses()
    log = partition.log
    if error is not None or log is None or partition.leader is None:
        return _NOTHING, error or ErrorCode.kafka_storage_error
    if partition.is_mirror:
        return _NOTHING, ErrorCode.policy_violation
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
    partition.wake()  # followers learn of the new start by their fetches
    return _Deleting(partition, partition.leader, offset)
