"""CreateMirror, version 0, an API of our own: a mirror topic. The broker that takes the request asks the source what its topic is like."""

from dataclasses import replace

from isthmus_wire.apis import ApiKey
from isthmus_wire.extensions.mirrors import CreateMirrorRequest, CreateMirrorResponse

from isthmus_broker.core.metadata.link_controller import refused
from isthmus_broker.core.metadata.link_requests import named
from isthmus_broker.core.metadata.mirror_requests import mirror_name
from isthmus_broker.core.metadata.result import Refused
from isthmus_broker.edge.api.ask_controller import ask, ask_controller
from isthmus_broker.edge.api.registry import handles
from isthmus_broker.edge.link_source import source_topic
from isthmus_broker.edge.net.connection import Request
from isthmus_broker.edge.services import NodeServices


@handles(ApiKey.CREATE_MIRROR)
async def create_mirror(node: NodeServices, request: Request) -> None:
    """Ask the source, then the controller."""
    if request.connection.listener_name in node.config.listeners.controller_names:
        await ask_controller(node, request)
        return
    asked: CreateMirrorRequest = request.decode()
    try:
        link = named(node.image, asked.link_name)
        mirror_name(link, asked)
        asked = replace(asked, source=await source_topic(link, asked.source_topic, node.cluster_id))
    except Refused as refusal:
        response: CreateMirrorResponse = refused(asked, refusal)
    else:
        response = await ask(node, asked)
    request.respond(response)
