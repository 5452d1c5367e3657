"""How a change of configurations is served: what this broker may not pass on is refused here, the controller decides the rest."""

from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.mirrors import WORKER_CLIENT_ID

from isthmus_broker.core.metadata.broker_configs import joined, refusals_here, source_refusals, without
from isthmus_broker.core.metadata.controller import refused
from isthmus_broker.core.metadata.result import Refused
from isthmus_broker.edge.requests.ask_controller import ask, ask_controller
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Request


async def ask_about_configs(node: NodeServices, request: Request) -> None:
    """Check, ask, and answer for every resource in the request's order."""
    if request.connection.listener_name in node.config.listeners.controller_names:
        await ask_controller(node, request)
        return
    asked = request.decode()
    refusals = refusals_here(node.image, asked, node.context)
    if request.header.client_id != WORKER_CLIENT_ID:
        refusals = {**source_refusals(node.image, asked), **refusals}
    passed_on = without(asked, refusals)
    nothing = refused(passed_on, Refused(ErrorCode.none))
    decided = await ask(node, passed_on) if passed_on.resources or not refusals else nothing
    request.respond(joined(decided, refused(asked, Refused(ErrorCode.none)), refusals))
