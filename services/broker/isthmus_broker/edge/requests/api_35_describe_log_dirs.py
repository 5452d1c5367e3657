"""DescribeLogDirs: the logs in each log directory, and the free space of their volumes."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v5.response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.storage.checkpoints import TopicPartition
from isthmus_broker.edge.storage.files import DiskFailure
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.log_dir import LogDir
from isthmus_broker.edge.transport.connection import Request


def handle(node: Services, request: Request) -> None:
    """Respond for every directory, also those without any of the requested partitions."""
    body: DescribeLogDirsRequest = request.decode()
    requested: set[TopicPartition] | None = None
    if body.topics is not None:
        requested = {(topic.topic, index) for topic in body.topics for index in topic.partitions}
    cordoned = {Path(text).absolute() for text in node.config.cordoned_log_dirs}
    results = tuple(
        _describe(node, directory, requested, is_cordoned=directory.path in cordoned)
        for directory in node.logs.directories
    )
    request.respond(DescribeLogDirsResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, results=results))


def _describe(
    node: Services, directory: LogDir, requested: set[TopicPartition] | None, *, is_cordoned: bool
) -> DescribeLogDirsResult:
    try:
        total, usable = directory.usable_bytes() if directory.online else (-1, -1)
    except DiskFailure:
        total = usable = -1
    if total < 0:
        return DescribeLogDirsResult(error_code=ErrorCode.kafka_storage_error, log_dir=str(directory.path), topics=())
    logs = [(key, node.logs.logs[key], False) for key in node.logs.keys_in(directory)]
    logs += [(key, copy.log, True) for key, copy in node.logs.copies.items() if copy.directory is directory]
    entries = [entry for entry in logs if requested is None or entry[0] in requested]
    volume: Any = {"total_bytes": total, "usable_bytes": usable}
    return DescribeLogDirsResult(
        error_code=ErrorCode.none,
        log_dir=str(directory.path),
        topics=_by_topic(node, entries),
        is_cordoned=is_cordoned,
        **volume,
    )


def _by_topic(node: Services, logs: Iterable[tuple[TopicPartition, Log, bool]]) -> Any:
    topics: dict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
    for (topic, index), log, is_future in logs:
        # A copy's lag is against the log it will replace, a log's against its own high watermark.
        goal = node.logs.logs[topic, index].end_offset if is_future else log.high_watermark
        lag = max(0, goal - log.end_offset)
        fields: Any = {
            "partition_index": index,
            "partition_size": log.size,
            "offset_lag": lag,
            "is_future_key": is_future,
        }
        topics[topic].append(DescribeLogDirsPartition(**fields))
    named: Any = topics.items()
    return tuple(DescribeLogDirsTopic(name=name, partitions=tuple(partitions)) for name, partitions in named)
