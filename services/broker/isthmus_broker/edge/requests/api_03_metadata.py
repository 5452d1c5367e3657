"""Metadata: brokers, and topics with their leaders; by id since 10 and 12.

Topics that do not exist are created if the client allows it (always before version 4) and auto.create.topics.enable is on. The response is
LEADER_NOT_AVAILABLE then, and the client retries.
"""

from collections.abc import Iterator
from typing import Final

from isthmus_wire.errors import ErrorCode
from isthmus_wire.requests import MetadataRequest

from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.metadata.names import why_invalid
from isthmus_broker.core.metadata.queries import View, metadata, missing_topics
from isthmus_broker.core.metadata.result import ControllerError
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import ConnectionRefused, Request

CREATION_OPTIONAL_SINCE: Final = 4


async def handle(node: Services, request: Request) -> None:
    """Respond from the metadata image, after creating missing topics if allowed."""
    body: MetadataRequest = request.decode()
    version = request.header.api_version
    creation = await _create_missing(node, body, version)
    await node.replicas.delayed_requests.settled(lambda: _leaders(node.image, body))
    listed = node.recently_fenced.still_listed() | {
        node.config.node_id
    }  # this broker is alive, even if it is fenced at its start
    view = View(node.image, request.connection.listener_name, node.cluster_id, listed)
    try:
        request.respond(metadata(view, body, version, creation))
    except ControllerError as refusal:
        raise ConnectionRefused(refusal.message or refusal.code.name) from refusal


def _leaders(image: ClusterImage, body: MetadataRequest) -> Iterator[int]:
    """The leaders of the requested topics' partitions."""
    topics = image.topics
    if body.topics is None:
        requested = list(topics.by_id.values())
    else:
        named = (topics.by_id.get(t.topic_id) if t.topic_id else topics.named(t.name or "") for t in body.topics)
        requested = [topic for topic in named if topic is not None]
    return (partition.leader for topic in requested for partition in topic.partitions.values())


async def _create_missing(node: Services, body: MetadataRequest, version: int) -> dict[str, ErrorCode]:
    is_allowed = body.allow_auto_topic_creation or version < CREATION_OPTIONAL_SINCE
    if not is_allowed or not node.config.settings.auto_create_topics_enable:
        return {}
    outcomes: dict[str, ErrorCode] = {}
    for name in missing_topics(node.image, body):
        if why_invalid(name) is None:
            error = await node.topics.create(name)
            outcomes[name] = ErrorCode.leader_not_available if error is ErrorCode.none else error
    return outcomes
