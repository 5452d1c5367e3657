"""AlterConfigs and IncrementalAlterConfigs: the receiving broker refuses settings it must not forward; the controller decides the rest."""

from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.mirrors import WORKER_CLIENT_ID

from isthmus_broker.core.metadata.broker_configs import joined, refusals_here, source_refusals, without
from isthmus_broker.edge.requests.controller_requests import forward, is_for_controller, refusal, serve_by_controller
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Request


async def serve_config_changes(node: NodeServices, request: Request) -> None:
    """Check, forward, and respond for every resource in the request's order."""
    if is_for_controller(node, request):
        await serve_by_controller(node, request)
        return
    body = request.decode()
    refusals = refusals_here(node.image, body, node.context)
    if request.header.client_id != WORKER_CLIENT_ID:
        refusals = {**source_refusals(node.image, body), **refusals}
    rest = without(body, refusals)
    no_resources = refusal(rest, ErrorCode.none)
    decided = await forward(node, rest) if rest.resources or not refusals else no_resources
    request.respond(joined(decided, refusal(body, ErrorCode.none), refusals))
