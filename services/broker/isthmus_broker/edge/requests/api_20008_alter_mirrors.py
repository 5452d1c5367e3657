"""AlterMirrors, an API of our own: pause, resume, promote and fail over mirror topics, and what workers report of them.

The broker that takes the request asks the leaders how far behind the topics are when they are to be stopped. Promotion is refused for a
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
from isthmus_broker.edge.requests.controller_requests import answer_by_controller, forward, is_for_controller
from isthmus_broker.edge.requests.mirror_lags import ASK_SECONDS, progress_of
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Request

RECORDS_OF_TOPIC: Final = 20
"""More than the records that a change of a mirror topic makes, besides one for each partition."""
_STOPPING: Final = (MirrorAction.PROMOTE, MirrorAction.FAILOVER)

OPERATION = ControllerOperation(alter_mirrors, mirrors_not_altered)


async def handle(node: NodeServices, request: Request) -> None:
    """Ask the leaders if the topics are to be stopped, then the controller."""
    if is_for_controller(node, request):
        await answer_by_controller(node, request)
        return
    asked: AlterMirrorsRequest = request.decode()
    if asked.action not in _STOPPING:
        request.respond(await _forward_in_parts(node, asked))
        return
    progress = await _progress(node, asked)
    refused = {}
    if asked.action == MirrorAction.PROMOTE:
        refused = {topic: why for topic in asked.topics if (why := _why_not(node.image, topic, progress)) is not None}
    rest = replace(asked, topics=tuple(topic for topic in asked.topics if topic not in refused))
    decided = await _forward_in_parts(node, rest)
    request.respond(_joined(asked, decided, refused, progress))


async def _forward_in_parts(node: NodeServices, asked: AlterMirrorsRequest) -> AlterMirrorsResponse:
    """As many requests as the bound of their records makes of it: a whole link may be failed over at once, however large it is."""
    parts: list[list[str]] = [[]]
    size = 0
    for topic in dict.fromkeys(asked.topics):
        known = node.image.topics.named(topic)
        records = RECORDS_OF_TOPIC + (0 if known is None else len(known.partitions))
        if parts[-1] and size + records > MAX_RECORDS_PER_REQUEST:
            parts.append([])
            size = 0
        parts[-1].append(topic)
        size += records
    answers: dict[str, AlteredMirror] = {}
    for part in parts:
        response: AlterMirrorsResponse = await forward(node, replace(asked, topics=tuple(part)))
        answers |= {altered.topic: altered for altered in response.topics}
    return AlterMirrorsResponse(topics=tuple(answers[topic] for topic in asked.topics))


async def _progress(node: NodeServices, asked: AlterMirrorsRequest) -> dict[str, TopicProgress]:
    """Of the topics that are mirrors, as far as it can be found out in time."""
    topics = [topic for topic in dict.fromkeys(asked.topics) if mirror_of(node.image, topic) is not None]
    if not topics:
        return {}
    try:
        async with asyncio.timeout(ASK_SECONDS):
            return await progress_of(node, topics)
    except TimeoutError:
        return {topic: _nothing(node.image, topic) for topic in topics}


def _nothing(image: ClusterImage, topic: str) -> TopicProgress:
    known = image.topics.named(topic)
    return {} if known is None else dict.fromkeys(sorted(known.partitions))


def _why_not(image: ClusterImage, topic: str, progress: dict[str, TopicProgress]) -> str | None:
    """Only what could be promoted is held against its source; the rest is the controller's to refuse."""
    mirror = mirror_of(image, topic)
    if mirror is None or mirror.state is not State.ACTIVE:
        return None
    told = progress.get(topic)
    why = "its leaders did not respond in time" if told is None else why_not_caught_up(told)
    return (
        None if why is None else f"Mirror topic '{topic}' cannot be promoted: {why}. Fail it over to stop it as it is."
    )


def _joined(
    asked: AlterMirrorsRequest,
    decided: AlterMirrorsResponse,
    refused: dict[str, str],
    progress: dict[str, TopicProgress],
) -> AlterMirrorsResponse:
    """The controller's answers and this broker's refusals in the order of the request, with the lags."""
    answers = iter(decided.topics)
    topics = []
    for topic in asked.topics:
        lags = lags_of(progress.get(topic, {}))
        if topic in refused:
            why = refused[topic]
            topics.append(
                AlteredMirror(topic=topic, error_code=ErrorCode.invalid_request, error_message=why, lags=lags)
            )
        else:
            topics.append(replace(next(answers), lags=lags))
    return AlterMirrorsResponse(topics=tuple(topics))
