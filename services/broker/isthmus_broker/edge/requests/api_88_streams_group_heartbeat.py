"""StreamsGroupHeartbeat: all of KIP-1071's group membership. Internal topics that are missing are created after the response."""

from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.group.streams.responses import TopicsToCreate
from isthmus_broker.edge.requests.group_requests import is_streams_protocol_enabled, refuse, submit
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request

__all__ = ["handle", "refuse"]


def handle(node: Services, request: Request) -> None:
    """Serve a heartbeat by its group's shard, if the settings and the cluster's features enable the protocol."""
    if not is_streams_protocol_enabled(node):
        refuse(request, ErrorCode.unsupported_version)
        return

    def respond(response: object) -> None:
        if isinstance(response, TopicsToCreate):
            node.streams_topics.create(response.topics, response.retry_ms)
            response = response.explained(node.streams_topics.errors(topic.name for topic in response.topics))
        request.respond(response)

    submit(node, request, respond)
