"""DescribeCluster, versions 0 to 2: the brokers as clients of this listener reach them."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.core.metadata.queries import View, describe_cluster
from isthmus_broker.edge.api.registry import handles
from isthmus_broker.edge.net.connection import Request
from isthmus_broker.edge.services import Services


@handles(ApiKey.DESCRIBE_CLUSTER)
def answer_cluster(node: Services, request: Request) -> None:
    """Answer from the image."""
    view = View(node.image, request.connection.listener_name, node.cluster_id)
    request.respond(describe_cluster(view, request.decode(), request.header.api_version))
