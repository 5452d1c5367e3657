"""ListConfigResources: the resources that have settings, by type since 1."""

from isthmus_broker.core.metadata.config_queries import list_config_resources
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request


def handle(node: Services, request: Request) -> None:
    """Respond from the metadata image."""
    request.respond(list_config_resources(node.image, request.decode(), request.header.api_version))
