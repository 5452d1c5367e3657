"""Responses that refuse a whole request about links or mirror topics, one for each API; imported if there are links."""

from __future__ import annotations

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

from isthmus_broker.core.metadata.result import ControllerError


def link_not_created(_request: CreateLinkRequest, why: ControllerError) -> CreateLinkResponse:
    """CreateLink: one error."""
    return CreateLinkResponse(link_id=None, error_code=why.code, error_message=why.message)


def link_not_altered(_request: AlterLinkRequest, why: ControllerError) -> AlterLinkResponse:
    """AlterLink: one error."""
    return AlterLinkResponse(error_code=why.code, error_message=why.message)


def link_not_deleted(_request: DeleteLinkRequest, why: ControllerError) -> DeleteLinkResponse:
    """DeleteLink: one error."""
    return DeleteLinkResponse(error_code=why.code, error_message=why.message)


def link_report_refused(_request: ReportLinkRequest, why: ControllerError) -> ReportLinkResponse:
    """ReportLink: one error."""
    return ReportLinkResponse(error_code=why.code, error_message=why.message)


def mirror_not_created(request: CreateMirrorRequest, why: ControllerError) -> CreateMirrorResponse:
    """CreateMirror: one error, with the topic's name."""
    topic = request.mirror_topic or request.source_topic
    return CreateMirrorResponse(topic=topic, topic_id=None, error_code=why.code, error_message=why.message)


def mirrors_not_altered(request: AlterMirrorsRequest, why: ControllerError) -> AlterMirrorsResponse:
    """AlterMirrors: the error in every topic."""
    topics = (AlteredMirror(topic=t, lags=(), error_code=why.code, error_message=why.message) for t in request.topics)
    return AlterMirrorsResponse(topics=tuple(topics))


def leader_epochs_not_raised(request: RaiseLeaderEpochsRequest, why: ControllerError) -> RaiseLeaderEpochsResponse:
    """RaiseLeaderEpochs: the error in every topic."""
    topics = (RaisedTopic(name=t.name, error_code=why.code, error_message=why.message) for t in request.topics)
    return RaiseLeaderEpochsResponse(topics=tuple(topics))
