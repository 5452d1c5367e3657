"""CreateLink, an Isthmus API: create a link. The broker that receives the request connects to the source cluster for its id."""

from dataclasses import replace

from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.links import CreateLinkRequest, CreateLinkResponse

from isthmus_broker.core.config.values import ConfigRefused
from isthmus_broker.core.links.settings import altered
from isthmus_broker.core.metadata.link_refusals import link_not_created
from isthmus_broker.core.metadata.link_requests import create_link
from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.core.metadata.result import ControllerError
from isthmus_broker.edge.requests.controller_requests import forward, is_for_controller, serve_by_controller
from isthmus_broker.edge.requests.link_source import check_same, cluster_id_of
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Request

OPERATION = ControllerOperation(create_link, link_not_created)


async def handle(node: NodeServices, request: Request) -> None:
    """Query the source if validation is requested, then forward to the controller."""
    if is_for_controller(node, request):
        await serve_by_controller(node, request)
        return
    body: CreateLinkRequest = request.decode()
    try:
        if body.validate_link:
            body = replace(body, source_cluster_id=await _source_of(body))
    except ControllerError as refusal:
        response: CreateLinkResponse = OPERATION.refuse(body, refusal)
    else:
        response = await forward(node, body)
    request.respond(response)


async def _source_of(body: CreateLinkRequest) -> str:
    try:
        settings = altered({}, [(config.name, config.value) for config in body.configs])
    except ConfigRefused as refusal:
        raise ControllerError(ErrorCode.invalid_config, str(refusal)) from None
    cluster_id = await cluster_id_of(settings)
    check_same(body.source_cluster_id or "", cluster_id)
    return cluster_id
