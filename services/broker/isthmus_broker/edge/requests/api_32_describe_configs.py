"""DescribeConfigs: the settings in force, their sources, and the values they override."""

from isthmus_broker.core.metadata.config_queries import describe_configs
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request


def handle(node: Services, request: Request) -> None:
    """Respond from the metadata image and this node's own settings."""
    request.respond(describe_configs(node.image, request.decode(), node.config))
