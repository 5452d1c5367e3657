"""Metadata: brokers, and topics with their leaders; by id since 10 and 12.

Topics that do not exist are created on the way when the client allows it (always before version 4) and auto.create.topics.enable is on;
the client is told LEADER_NOT_AVAILABLE and asks again.
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
    """Answer from the image, after creating what is missing and wanted."""
    asked: MetadataRequest = request.decode()
    version = request.header.api_version
    creation = await _create_missing(node, asked, version)
    if node.replicas.held_requests:
        await node.replicas.held_requests.settled(_leaders(node.image, asked))
    view = View(node.image, request.connection.listener_name, node.cluster_id, node.departed.still_listed())
    try:
        request.respond(metadata(view, asked, version, creation))
    except ControllerError as refusal:
        raise ConnectionRefused(refusal.message or refusal.code.name) from refusal


def _leaders(image: ClusterImage, asked: MetadataRequest) -> Iterator[int]:
    """Who leads what is asked about."""
    topics = image.topics
    if asked.topics is None:
        found = list(topics.by_id.values())
    else:
        named = (topics.by_id.get(t.topic_id) if t.topic_id else topics.named(t.name or "") for t in asked.topics)
        found = [topic for topic in named if topic is not None]
    return (partition.leader for topic in found for partition in topic.partitions.values())


async def _create_missing(node: Services, asked: MetadataRequest, version: int) -> dict[str, ErrorCode]:
    wanted = asked.allow_auto_topic_creation or version < CREATION_OPTIONAL_SINCE
    if not wanted or not node.config.settings.auto_create_topics_enable:
        return {}
    outcomes: dict[str, ErrorCode] = {}
    for name in missing_topics(node.image, asked):
        if why_invalid(name) is None:
            error = await node.topics.create(name)
            outcomes[name] = ErrorCode.leader_not_available if error is ErrorCode.none else error
    return outcomes
