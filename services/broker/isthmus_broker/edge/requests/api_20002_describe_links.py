"""DescribeLinks, an Isthmus API: links with their settings, and what workers last reported about them."""

from isthmus_broker.core.metadata.link_queries import describe_links
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request


def handle(node: Services, request: Request) -> None:
    """Respond from the metadata image."""
    request.respond(describe_links(node.image, request.decode()))
