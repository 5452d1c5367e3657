"""AlterReplicaLogDirs: move logs between this node's directories, in the background; DescribeLogDirs shows the progress."""

from collections import defaultdict
from typing import Any

from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDirsRequest
from kio.schema.alter_replica_log_dirs.v2.response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.storage.files import DiskFailure
from isthmus_broker.edge.transport.connection import Request


def handle(node: Services, request: Request) -> None:
    """Begin each move, and report whether it could begin."""
    body: AlterReplicaLogDirsRequest = request.decode()
    topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = defaultdict(list)
    for directory in body.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                error = _move(node, directory.path, topic.name, index)
                topics[topic.name].append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error))
    named: Any = topics.items()
    results = tuple(AlterReplicaLogDirTopicResult(topic_name=name, partitions=tuple(parts)) for name, parts in named)
    request.respond(AlterReplicaLogDirsResponse(throttle_time=NO_THROTTLE, results=results))


def _move(node: Services, path: str, topic: str, index: int) -> ErrorCode:
    target = next((directory for directory in node.logs.directories if str(directory.path) == path), None)
    if target is None:
        return ErrorCode.log_dir_not_found
    if not target.online:
        return ErrorCode.kafka_storage_error
    partition = node.replicas.find(topic, index)
    if isinstance(partition, ErrorCode):
        return partition
    if partition.log is None:
        return ErrorCode.kafka_storage_error
    try:
        node.mover.move((topic, index), target)
    except DiskFailure as failure:
        node.logs.fail(target, failure)
        return ErrorCode.kafka_storage_error
    return ErrorCode.none
