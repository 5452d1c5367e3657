"""The active controller's door for links and mirror topics, as `controller` is for what Kafka has: a request and the latest image in,
records and an answer out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from isthmus_wire.extensions.links import (
    AlterLinkRequest,
    AlterLinkResponse,
    CreateLinkRequest,
    CreateLinkResponse,
    DeleteLinkRequest,
    DeleteLinkResponse,
    ReportLinkRequest,
    ReportLinkResponse,
)
from isthmus_wire.extensions.mirrors import (
    AlteredMirror,
    AlterMirrorsRequest,
    AlterMirrorsResponse,
    CreateMirrorRequest,
    CreateMirrorResponse,
    RaisedTopic,
    RaiseLeaderEpochsRequest,
    RaiseLeaderEpochsResponse,
)

from isthmus_broker.core.metadata import link_requests, mirror_requests
from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.metadata.result import ControllerContext, Refused, Result

_HANDLERS: Final[Mapping[type, Callable[[ClusterImage, Any, ControllerContext, int], Result[Any]]]] = {
    CreateLinkRequest: link_requests.create_link,
    AlterLinkRequest: link_requests.alter_link,
    DeleteLinkRequest: link_requests.delete_link,
    ReportLinkRequest: link_requests.report_link,
    CreateMirrorRequest: mirror_requests.create_mirror,
    AlterMirrorsRequest: mirror_requests.alter_mirrors,
    RaiseLeaderEpochsRequest: mirror_requests.raise_leader_epochs,
}


def decide_about_links(image: ClusterImage, request: Any, context: ControllerContext, now_ms: int) -> Result[Any]:
    """What to append and to answer; `now_ms` is the time of day, that people are told."""
    try:
        return _HANDLERS[type(request)](image, request, context, now_ms)
    except Refused as refusal:
        return Result((), refused(request, refusal))


def refused(request: Any, why: Refused) -> Any:
    """The answer that refuses a request as a whole."""
    said: dict[str, Any] = {"error_code": why.code, "error_message": why.message}
    match request:
        case CreateLinkRequest():
            return CreateLinkResponse(link_id=None, **said)
        case AlterLinkRequest():
            return AlterLinkResponse(**said)
        case DeleteLinkRequest():
            return DeleteLinkResponse(**said)
        case ReportLinkRequest():
            return ReportLinkResponse(**said)
        case CreateMirrorRequest():
            return CreateMirrorResponse(topic=request.mirror_topic or request.source_topic, topic_id=None, **said)
        case AlterMirrorsRequest():
            return AlterMirrorsResponse(topics=tuple(AlteredMirror(topic=t, lags=(), **said) for t in request.topics))
        case RaiseLeaderEpochsRequest():
            return RaiseLeaderEpochsResponse(topics=tuple(RaisedTopic(name=t.name, **said) for t in request.topics))
    raise AssertionError(f"{type(request).__name__} is no request about links")
