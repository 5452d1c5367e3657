"""How a request that changes the cluster's metadata is served: decided by the controller, answered when its records are committed."""

from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.metadata.controller import refused
from isthmus_broker.core.metadata.result import Refused
from isthmus_broker.edge.drive.controller_channel import ControllerUnreachable
from isthmus_broker.edge.net.connection import Request
from isthmus_broker.edge.services import Services


async def ask_controller(node: Services, request: Request) -> None:
    """Decide, wait for the commit, answer."""
    asked = request.decode()
    try:
        response = await node.controller.ask(asked)
    except ControllerUnreachable:
        response = refused(asked, Refused(ErrorCode.request_timed_out))
    request.respond(response)
