"""DescribeCluster: the brokers' endpoints on this listener; on a controller, the controllers (KIP-919)."""

from isthmus_broker.core.metadata.queries import View, describe_cluster, describe_controllers
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Request


def handle(node: NodeServices, request: Request) -> None:
    """Respond from the metadata image."""
    view = View(node.image, request.connection.listener_name, node.cluster_id)
    body, version = request.decode(), request.header.api_version
    if view.listener in node.config.listeners.controller_names:
        request.respond(describe_controllers(view, body, version, node.quorum.leader_id))
    else:
        request.respond(describe_cluster(view, body, version))
