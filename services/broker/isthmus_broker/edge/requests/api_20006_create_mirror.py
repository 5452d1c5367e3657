"""CreateMirror, version 0, an API of our own: a mirror topic. The broker that takes the request asks the source what its topic is like."""

import asyncio
from dataclasses import replace
from typing import Final

from isthmus_wire.apis import ApiKey
from isthmus_wire.extensions.mirrors import CreateMirrorRequest, CreateMirrorResponse

from isthmus_broker.core.metadata.link_controller import refused
from isthmus_broker.core.metadata.link_requests import named
from isthmus_broker.core.metadata.links import Link, link_named
from isthmus_broker.core.metadata.mirror_requests import mirror_name
from isthmus_broker.core.metadata.result import Refused
from isthmus_broker.edge.requests.ask_controller import ask, ask_controller
from isthmus_broker.edge.requests.link_source import source_topic
from isthmus_broker.edge.requests.registry import handles
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Request

NEW_LINK_SECONDS: Final = 2.0
"""A link that was made a moment ago by way of another broker may not have reached this one: it is waited for that long."""
_LOOK_SECONDS: Final = 0.02


@handles(ApiKey.CREATE_MIRROR)
async def create_mirror(node: NodeServices, request: Request) -> None:
    """Ask the source, then the controller."""
    if request.connection.listener_name in node.config.listeners.controller_names:
        await ask_controller(node, request)
        return
    asked: CreateMirrorRequest = request.decode()
    try:
        link = await _link(node, asked.link_name)
        mirror_name(link, asked)
        asked = replace(asked, source=await source_topic(link, asked.source_topic, node.cluster_id))
    except Refused as refusal:
        response: CreateMirrorResponse = refused(asked, refusal)
    else:
        response = await ask(node, asked)
    request.respond(response)


async def _link(node: NodeServices, name: str) -> Link:
    for _ in range(round(NEW_LINK_SECONDS / _LOOK_SECONDS)):
        link = link_named(node.image, name)
        if link is not None:
            return link
        await asyncio.sleep(_LOOK_SECONDS)
    return named(node.image, name)
