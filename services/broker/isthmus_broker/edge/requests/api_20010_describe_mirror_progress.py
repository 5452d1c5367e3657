"""DescribeMirrorProgress, an API of our own: where the copies end that this broker leads, and what it heard of the source."""

from isthmus_wire.extensions.mirrors import (
    DescribeMirrorProgressRequest,
    DescribeMirrorProgressResponse,
    TopicProgress,
)

from isthmus_broker.core.replica.mirror_progress import mirror_progress
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request


def handle(node: Services, request: Request) -> None:
    """Answer for every partition in the request's order."""
    asked: DescribeMirrorProgressRequest = request.decode()
    now, find = node.clocks.monotonic(), node.replicas.find
    topics = tuple(
        TopicProgress(
            name=topic.name, partitions=tuple(mirror_progress(find(topic.name, i), i, now) for i in topic.partitions)
        )
        for topic in asked.topics
    )
    request.respond(DescribeMirrorProgressResponse(topics=topics))
