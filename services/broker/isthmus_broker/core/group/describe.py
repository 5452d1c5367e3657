"""ListGroups, DescribeGroups, ConsumerGroupDescribe and DeleteGroups."""

from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.consumer_group_describe.v1 import response as consumer_wire
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeletableGroupResult, DeleteGroupsResponse
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.describe_groups.v6.response import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListedGroup, ListGroupsResponse
from kio.schema.streams_group_describe.v0 import response as streams_wire
from kio.schema.streams_group_describe.v0.request import StreamsGroupDescribeRequest
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32

from isthmus_broker.core.coordinator.result import Record, RequestContext, Result
from isthmus_broker.core.group.classic_group import ClassicGroup, ClassicMember, ClassicState
from isthmus_broker.core.group.committed import CommittedGroups
from isthmus_broker.core.group.consumer_group import NO_PARTITIONS, ConsumerGroup
from isthmus_broker.core.group.consumer_protocol import CONSUMER_PROTOCOL
from isthmus_broker.core.group.errors import UnknownGroup
from isthmus_broker.core.group.expiry import deletion_records, is_empty
from isthmus_broker.core.group.member import ConsumerMember, Partitions
from isthmus_broker.core.group.offsets import Offsets
from isthmus_broker.core.group.registry import Group, Registry
from isthmus_broker.core.group.responses import classic_described, consumer_described
from isthmus_broker.core.group.streams.describe import described as streams_described
from isthmus_broker.core.group.streams.group import STREAMS_PROTOCOL, StreamsGroup
from isthmus_broker.core.group.streams.responses import not_described as streams_not_described

NOT_FOUND_ERROR_VERSION = 6
_CLASSIC_MEMBER, _CONSUMER_MEMBER = i8(0), i8(1)
_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS = 3, 6, 8, 10, 11
_OPERATIONS = i32(sum(1 << bit for bit in (_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)))
"""Without an authorizer every operation on a group is allowed."""
_Described = TypeVar("_Described", DescribedGroup, consumer_wire.DescribedGroup, streams_wire.DescribedGroup)


class Describe:
    """Administrative queries of groups, which reflect committed records only, and the deletion of groups."""

    def __init__(self, registry: Registry, committed: CommittedGroups, offsets: Offsets) -> None:
        self._registry = registry
        self._committed = committed
        self._offsets = offsets

    def list_groups(self, request: ListGroupsRequest) -> Result:
        """The groups in any of these states and of any of these types; an empty filter matches all."""
        states = {state.strip().lower() for state in request.states_filter}
        types = {each.lower() for each in request.types_filter}
        listed = [self._listed(group_id) for group_id in self._committed.ids()]
        groups = tuple(
            each
            for each in listed
            if (not states or _filter_name(each.group_state) in states) and (not types or each.group_type in types)
        )
        response = ListGroupsResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, groups=groups)
        return Result(response=response, is_committed=True)

    def _listed(self, group_id: str) -> ListedGroup:
        group = self._committed.group(group_id)
        group_type, protocol_type = _types(group)
        return ListedGroup(
            group_id=GroupId(group_id),
            protocol_type=protocol_type,
            group_state=_state(group),
            group_type=group_type,
        )

    # Classic groups.

    def describe(self, request: DescribeGroupsRequest, context: RequestContext) -> Result:
        """Classic groups; any other is DEAD, which only version 6 distinguishes from a missing group."""
        groups = tuple(self._describe(group_id, context.api_version) for group_id in request.groups)
        if request.include_authorized_operations:
            groups = tuple(map(_with_operations, groups))
        return Result(response=DescribeGroupsResponse(throttle_time=NO_THROTTLE, groups=groups), is_committed=True)

    def _describe(self, group_id: str, api_version: int) -> DescribedGroup:
        try:
            group = self._committed.classic_group(group_id)
        except UnknownGroup as not_found:
            if api_version < NOT_FOUND_ERROR_VERSION:
                return classic_described(group_id, state=ClassicState.DEAD.value)
            return classic_described(group_id, not_found.error, not_found.message, state=ClassicState.DEAD.value)
        protocol = group.protocol if group.state == ClassicState.STABLE else None
        return classic_described(
            group_id,
            state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol=protocol or "",
            members=[_classic_member(member, protocol) for member in group.members.values()],
        )

    # Consumer groups.

    def describe_consumer(self, request: ConsumerGroupDescribeRequest) -> Result:
        """Consumer groups, with their members' current and target assignments."""
        groups = tuple(self._describe_consumer(group_id) for group_id in request.group_ids)
        if request.include_authorized_operations:
            groups = tuple(map(_with_operations, groups))
        response = consumer_wire.ConsumerGroupDescribeResponse(throttle_time=NO_THROTTLE, groups=groups)
        return Result(response=response, is_committed=True)

    def _describe_consumer(self, group_id: str) -> consumer_wire.DescribedGroup:
        if not group_id:
            return consumer_described("", ErrorCode.invalid_group_id)
        try:
            group = self._committed.consumer_group(group_id)
        except UnknownGroup as not_found:
            return consumer_described(group_id, not_found.error, not_found.message)
        return consumer_wire.DescribedGroup(
            error_code=ErrorCode.none,
            error_message=None,
            group_id=GroupId(group_id),
            group_state=group.state,
            group_epoch=i32(group.epoch),
            assignment_epoch=i32(group.assignment_epoch),
            assignor_name=group.preferred_assignor() or self._registry.config.group_consumer_assignors[0],
            members=tuple(self._consumer_member(group, member) for member in group.members.values()),
        )

    def _consumer_member(self, group: ConsumerGroup, member: ConsumerMember) -> consumer_wire.Member:
        has: dict[UUID, set[int]] = {}
        for owned in (member.assigned, member.revoking):
            for topic_id, partitions in owned.items():
                has.setdefault(topic_id, set()).update(partitions)
        return consumer_wire.Member(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=i32(member.epoch),
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=tuple(TopicName(name) for name in sorted(member.topics)),
            subscribed_topic_regex=member.regex,
            assignment=self._assignment(has),
            target_assignment=self._assignment(group.target.get(member.member_id, NO_PARTITIONS)),
            member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
        )

    def _assignment(self, partitions: Partitions) -> consumer_wire.Assignment:
        """Only topics that still exist."""
        entries = []
        for topic_id in sorted(partitions):
            topic = self._registry.view.topic_by_id(topic_id)
            if topic is not None:
                indexes = tuple(i32(index) for index in sorted(partitions[topic_id]))
                entries.append(
                    consumer_wire.TopicPartitions(
                        topic_id=topic_id, topic_name=TopicName(topic.name), partitions=indexes
                    )
                )
        return consumer_wire.Assignment(topic_partitions=tuple(entries))

    # Streams groups.

    def describe_streams(self, request: StreamsGroupDescribeRequest) -> Result:
        """Streams groups, with their topologies and their members' current and target tasks."""
        groups = tuple(self._describe_streams(group_id) for group_id in request.group_ids)
        if request.include_authorized_operations:
            groups = tuple(map(_with_operations, groups))
        response = streams_wire.StreamsGroupDescribeResponse(throttle_time=NO_THROTTLE, groups=groups)
        return Result(response=response, is_committed=True)

    def _describe_streams(self, group_id: str) -> streams_wire.DescribedGroup:
        if not group_id:
            return streams_not_described("", ErrorCode.invalid_group_id)
        try:
            return streams_described(self._committed.streams_group(group_id))
        except UnknownGroup as not_found:
            return streams_not_described(group_id, not_found.error, not_found.message)

    # Deleting.

    def delete(self, request: DeleteGroupsRequest) -> Result:
        """Delete empty groups with their offsets; a name given twice counts once."""
        records: list[Record] = []
        results = []
        for group_id in dict.fromkeys(request.groups_names):
            group = self._registry.groups.get(group_id)
            error = ErrorCode.none
            if group is None:
                error = ErrorCode.group_id_not_found
            elif not is_empty(group):
                error = ErrorCode.non_empty_group
            else:
                records += [*self._offsets.tombstones(group_id), *deletion_records(group)]
            results.append(DeletableGroupResult(group_id=group_id, error_code=error))
        response = DeleteGroupsResponse(throttle_time=NO_THROTTLE, results=tuple(results))
        return Result(records=tuple(records), response=response)


def _with_operations(group: _Described) -> _Described:
    return replace(group, authorized_operations=_OPERATIONS) if group.error_code == ErrorCode.none else group


def _types(group: Group) -> tuple[str, str]:
    """The group's type, and its protocol type."""
    if isinstance(group, ClassicGroup):
        return "classic", group.protocol_type or ""
    if isinstance(group, StreamsGroup):
        return STREAMS_PROTOCOL, STREAMS_PROTOCOL
    return "consumer", CONSUMER_PROTOCOL


def _filter_name(state: str) -> str:
    """A state as filters name it; in Kafka this one has an underscore."""
    return "not_ready" if state == "NotReady" else state.lower()


def _state(group: Group) -> str:
    return group.state.value if isinstance(group, ClassicGroup) else group.state


def _classic_member(member: ClassicMember, protocol: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol is None else member.metadata(protocol),
        member_assignment=member.assignment,
    )
