"""CreateMirror, an Isthmus API: create a mirror topic. The broker that receives the request queries the source for the topic's id,
partitions and settings."""

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
from isthmus_broker.edge.requests.controller_requests import forward, is_for_controller, serve_by_controller
from isthmus_broker.edge.requests.link_source import source_topic
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Request

NEW_LINK_SECONDS: Final = 2.0
"""A link just created through another broker may not have reached this one: upper bound on the wait for it."""
_POLL_SECONDS: Final = 0.02

OPERATION = ControllerOperation(create_mirror, mirror_not_created)


async def handle(node: NodeServices, request: Request) -> None:
    """Query the source, then forward to the controller."""
    if is_for_controller(node, request):
        await serve_by_controller(node, request)
        return
    body: CreateMirrorRequest = request.decode()
    try:
        link = await _link(node, body.link_name)
        mirror_name(link, body)
        body = replace(body, source=await source_topic(link, body.source_topic, node.cluster_id))
    except ControllerError as refusal:
        response: CreateMirrorResponse = OPERATION.refuse(body, refusal)
    else:
        response = await forward(node, body)
    request.respond(response)


async def _link(node: NodeServices, name: str) -> Link:
    for _ in range(round(NEW_LINK_SECONDS / _POLL_SECONDS)):
        link = link_named(node.image, name)
        if link is not None:
            return link
        await asyncio.sleep(_POLL_SECONDS)
    return named(node.image, name)
