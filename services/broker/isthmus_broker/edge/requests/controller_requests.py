"""Requests that the active controller processes: a broker forwards them to the active controller; a controller that is not active refuses
them with NOT_CONTROLLER. The response is sent when the records of the decision are committed."""

from typing import Any

from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.metadata.result import ControllerError
from isthmus_broker.edge.controller.controller import NotController
from isthmus_broker.edge.controller.controller_channel import ControllerUnreachable
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.requests.table import operation_of
from isthmus_broker.edge.transport.connection import Request


async def serve_by_controller(node: NodeServices, request: Request) -> None:
    """Serve a request by the controller's decision alone."""
    request.respond(await controller_response(node, request, request.decode()))


async def controller_response(node: NodeServices, request: Request, body: Any) -> Any:
    """Process `body` on this node for a request on a controller listener, else at the active controller."""
    return await (decide_here if is_for_controller(node, request) else forward)(node, body)


def is_for_controller(node: NodeServices, request: Request) -> bool:
    """Whether the request arrived on a controller listener."""
    return request.connection.listener_name in node.config.listeners.controller_names


async def forward(node: NodeServices, body: Any) -> Any:
    """The active controller's response, or REQUEST_TIMED_OUT if it cannot be reached."""
    try:
        return await node.controller.send(body)
    except ControllerUnreachable:
        return refusal(body, ErrorCode.request_timed_out)


async def decide_here(node: NodeServices, body: Any) -> Any:
    """This controller's response, or NOT_CONTROLLER if it is not the active one."""
    try:
        return await node.quorum.active.decide(body)
    except NotController:
        return refusal(body, ErrorCode.not_controller)


def refusal(body: Any, code: ErrorCode) -> Any:
    """The response that refuses a request as a whole."""
    return operation_of(body.__api_key__).refuse(body, ControllerError(code))
