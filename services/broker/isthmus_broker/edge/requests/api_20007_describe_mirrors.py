"""DescribeMirrors, an Isthmus API: mirror topics and their states."""

from isthmus_broker.core.metadata.link_queries import describe_mirrors
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request


def handle(node: Services, request: Request) -> None:
    """Respond from the metadata image."""
    request.respond(describe_mirrors(node.image, request.decode()))
