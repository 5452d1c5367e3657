"""CreatePartitions, versions 0 to 3: add partitions to topics, placed by the controller or as asked.

A mirror topic has as many as its source: only the link's worker may add some, which says so by its client id.
"""

from dataclasses import replace
from typing import Any

from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.mirrors import WORKER_CLIENT_ID
from kio.schema.create_partitions.v3.request import CreatePartitionsRequest
from kio.schema.create_partitions.v3.response import CreatePartitionsResponse, CreatePartitionsTopicResult

from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.metadata.links import copied
from isthmus_broker.edge.controller.controller_channel import CLIENT_ID as BROKER
from isthmus_broker.edge.requests.ask_controller import ask, ask_controller, decide_here
from isthmus_broker.edge.requests.registry import handles
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Request


@handles(ApiKey.CREATE_PARTITIONS)
async def create_partitions(node: NodeServices, request: Request) -> None:
    """Refuse what is a mirror's, and ask about the rest."""
    if request.header.client_id in (WORKER_CLIENT_ID, BROKER):
        await ask_controller(node, request)
        return
    asked: CreatePartitionsRequest = request.decode()
    refusals = [refusal for topic in asked.topics if (refusal := _refusal(node.image, topic.name)) is not None]
    names = {refusal.name for refusal in refusals}
    rest: Any = tuple(topic for topic in asked.topics if topic.name not in names)
    passed_on = replace(asked, topics=rest)
    on_controllers = request.connection.listener_name in node.config.listeners.controller_names
    decided: CreatePartitionsResponse = await (decide_here if on_controllers else ask)(node, passed_on)
    request.respond(replace(decided, results=(*decided.results, *refusals)))


def _refusal(image: ClusterImage, topic: str) -> CreatePartitionsTopicResult | None:
    mirror = copied(image, topic)
    if mirror is None:
        return None
    why = f"Topic {topic} is a mirror topic of link '{mirror.link_name}': it gets its partitions from its source."
    return entity(CreatePartitionsTopicResult, name=topic, error_code=ErrorCode.policy_violation, error_message=why)
