"""Links: creating, altering and deleting them, and workers' reports. Decisions of the active controller over an image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.links import (
    AlterLinkRequest,
    AlterLinkResponse,
    CreateLinkRequest,
    CreateLinkResponse,
    DeleteLinkRequest,
    DeleteLinkResponse,
    DescribedTask,
    LinkConfig,
    LinkError,
    LinkState,
    LinkTask,
    ReportLinkRequest,
    ReportLinkResponse,
    TaskState,
)
from isthmus_wire.extensions.mirrors import MirrorState

from isthmus_broker.core.config.values import ConfigRefused
from isthmus_broker.core.links import settings as link_settings
from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.metadata.links import (
    Link,
    Task,
    link_named,
    link_records,
    link_with_id,
    links_of,
    mirrors_of,
    no_link_records,
)
from isthmus_broker.core.metadata.mirror_stop import stopped
from isthmus_broker.core.metadata.names import why_invalid
from isthmus_broker.core.metadata.operation import DecisionContext
from isthmus_broker.core.metadata.result import ControllerContext, ControllerError, Result, check_size
from isthmus_broker.core.metadata.schema import MetadataRecord

LINKS_MAX: Final = 1_000
"""Maximum number of links of a cluster."""
REPORTED_TEXT_MAX: Final = 1_000
"""Maximum number of characters of an error message in a worker's report; longer ones are truncated."""


def create_link(
    image: ClusterImage, request: CreateLinkRequest, context: ControllerContext
) -> Result[CreateLinkResponse]:
    """Create a link. The broker that forwards this has queried the source for its id, if validation was requested."""
    wrong = why_invalid(request.name)
    if wrong is not None:
        raise ControllerError(ErrorCode.invalid_request, wrong.replace("Topic name", "Link name"))
    if link_named(image, request.name) is not None:
        raise ControllerError(ErrorCode.duplicate_resource, f"Link '{request.name}' already exists.")
    if len(links_of(image)) >= LINKS_MAX:
        raise ControllerError(ErrorCode.policy_violation, f"There are {LINKS_MAX} links already.")
    source = request.source_cluster_id or ""
    if source == context.cluster_id:
        why = f"The source is cluster {source}, which is this one; a cluster is not linked to itself."
        raise ControllerError(ErrorCode.invalid_request, why)
    link = Link(
        name=request.name,
        id=context.new_id(),
        source_cluster_id=source,
        settings=_altered({}, request.configs),
        reported=LinkState.ACTIVE if request.validate_link else LinkState.UNKNOWN,
        tasks={},
    )
    response = CreateLinkResponse(error_code=ErrorCode.none, error_message=None, link_id=link.id)
    if request.validate_only:
        return Result((), replace(response, link_id=None))
    return Result(tuple(link_records(image, link)), response)


def alter_link(
    image: ClusterImage, request: AlterLinkRequest, _context: ControllerContext
) -> Result[AlterLinkResponse]:
    """Alter settings, all or none. The prefix is part of the names of mirror topics, so it cannot change."""
    link = named(image, request.name)
    changed = replace(link, settings=_altered(link.settings, request.changes))
    if changed.settings.get(link_settings.PREFIX) != link.settings.get(link_settings.PREFIX):
        raise ControllerError(ErrorCode.invalid_config, f"{link_settings.PREFIX} cannot be changed once a link exists.")
    response = AlterLinkResponse(error_code=ErrorCode.none, error_message=None)
    return Result(() if request.validate_only else tuple(link_records(image, changed)), response)


def _altered(current: Mapping[str, str], changes: Iterable[LinkConfig]) -> Mapping[str, str]:
    pairs = [(change.name, change.value) for change in changes]
    if len({name for name, _ in pairs}) != len(pairs):
        raise ControllerError(ErrorCode.invalid_request, "A setting is named twice.")
    try:
        return link_settings.altered(current, pairs)
    except ConfigRefused as refusal:
        raise ControllerError(ErrorCode.invalid_config, str(refusal)) from None


def delete_link(
    image: ClusterImage, request: DeleteLinkRequest, context: DecisionContext
) -> Result[DeleteLinkResponse]:
    """Delete a link. Its stopped topics remain, as ordinary topics."""
    link = named(image, request.name)
    copied = [m for m in mirrors_of(image) if m.link_id == link.id and m.state is not MirrorState.STOPPED]
    if copied and not request.force:
        shown = ", ".join(mirror.topic for mirror in copied[:_SHOWN]) + (", ..." if len(copied) > _SHOWN else "")
        why = f"Link '{link.name}' still copies {len(copied)} topic(s): {shown}. Promote them or fail them over first."
        raise ControllerError(ErrorCode.invalid_request, why)
    records: list[MetadataRecord] = []
    for mirror in copied:
        records += stopped(image, mirror, context.wall_ms)
    records += no_link_records(image, link)
    check_size(records)
    response = DeleteLinkResponse(error_code=ErrorCode.none, error_message=None)
    return Result(() if request.validate_only else tuple(records), response)


_SHOWN: Final = 5


def report_link(
    image: ClusterImage, request: ReportLinkRequest, _context: ControllerContext
) -> Result[ReportLinkResponse]:
    """Record a worker's report. Only differences are written, so that a worker may report frequently."""
    link = None if request.link_id is None else link_with_id(image, request.link_id)
    if link is None:
        raise ControllerError(ErrorCode.resource_not_found, "There is no link with this id.")
    if request.state not in list(LinkState) or request.link_error not in list(LinkError):
        raise ControllerError(
            ErrorCode.invalid_request, f"There is no state {request.state} with error {request.link_error}."
        )
    tasks = {**link.tasks, **{task.name: _task(task) for task in request.tasks}}
    reported = replace(
        link,
        reported=request.state,
        error=request.link_error,
        error_message=request.link_error_message[:REPORTED_TEXT_MAX],
        tasks=tasks,
    )
    response = ReportLinkResponse(error_code=ErrorCode.none, error_message=None)
    return Result(tuple(link_records(image, reported)), response)


def _task(task: DescribedTask) -> Task:
    if task.name not in list(LinkTask) or task.state not in list(TaskState):
        raise ControllerError(ErrorCode.invalid_request, f"There is no task {task.name} with state {task.state}.")
    return Task(task.state, task.error[:REPORTED_TEXT_MAX], task.error_message[:REPORTED_TEXT_MAX])


def named(image: ClusterImage, name: str) -> Link:
    """The link of that name, or ControllerError."""
    link = link_named(image, name)
    if link is None:
        raise ControllerError(ErrorCode.resource_not_found, f"There is no link '{name}'.")
    return link
