"""ListConfigResources, versions 0 and 1: what has settings, by type since 1."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.core.metadata.config_queries import list_config_resources
from isthmus_broker.edge.requests.registry import handles
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request


@handles(ApiKey.LIST_CONFIG_RESOURCES)
def answer_resources(node: Services, request: Request) -> None:
    """Answer from the image."""
    request.respond(list_config_resources(node.image, request.decode(), request.header.api_version))
