"""AlterMirrors, an Isthmus API: pause, resume, promote and fail over mirror topics, and record what workers report about them.

The broker that receives the request queries the partition leaders for the topics' lag if they are to be stopped. Promotion is refused for a
topic that has not caught up with its source; failover waits for nothing.
"""

import asyncio
from dataclasses import replace
from typing import Final

from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.mirrors import AlteredMirror, AlterMirrorsRequest, AlterMirrorsResponse, MirrorAction
from isthmus_wire.extensions.mirrors import MirrorState as State

from isthmus_broker.core.links.promotion import TopicProgress, lags_of, why_not_caught_up
from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.metadata.link_refusals import mirrors_not_altered
from isthmus_broker.core.metadata.links import mirror_of
from isthmus_broker.core.metadata.mirror_requests import alter_mirrors
from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.core.metadata.result import MAX_RECORDS_PER_REQUEST
from isthmus_broker.edge.requests.controller_requests import forward, is_for_controller, serve_by_controller
from isthmus_broker.edge.requests.mirror_lags import QUERY_SECONDS, progress_of
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Request

RECORDS_OF_TOPIC: Final = 20
"""Upper bound on the records of one mirror topic's change, not counting one per partition."""
_STOPPING: Final = (MirrorAction.PROMOTE, MirrorAction.FAILOVER)

OPERATION = ControllerOperation(alter_mirrors, mirrors_not_altered)


async def handle(node: NodeServices, request: Request) -> None:
    """Query the leaders if the topics are to be stopped, then forward to the controller."""
    if is_for_controller(node, request):
        await serve_by_controller(node, request)
        return
    body: AlterMirrorsRequest = request.decode()
    if body.action not in _STOPPING:
        request.respond(await _forward_in_parts(node, body))
        return
    progress = await _progress(node, body)
    refused = {}
    if body.action == MirrorAction.PROMOTE:
        refused = {topic: why for topic in body.topics if (why := _why_not(node.image, topic, progress)) is not None}
    rest = replace(body, topics=tuple(topic for topic in body.topics if topic not in refused))
    decided = await _forward_in_parts(node, rest)
    request.respond(_joined(body, decided, refused, progress))


async def _forward_in_parts(node: NodeServices, body: AlterMirrorsRequest) -> AlterMirrorsResponse:
    """Split the request so that each part stays below the controller's record limit: a link of any size can fail over at once."""
    parts: list[list[str]] = [[]]
    size = 0
    for topic in dict.fromkeys(body.topics):
        current = node.image.topics.named(topic)
        records = RECORDS_OF_TOPIC + (0 if current is None else len(current.partitions))
        if parts[-1] and size + records > MAX_RECORDS_PER_REQUEST:
            parts.append([])
            size = 0
        parts[-1].append(topic)
        size += records
    altered_topics: dict[str, AlteredMirror] = {}
    for part in parts:
        response: AlterMirrorsResponse = await forward(node, replace(body, topics=tuple(part)))
        altered_topics |= {altered.topic: altered for altered in response.topics}
    return AlterMirrorsResponse(topics=tuple(altered_topics[topic] for topic in body.topics))


async def _progress(node: NodeServices, body: AlterMirrorsRequest) -> dict[str, TopicProgress]:
    """The progress of the requested mirror topics, as far as the leaders respond in time."""
    topics = [topic for topic in dict.fromkeys(body.topics) if mirror_of(node.image, topic) is not None]
    if not topics:
        return {}
    try:
        async with asyncio.timeout(QUERY_SECONDS):
            return await progress_of(node, topics)
    except TimeoutError:
        return {topic: _unknown(node.image, topic) for topic in topics}


def _unknown(image: ClusterImage, topic: str) -> TopicProgress:
    current = image.topics.named(topic)
    return {} if current is None else dict.fromkeys(sorted(current.partitions))


def _why_not(image: ClusterImage, topic: str, progress: dict[str, TopicProgress]) -> str | None:
    """Check the source's progress only for topics that could be promoted; the controller refuses the others."""
    mirror = mirror_of(image, topic)
    if mirror is None or mirror.state is not State.ACTIVE:
        return None
    partitions = progress.get(topic)
    why = "its leaders did not respond in time" if partitions is None else why_not_caught_up(partitions)
    return (
        None if why is None else f"Mirror topic '{topic}' cannot be promoted: {why}. Fail it over to stop it as it is."
    )


def _joined(
    body: AlterMirrorsRequest,
    decided: AlterMirrorsResponse,
    refused: dict[str, str],
    progress: dict[str, TopicProgress],
) -> AlterMirrorsResponse:
    """Merge the controller's results and this broker's refusals in the request's order, with the lags."""
    altered_topics = iter(decided.topics)
    topics = []
    for topic in body.topics:
        lags = lags_of(progress.get(topic, {}))
        if topic in refused:
            why = refused[topic]
            topics.append(
                AlteredMirror(topic=topic, error_code=ErrorCode.invalid_request, error_message=why, lags=lags)
            )
        else:
            topics.append(replace(next(altered_topics), lags=lags))
    return AlterMirrorsResponse(topics=tuple(topics))
