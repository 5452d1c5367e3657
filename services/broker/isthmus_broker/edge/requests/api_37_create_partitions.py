"""CreatePartitions: add partitions to topics, placed by the controller or as requested.

A mirror topic has as many as its source: only the link's worker, identified by its client id, may add some.
"""

from dataclasses import replace
from typing import Any

from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.mirrors import WORKER_CLIENT_ID
from kio.schema.create_partitions.v3.request import CreatePartitionsRequest
from kio.schema.create_partitions.v3.response import CreatePartitionsResponse, CreatePartitionsTopicResult

from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.metadata.links import copied
from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.core.metadata.refusals import partitions_not_created
from isthmus_broker.core.metadata.topics import create_partitions
from isthmus_broker.edge.controller.controller_channel import CLIENT_ID as BROKER
from isthmus_broker.edge.requests.controller_requests import controller_response, serve_by_controller
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Request

OPERATION = ControllerOperation(create_partitions, partitions_not_created)


async def handle(node: NodeServices, request: Request) -> None:
    """Refuse mirror topics, and forward the rest."""
    if request.header.client_id in (WORKER_CLIENT_ID, BROKER):
        await serve_by_controller(node, request)
        return
    body: CreatePartitionsRequest = request.decode()
    refusals = [refusal for topic in body.topics if (refusal := _refusal(node.image, topic.name)) is not None]
    names = {refusal.name for refusal in refusals}
    rest: Any = tuple(topic for topic in body.topics if topic.name not in names)
    passed_on = replace(body, topics=rest)
    decided: CreatePartitionsResponse = await controller_response(node, request, passed_on)
    request.respond(replace(decided, results=(*decided.results, *refusals)))


def _refusal(image: ClusterImage, topic: str) -> CreatePartitionsTopicResult | None:
    mirror = copied(image, topic)
    if mirror is None:
        return None
    why = f"Topic {topic} is a mirror topic of link '{mirror.link_name}': it gets its partitions from its source."
    return entity(CreatePartitionsTopicResult, name=topic, error_code=ErrorCode.policy_violation, error_message=why)
