"""Groups: list, describe with their members, delete."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.list_groups.v5.request import ListGroupsRequest

from isthmus_client.admin.streams_groups import (
    STREAMS,
    StreamsGroup,
    StreamsMember,
    request_description,
    streams_group,
    streams_member,
)
from isthmus_client.client import Client
from isthmus_client.connection import Connection
from isthmus_client.errors import ClientError, Refused, check
from isthmus_client.membership import PROTOCOL_TYPE, decode_assignment, decode_subscription
from isthmus_client.metadata import ClusterView, TopicPartition
from isthmus_client.requests_by_broker import by_coordinator

CLASSIC = "classic"
CONSUMER = "consumer"
_DEAD = "Dead"
_OF_ANOTHER_TYPE = (ErrorCode.group_id_not_found, ErrorCode.unsupported_version)


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group in a list; brokers before 3.8 do not report the type, brokers before 2.6 do not report the state."""

    group_id: str
    state: str
    type: str
    protocol_type: str


@dataclass(frozen=True, slots=True)
class Member:
    """One member; `epoch` in groups of types consumer and streams, `streams` in the latter only.

    `partitions` are those that it reads; in a streams group, those of its active tasks.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    topics: tuple[str, ...]
    partitions: tuple[TopicPartition, ...]
    rack: str | None = None
    epoch: int | None = None
    streams: StreamsMember | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """One group; `epoch` for types consumer and streams, `streams` for the latter only."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[Member, ...]
    epoch: int | None = None
    streams: StreamsGroup | None = None


async def list_groups(client: Client, states: Collection[str] = (), types: Collection[str] = ()) -> list[ListedGroup]:
    """Every group of the cluster, by id; each broker lists those it coordinates, so all must respond."""
    request = entity(ListGroupsRequest, states_filter=tuple(states), types_filter=tuple(types))
    view = await client.metadata_of(())

    def verify(response: Any) -> None:
        check(response.error_code, "list of groups")

    responses = await asyncio.gather(
        *(client.send_to_broker(node_id, ApiKey.LIST_GROUPS, request, verify) for node_id in sorted(view.brokers))
    )
    groups = {g.group_id: g for response in responses for g in response.groups}
    return [
        ListedGroup(g.group_id, g.group_state, g.group_type or CLASSIC, g.protocol_type)
        for _, g in sorted(groups.items())
    ]


async def describe(client: Client, group_ids: Collection[str]) -> dict[str, Group | ClientError]:
    """Each group with its members, or its error."""
    described = await by_coordinator(client, "describe groups", dict.fromkeys(group_ids), _describe)
    topics = {topic for group in described.values() if isinstance(group, Group) for topic in _topics_read(group)}
    if topics:
        view = await client.metadata_of(topics)
        described = {
            group_id: _with_partitions(group, view) if isinstance(group, Group) else group
            for group_id, group in described.items()
        }
    return described


def _topics_read(group: Group) -> tuple[str, ...]:
    """The topics of a streams group, whose members do not say which partitions they read."""
    return () if group.streams is None or group.streams.topology is None else group.streams.topology.topics_read


def _with_partitions(group: Group, view: ClusterView) -> Group:
    topology = None if group.streams is None else group.streams.topology
    if topology is None:
        return group

    def read(member: Member) -> Member:
        assert member.streams is not None
        partitions = (TopicPartition(*each) for each in topology.partitions_read(member.streams.assignment.active))
        return replace(member, partitions=tuple(sorted(each for each in partitions if view.leader(each) is not None)))

    return replace(group, members=tuple(map(read, group.members)))


async def _describe(connection: Connection, share: dict[str, None]) -> Mapping[str, Group | ClientError]:
    """Describe as groups of type consumer first, the rest as classic groups, and those that are none of them as streams groups."""
    described: dict[str, Group | ClientError] = {}
    if connection.versions.supports(ApiKey.CONSUMER_GROUP_DESCRIBE):
        described |= await _describe_consumer(connection, list(share))
    rest = [group for group in share if group not in described]
    if rest:
        described |= await _describe_classic(connection, rest)
    missing = [group_id for group_id, group in described.items() if _is_missing(group)]
    if missing and connection.versions.supports(ApiKey.STREAMS_GROUP_DESCRIBE):
        described |= await _describe_streams(connection, missing)
    return described


def _is_missing(group: Group | ClientError) -> bool:
    return isinstance(group, Refused) and group.code is ErrorCode.group_id_not_found


async def _describe_streams(connection: Connection, group_ids: list[str]) -> dict[str, Group | ClientError]:
    return {
        group.group_id: _refusal(group) or _streams_group(group)
        for group in await request_description(connection, group_ids)
        if group.error_code not in _OF_ANOTHER_TYPE
    }


async def _describe_consumer(connection: Connection, group_ids: list[str]) -> dict[str, Group | ClientError]:
    request = entity(ConsumerGroupDescribeRequest, group_ids=tuple(group_ids), include_authorized_operations=False)
    response = await connection.request(ApiKey.CONSUMER_GROUP_DESCRIBE, request)
    described: dict[str, Group | ClientError] = {}
    for group in response.groups:
        if group.error_code in _OF_ANOTHER_TYPE:
            continue
        described[group.group_id] = _refusal(group) or _consumer_group(group)
    return described


async def _describe_classic(connection: Connection, group_ids: list[str]) -> dict[str, Group | ClientError]:
    request = entity(DescribeGroupsRequest, groups=tuple(group_ids), include_authorized_operations=False)
    response = await connection.request(ApiKey.DESCRIBE_GROUPS, request)
    return {g.group_id: _refusal(g) or _classic_group(g) for g in response.groups}


def _refusal(group: Any) -> Refused | None:
    code = group.error_code
    if code is ErrorCode.none and group.group_state == _DEAD:  # brokers before 4.0 report absent groups as dead
        code = ErrorCode.group_id_not_found
    return None if code is ErrorCode.none else Refused(code, f"group {group.group_id}", group.error_message)


def _consumer_group(group: Any) -> Group:
    members = tuple(
        Member(
            m.member_id,
            m.instance_id,
            m.client_id,
            m.client_host,
            tuple(m.subscribed_topic_names),
            tuple(sorted(_partitions(m.assignment.topic_partitions))),
            m.rack_id,
            m.member_epoch,
        )
        for m in group.members
    )
    return Group(
        group.group_id,
        CONSUMER,
        group.group_state,
        PROTOCOL_TYPE,
        group.assignor_name,
        members,
        group.group_epoch,
    )


def _streams_group(group: Any) -> Group:
    streams = streams_group(group)
    topics = () if streams.topology is None else streams.topology.topics_read
    members = tuple(
        Member(
            m.member_id,
            m.instance_id,
            m.client_id,
            m.client_host,
            topics,
            (),
            m.rack_id,
            m.member_epoch,
            streams_member(m),
        )
        for m in group.members
    )
    return Group(group.group_id, STREAMS, group.group_state, STREAMS, "", members, group.group_epoch, streams)


def _partitions(topics: Iterable[Any]) -> Iterable[TopicPartition]:
    return (TopicPartition(t.topic_name, index) for t in topics for index in t.partitions)


def _classic_group(group: Any) -> Group:
    members = tuple(
        Member(
            m.member_id,
            m.group_instance_id,
            m.client_id,
            m.client_host,
            decode_subscription(m.member_metadata) if group.protocol_type == PROTOCOL_TYPE else (),
            decode_assignment(m.member_assignment) if group.protocol_type == PROTOCOL_TYPE else (),
        )
        for m in group.members
    )
    return Group(group.group_id, CLASSIC, group.group_state, group.protocol_type, group.protocol_data, members)


async def delete(client: Client, group_ids: Collection[str]) -> dict[str, ClientError | None]:
    """Delete groups without members, with their offsets. Returns None or the error of each."""

    async def send(connection: Connection, share: dict[str, None]) -> Mapping[str, ClientError | None]:
        request = entity(DeleteGroupsRequest, groups_names=tuple(share))
        response = await connection.request(ApiKey.DELETE_GROUPS, request)
        return {
            r.group_id: None if r.error_code is ErrorCode.none else Refused(r.error_code, f"group {r.group_id}")
            for r in response.results
        }

    return await by_coordinator(client, "delete groups", dict.fromkeys(group_ids), send)
