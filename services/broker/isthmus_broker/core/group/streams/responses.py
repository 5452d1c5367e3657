"""Responses of the streams group protocol."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE, millis
from kio.schema.streams_group_describe.v0 import response as describe_wire
from kio.schema.streams_group_heartbeat.v0 import response as wire
from kio.schema.types import GroupId
from kio.static.primitive import i8, i32

from isthmus_broker.core.group.streams.configured import Status
from isthmus_broker.core.group.streams.member import StreamsMember
from isthmus_broker.core.group.streams.records import TopicInfo
from isthmus_broker.core.group.streams.tasks import OwnedAssignment, listed

Statuses = list[tuple[Status, str]]


@dataclass(frozen=True, slots=True)
class TopicsToCreate:
    """A heartbeat's response while internal topics are missing: the broker sends it at once and creates the topics."""

    response: wire.StreamsGroupHeartbeatResponse
    topics: tuple[TopicInfo, ...]
    # How long the error of a creation is reported before it is tried again.
    retry_ms: int

    def explained(self, errors: Mapping[str, str]) -> wire.StreamsGroupHeartbeatResponse:
        """The response with the errors of earlier creations, by topic."""
        if not errors:
            return self.response
        named = [f"{topic} ({error})" for topic, error in list(errors.items())[:NAMED_ERRORS_MAX]]
        others = f" and {len(errors) - NAMED_ERRORS_MAX} more" if len(errors) > NAMED_ERRORS_MAX else ""
        addition = f"; Creation failed: {', '.join(named)}{others}."
        statuses = (
            replace(each, status_detail=each.status_detail + addition)
            if int(each.status_code) == Status.MISSING_INTERNAL_TOPICS
            else each
            for each in self.response.status or ()
        )
        return replace(self.response, status=tuple(statuses))


NAMED_ERRORS_MAX = 3
"""Errors that a response names; further ones are counted."""


def heartbeat_response(
    member: StreamsMember,
    heartbeat_interval_ms: int,
    statuses: Statuses,
    endpoint_epoch: int,
    endpoints: Iterable[wire.EndpointToPartitions] | None,
    *,
    with_tasks: bool,
) -> wire.StreamsGroupHeartbeatResponse:
    """The response to a member; its tasks are null unless they may have changed."""
    return _response(
        member_id=member.member_id,
        member_epoch=i32(member.epoch),
        heartbeat_interval=millis(heartbeat_interval_ms),
        status=tuple(wire.Status(status_code=i8(code), status_detail=detail) for code, detail in statuses),
        endpoint_information_epoch=i32(endpoint_epoch),
        partitions_by_user_endpoint=None if endpoints is None else tuple(endpoints),
        **(_tasks(member.assigned) if with_tasks else {}),
    )


def left(member_id: str, epoch: int) -> wire.StreamsGroupHeartbeatResponse:
    """The response to a member that leaves."""
    return _response(member_id=member_id, member_epoch=i32(epoch))


def heartbeat_error(error: ErrorCode, message: str | None = None) -> wire.StreamsGroupHeartbeatResponse:
    """A StreamsGroupHeartbeat that failed."""
    return _response(error_code=error, error_message=message)


def _response(**values: Any) -> wire.StreamsGroupHeartbeatResponse:
    """The fields that are not given have the protocol's defaults."""
    absent: dict[str, Any] = {
        "throttle_time": NO_THROTTLE,
        "error_code": ErrorCode.none,
        "member_id": "",
        "member_epoch": i32(0),
        "heartbeat_interval": millis(0),
        "acceptable_recovery_lag": i32(0),
        "task_offset_interval": millis(0),
        "status": (),
        "active_tasks": None,
        "standby_tasks": None,
        "warmup_tasks": None,
        "endpoint_information_epoch": i32(0),
        "partitions_by_user_endpoint": None,
    }
    return wire.StreamsGroupHeartbeatResponse(**{**absent, **values})


def _tasks(assigned: OwnedAssignment) -> dict[str, tuple[wire.TaskIds, ...]]:
    roles: dict[str, Mapping[str, Iterable[int]]] = {
        "active_tasks": assigned.active,
        "standby_tasks": assigned.standby,
        "warmup_tasks": assigned.warmup,
    }
    return {
        role: tuple(
            wire.TaskIds(subtopology_id=name, partitions=tuple(map(i32, partitions)))
            for name, partitions in listed(tasks)
        )
        for role, tasks in roles.items()
    }


def not_described(group_id: str, error: ErrorCode, message: str | None = None) -> describe_wire.DescribedGroup:
    """A streams group that could not be described."""
    return describe_wire.DescribedGroup(
        error_code=error,
        error_message=message,
        group_id=GroupId(group_id),
        group_state="",
        group_epoch=i32(0),
        assignment_epoch=i32(0),
        topology=None,
        members=(),
    )
