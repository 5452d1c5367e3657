"""How a request that changes the cluster's metadata is served: decided by the active controller, answered when its records are committed.

A broker asks the active controller wherever it is; a controller that is not the active one says so.
"""

from typing import Any

from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions import FIRST_OWN_KEY

from isthmus_broker.core.metadata.controller import refused
from isthmus_broker.core.metadata.result import Refused
from isthmus_broker.edge.controller.active_controller import ABOUT_THE_QUORUM
from isthmus_broker.edge.controller.controller import NotController
from isthmus_broker.edge.controller.controller_channel import ControllerUnreachable
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Request


async def ask_controller(node: NodeServices, request: Request) -> None:
    """Ask, and answer."""
    asked = request.decode()
    if request.connection.listener_name in node.config.listeners.controller_names:
        request.respond(await decide_here(node, asked))
    else:
        request.respond(await ask(node, asked))


async def ask(node: NodeServices, asked: Any) -> Any:
    """The active controller's response, or that it is not to be reached."""
    try:
        return await node.controller.ask(asked)
    except ControllerUnreachable:
        return _refused(asked, ErrorCode.request_timed_out)


async def decide_here(node: NodeServices, asked: Any) -> Any:
    """The response of this controller, which may be that it is not the active one."""
    try:
        return await node.quorum.active.answer(asked)
    except NotController:
        return _refused(asked, ErrorCode.not_controller)


def _refused(asked: Any, code: ErrorCode) -> Any:
    if asked.__api_key__ >= FIRST_OWN_KEY:
        from isthmus_broker.core.metadata import link_controller

        return link_controller.refused(asked, Refused(code))
    if asked.__api_key__ in ABOUT_THE_QUORUM:
        from isthmus_broker.edge.controller import quorum_admin

        return quorum_admin.refused(asked, code)
    return refused(asked, Refused(code))
