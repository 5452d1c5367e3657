"""DescribeTopicPartitions: partitions page by page, with eligible leaders."""

from isthmus_broker.core.metadata.queries import View, describe_topic_partitions
from isthmus_broker.core.metadata.result import ControllerError
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import ConnectionRefused, Request


def handle(node: Services, request: Request) -> None:
    """Respond with one page from the metadata image."""
    view = View(node.image, request.connection.listener_name, node.cluster_id)
    limit = node.config.settings.max_request_partition_size_limit
    try:
        request.respond(describe_topic_partitions(view, request.decode(), limit))
    except ControllerError as refusal:
        raise ConnectionRefused(refusal.message or refusal.code.name) from refusal
