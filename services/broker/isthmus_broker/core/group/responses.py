"""Responses of the classic protocol, and the error response of every API."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import Marker
from isthmus_wire.messages import NO_THROTTLE, millis
from isthmus_wire.requests import (
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from kio.schema.consumer_group_describe.v1 import request as consumer_describe_request
from kio.schema.consumer_group_describe.v1 import response as consumer_describe_response
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.consumer_group_heartbeat.v1.response import ConsumerGroupHeartbeatResponse
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeletableGroupResult, DeleteGroupsResponse
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.describe_groups.v6.response import DescribedGroup, DescribeGroupsResponse
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.heartbeat.v4.response import HeartbeatResponse
from kio.schema.join_group.v9.request import JoinGroupRequest
from kio.schema.join_group.v9.response import JoinGroupResponse, JoinGroupResponseMember
from kio.schema.leave_group.v5.response import LeaveGroupResponse, MemberResponse
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListGroupsResponse
from kio.schema.offset_commit.v10.response import OffsetCommitResponsePartition
from kio.schema.offset_delete.v0.request import OffsetDeleteRequest
from kio.schema.offset_delete.v0.response import OffsetDeleteResponse
from kio.schema.streams_group_describe.v0.request import StreamsGroupDescribeRequest
from kio.schema.streams_group_describe.v0.response import StreamsGroupDescribeResponse
from kio.schema.streams_group_heartbeat.v0.request import StreamsGroupHeartbeatRequest
from kio.schema.sync_group.v5.request import SyncGroupRequest
from kio.schema.sync_group.v5.response import SyncGroupResponse
from kio.schema.types import GroupId
from kio.static.primitive import i32, i64

from isthmus_broker.core.coordinator.result import RequestContext
from isthmus_broker.core.group import transactional_commit
from isthmus_broker.core.group.streams.responses import heartbeat_error as streams_heartbeat_error
from isthmus_broker.core.group.streams.responses import not_described as streams_not_described
from isthmus_broker.core.group.transactional_commit import TransactionalCommit

FETCH_GROUPS_VERSION: Final = 8
NO_OFFSET: Final = i64(-1)
NO_EPOCH: Final = i32(-1)


def join_response(
    api_version: int,
    *,
    error: ErrorCode = ErrorCode.none,
    member_id: str = "",
    generation: int = -1,
    protocol_type: str | None = None,
    protocol: str | None = None,
    leader: str | None = None,
    skip_assignment: bool = False,
    members: Iterable[JoinGroupResponseMember] = (),
) -> JoinGroupResponse:
    """A JoinGroup response; before version 7 the protocol cannot be null."""
    return JoinGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        generation_id=i32(generation),
        protocol_type=protocol_type,
        protocol_name="" if protocol is None and api_version < 7 else protocol,
        leader=leader or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=tuple(members),
    )


def sync_response(
    error: ErrorCode = ErrorCode.none,
    assignment: bytes = b"",
    protocol_type: str | None = None,
    protocol: str | None = None,
) -> SyncGroupResponse:
    """A SyncGroup response."""
    return SyncGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        protocol_type=protocol_type,
        protocol_name=protocol,
        assignment=assignment,
    )


def heartbeat_response(error: ErrorCode = ErrorCode.none) -> HeartbeatResponse:
    """A Heartbeat response."""
    return HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=error)


def leave_response(
    api_version: int, members: Iterable[MemberResponse] = (), error: ErrorCode = ErrorCode.none
) -> LeaveGroupResponse:
    """A LeaveGroup response. Up to version 2 it names no members: the one member's error is the response's."""
    listed = tuple(members)
    if api_version <= 2 and error == ErrorCode.none and listed:
        error = listed[0].error_code
    return LeaveGroupResponse(throttle_time=NO_THROTTLE, error_code=error, members=listed)


def consumer_heartbeat_error(error: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    """A ConsumerGroupHeartbeat that failed."""
    return ConsumerGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        error_message=message,
        member_epoch=i32(0),
        heartbeat_interval=millis(0),
    )


def consumer_described(
    group_id: str, error: ErrorCode, message: str | None = None
) -> consumer_describe_response.DescribedGroup:
    """A consumer group that could not be described."""
    return consumer_describe_response.DescribedGroup(
        error_code=error,
        error_message=message,
        group_id=GroupId(group_id),
        group_state="",
        group_epoch=i32(0),
        assignment_epoch=i32(0),
        assignor_name="",
        members=(),
    )


def classic_described(
    group_id: str,
    error: ErrorCode = ErrorCode.none,
    message: str | None = None,
    *,
    state: str = "",
    protocol_type: str = "",
    protocol: str = "",
    members: Iterable[Any] = (),
) -> DescribedGroup:
    """One group of a DescribeGroups response."""
    return DescribedGroup(
        error_code=error,
        error_message=message,
        group_id=GroupId(group_id),
        group_state=state,
        protocol_type=protocol_type,
        protocol_data=protocol,
        members=tuple(members),
    )


def commit_topic(
    topic: OffsetCommitRequestTopic, partitions: Iterable[tuple[int, ErrorCode]]
) -> OffsetCommitResponseTopic:
    """One topic of an OffsetCommit response, by name and id as in the request."""
    responses = tuple(
        OffsetCommitResponsePartition(partition_index=i32(index), error_code=error) for index, error in partitions
    )
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=responses)


def commit_error(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """An OffsetCommit refused as a whole."""
    topics = tuple(
        commit_topic(topic, ((partition.partition_index, error) for partition in topic.partitions))
        for topic in request.topics
    )
    return OffsetCommitResponse(throttle_time=NO_THROTTLE, topics=topics)


def fetched(
    index: int,
    error: ErrorCode = ErrorCode.none,
    offset: int = NO_OFFSET,
    leader_epoch: int = NO_EPOCH,
    metadata: str = "",
) -> OffsetFetchResponsePartition:
    """One partition of an OffsetFetch response, without an offset by default."""
    return OffsetFetchResponsePartition(
        partition_index=i32(index),
        committed_offset=offset,
        committed_leader_epoch=i32(leader_epoch),
        metadata=metadata,
        error_code=error,
    )


def fetched_error(topic: OffsetFetchRequestTopic, error: ErrorCode) -> OffsetFetchResponseTopic:
    """A topic of an OffsetFetch response with an error."""
    partitions = tuple(fetched(index, error) for index in topic.partition_indexes)
    return OffsetFetchResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def fetch_group_error(group: OffsetFetchRequestGroup, error: ErrorCode, api_version: int) -> OffsetFetchResponseGroup:
    """A group of an OffsetFetch response with an error; version 1 has no field for it except in the partitions."""
    if api_version >= 2:
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=(), error_code=error)
    topics = tuple(fetched_error(topic, error) for topic in group.topics or ())
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


def fetch_groups(request: OffsetFetchRequest, api_version: int) -> tuple[OffsetFetchRequestGroup, ...]:
    """The requested groups; up to version 7 it is one."""
    if api_version >= FETCH_GROUPS_VERSION:
        return request.groups
    return (OffsetFetchRequestGroup(group_id=request.group_id, topics=request.topics),)


def fetch_response(groups: tuple[OffsetFetchResponseGroup, ...]) -> OffsetFetchResponse:
    """An OffsetFetch response in both forms: old versions have the one group's fields at the top level."""
    only = groups[0] if len(groups) == 1 else OffsetFetchResponseGroup(group_id="", topics=())
    return OffsetFetchResponse(throttle_time=NO_THROTTLE, topics=only.topics, error_code=only.error_code, groups=groups)


# Error responses, by request class.


def _refuse_heartbeat(request: HeartbeatRequest, context: RequestContext, error: ErrorCode) -> object:
    """While the group loads heartbeats succeed: members would only rejoin otherwise."""
    return heartbeat_response(ErrorCode.none if error == ErrorCode.coordinator_load_in_progress else error)


def _refuse_fetch(request: OffsetFetchRequest, context: RequestContext, error: ErrorCode) -> object:
    groups = fetch_groups(request, context.api_version)
    return fetch_response(tuple(fetch_group_error(group, error, context.api_version) for group in groups))


def _refuse_describe(request: DescribeGroupsRequest, context: RequestContext, error: ErrorCode) -> object:
    return DescribeGroupsResponse(
        throttle_time=NO_THROTTLE, groups=tuple(classic_described(group_id, error) for group_id in request.groups)
    )


def _refuse_consumer_describe(
    request: consumer_describe_request.ConsumerGroupDescribeRequest, context: RequestContext, error: ErrorCode
) -> object:
    groups = tuple(consumer_described(group_id, error) for group_id in request.group_ids)
    return consumer_describe_response.ConsumerGroupDescribeResponse(throttle_time=NO_THROTTLE, groups=groups)


def _refuse_streams_describe(request: StreamsGroupDescribeRequest, context: RequestContext, error: ErrorCode) -> object:
    groups = tuple(streams_not_described(group_id, error) for group_id in request.group_ids)
    return StreamsGroupDescribeResponse(throttle_time=NO_THROTTLE, groups=groups)


def _refuse_delete(request: DeleteGroupsRequest, context: RequestContext, error: ErrorCode) -> object:
    results = tuple(DeletableGroupResult(group_id=group_id, error_code=error) for group_id in request.groups_names)
    return DeleteGroupsResponse(throttle_time=NO_THROTTLE, results=results)


_REFUSALS: Final[dict[type, Callable[[Any, RequestContext, ErrorCode], object]]] = {
    JoinGroupRequest: lambda request, context, error: join_response(context.api_version, error=error),
    SyncGroupRequest: lambda request, context, error: sync_response(error),
    HeartbeatRequest: _refuse_heartbeat,
    LeaveGroupRequest: lambda request, context, error: leave_response(context.api_version, error=error),
    ListGroupsRequest: lambda request, context, error: ListGroupsResponse(
        throttle_time=NO_THROTTLE, error_code=error, groups=()
    ),
    DescribeGroupsRequest: _refuse_describe,
    DeleteGroupsRequest: _refuse_delete,
    ConsumerGroupHeartbeatRequest: lambda request, context, error: consumer_heartbeat_error(error),
    consumer_describe_request.ConsumerGroupDescribeRequest: _refuse_consumer_describe,
    StreamsGroupHeartbeatRequest: lambda request, context, error: streams_heartbeat_error(error),
    StreamsGroupDescribeRequest: _refuse_streams_describe,
    OffsetCommitRequest: lambda request, context, error: commit_error(request, error),
    OffsetFetchRequest: _refuse_fetch,
    OffsetDeleteRequest: lambda request, context, error: OffsetDeleteResponse(
        throttle_time=NO_THROTTLE, error_code=error, topics=()
    ),
    TransactionalCommit: lambda commit, context, error: transactional_commit.refused(commit.request, error),
    Marker: lambda marker, context, error: error,
}


def refuse(request: object, context: RequestContext, error: ErrorCode) -> object:
    """The error response of any request that a group shard serves."""
    return _REFUSALS[type(request)](request, context, error)
