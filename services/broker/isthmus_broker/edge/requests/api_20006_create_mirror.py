"""CreateMirror, an API of our own: a mirror topic. The broker that takes the request asks the source what its topic is like."""

import asyncio
from dataclasses import replace
from typing import Final

from isthmus_wire.extensions.mirrors import CreateMirrorRequest, CreateMirrorResponse

from isthmus_broker.core.metadata.link_refusals import mirror_not_created
from isthmus_broker.core.metadata.link_requests import named
from isthmus_broker.core.metadata.links import Link, link_named
from isthmus_broker.core.metadata.mirror_requests import create_mirror, mirror_name
from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.core.metadata.result import ControllerError
from isthmus_broker.edge.requests.controller_requests import answer_by_controller, forward, is_for_controller
from isthmus_broker.edge.requests.link_source import source_topic
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Request

NEW_LINK_SECONDS: Final = 2.0
"""A link that was made a moment ago by way of another broker may not have reached this one: it is waited for that long."""
_LOOK_SECONDS: Final = 0.02

OPERATION = ControllerOperation(create_mirror, mirror_not_created)


async def handle(node: NodeServices, request: Request) -> None:
    """Ask the source, then the controller."""
    if is_for_controller(node, request):
        await answer_by_controller(node, request)
        return
    asked: CreateMirrorRequest = request.decode()
    try:
        link = await _link(node, asked.link_name)
        mirror_name(link, asked)
        asked = replace(asked, source=await source_topic(link, asked.source_topic, node.cluster_id))
    except ControllerError as refusal:
        response: CreateMirrorResponse = OPERATION.refuse(asked, refusal)
    else:
        response = await forward(node, asked)
    request.respond(response)


async def _link(node: NodeServices, name: str) -> Link:
    for _ in range(round(NEW_LINK_SECONDS / _LOOK_SECONDS)):
        link = link_named(node.image, name)
        if link is not None:
            return link
        await asyncio.sleep(_LOOK_SECONDS)
    return named(node.image, name)
