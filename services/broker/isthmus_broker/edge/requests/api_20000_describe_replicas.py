"""DescribeReplicas, an Isthmus API: offsets and lag of the replicas of partitions that this broker leads."""

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.replicas import (
    DescribedPartition,
    DescribedTopic,
    DescribeReplicasRequest,
    DescribeReplicasResponse,
)

from isthmus_broker.core.replica.status import replica_statuses
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request


def handle(node: Services, request: Request) -> None:
    """Respond for every partition in the request's order."""
    body: DescribeReplicasRequest = request.decode()
    now = node.clocks.monotonic()
    topics = tuple(
        DescribedTopic(name=topic.name, partitions=tuple(_describe(node, topic.name, i, now) for i in topic.partitions))
        for topic in body.topics
    )
    request.respond(DescribeReplicasResponse(topics=topics))


def _describe(node: Services, topic: str, index: int, now: MonotonicMs) -> DescribedPartition:
    partition = node.replicas.find(topic, index)
    error = partition if isinstance(partition, ErrorCode) else partition.refuses()
    if isinstance(partition, ErrorCode) or partition.leader is None or partition.log is None:
        why = error or ErrorCode.not_leader_or_follower
        return DescribedPartition(index=index, error_code=why, leader_epoch=-1, replicas=())
    return DescribedPartition(
        index=index,
        error_code=ErrorCode.none,
        leader_epoch=partition.leadership.leader_epoch,
        replicas=tuple(replica_statuses(partition.leader, partition.log, now)),
    )
