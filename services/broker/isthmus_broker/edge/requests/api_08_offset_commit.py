"""OffsetCommit: record the offsets that a group has processed; topics by id since 10."""

from isthmus_wire.errors import ErrorCode
from isthmus_wire.requests import OffsetCommitRequest

from isthmus_broker.core.coordinator.partition import coordinator_partition
from isthmus_broker.core.group.commit_topics import refuse_commit
from isthmus_broker.core.group.offsets import TOPIC_ID_VERSION
from isthmus_broker.edge.requests.group_requests import context_of, refuse
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request

__all__ = ["handle", "refuse"]


def handle(node: Services, request: Request) -> None:
    """Have the group's shard record the offsets."""
    body: OffsetCommitRequest = request.decode()
    index = coordinator_partition(body.group_id, node.groups.topic_partitions())
    if not node.groups.submit(index, body, context_of(request), request.respond):
        by_id = request.header.api_version >= TOPIC_ID_VERSION
        request.respond(refuse_commit(node.groups.view, body, ErrorCode.not_coordinator, by_id=by_id))
