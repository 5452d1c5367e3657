"""DescribeMirrorProgress, an Isthmus API: log end offsets of the mirror partitions that this broker leads, and the last reported source
position."""

from isthmus_wire.extensions.mirrors import (
    DescribeMirrorProgressRequest,
    DescribeMirrorProgressResponse,
    TopicProgress,
)

from isthmus_broker.core.replica.mirror_progress import mirror_progress
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request


def handle(node: Services, request: Request) -> None:
    """Respond for every partition in the request's order."""
    body: DescribeMirrorProgressRequest = request.decode()
    now, find = node.clocks.monotonic(), node.replicas.find
    topics = tuple(
        TopicProgress(
            name=topic.name, partitions=tuple(mirror_progress(find(topic.name, i), i, now) for i in topic.partitions)
        )
        for topic in body.topics
    )
    request.respond(DescribeMirrorProgressResponse(topics=topics))
