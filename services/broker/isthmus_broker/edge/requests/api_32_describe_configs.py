"""DescribeConfigs: settings in force, where each comes from, and what would hold without it."""

from isthmus_broker.core.metadata.config_queries import describe_configs
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request


def handle(node: Services, request: Request) -> None:
    """Answer from the image and this node's own settings."""
    request.respond(describe_configs(node.image, request.decode(), node.config))
