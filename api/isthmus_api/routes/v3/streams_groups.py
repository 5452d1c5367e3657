"""Streams groups: their topology, their members, and the tasks of each.

Beside what Confluent's REST v3 has, a member has its tasks, and a subtopology all of its topics.
"""

from __future__ import annotations

from typing import Literal

from isthmus_client.admin import groups as group_admin
from isthmus_client.admin.groups import Group, Member
from isthmus_client.admin.streams_groups import STREAMS, Assignment, StreamsGroup, StreamsMember, Subtopology, Tasks
from isthmus_client.client import Client
from pydantic import Field

from isthmus_api.models import Shape
from isthmus_api.problems import Problem
from isthmus_api.registry import Routes
from isthmus_api.request_context import Call
from isthmus_api.routes.v3.groups import capitals, existing_group
from isthmus_api.routes.v3.shapes import (
    CLUSTER,
    ClusterPath,
    KafkaList,
    Metadata,
    Related,
    Resource,
    listed,
    metadata,
    related,
)

routes = Routes("Streams groups", CLUSTER)
Kind = Literal["active", "standby", "warmup"]
Which = Literal["assignments", "target-assignments"]
_MEMBER = "/streams-groups/{group_id}/members/{member_id}"


class StreamsGroupPath(ClusterPath):
    """One streams group."""

    group_id: str = Field(min_length=1)


class SubtopologyPath(StreamsGroupPath):
    """One subtopology."""

    subtopology_id: str = Field(min_length=1)


class StreamsMemberPath(StreamsGroupPath):
    """One member."""

    member_id: str = Field(min_length=1)


class TasksPath(StreamsMemberPath):
    """A member's tasks of one kind."""

    assignments_type: Kind


class TaskPath(TasksPath):
    """A member's tasks of one kind in one subtopology."""

    subtopology_id: str = Field(min_length=1)


class StreamsGroupData(Resource):
    """A streams group; without a topology before its first member joined."""

    kind: Literal["KafkaStreamsGroup"] = "KafkaStreamsGroup"
    group_id: str
    state: str
    member_count: int
    subtopology_count: int
    group_epoch: int
    topology_epoch: int | None
    target_assignment_epoch: int
    members: Related
    subtopologies: Related


class StreamsGroupDataList(KafkaList[StreamsGroupData]):
    """Streams groups."""

    kind: Literal["KafkaStreamsGroupList"] = "KafkaStreamsGroupList"


class SubtopologyData(Resource):
    """A subtopology and its topics."""

    kind: Literal["KafkaStreamsGroupSubtopology"] = "KafkaStreamsGroupSubtopology"
    group_id: str
    subtopology_id: str
    source_topics: list[str]
    repartition_source_topics: list[str]
    changelog_topics: list[str]
    repartition_sink_topics: list[str]


class SubtopologyDataList(KafkaList[SubtopologyData]):
    """The subtopologies of a group."""

    kind: Literal["KafkaStreamsGroupSubtopologyList"] = "KafkaStreamsGroupSubtopologyList"


class TaskPartitions(Shape):
    """The partitions of tasks in one subtopology."""

    subtopology_id: str
    partition_ids: list[int]


class MemberTasks(Shape):
    """The tasks of one member."""

    active: list[TaskPartitions]
    standby: list[TaskPartitions]
    warmup: list[TaskPartitions]


class StreamsMemberData(Resource):
    """A member with its current tasks and its target tasks."""

    kind: Literal["KafkaStreamsGroupMember"] = "KafkaStreamsGroupMember"
    group_id: str
    member_id: str
    process_id: str
    client_id: str
    instance_id: str | None
    member_epoch: int
    topology_epoch: int
    is_classic: bool
    tasks: MemberTasks
    target_tasks: MemberTasks
    assignments: Related
    target_assignment: Related


class StreamsMemberDataList(KafkaList[StreamsMemberData]):
    """The members of a group."""

    kind: Literal["KafkaStreamsGroupMemberList"] = "KafkaStreamsGroupMemberList"


class StreamsAssignmentData(Resource):
    """The kinds of tasks of a member."""

    kind: Literal["KafkaStreamsGroupMemberAssignment"] = "KafkaStreamsGroupMemberAssignment"
    group_id: str
    member_id: str
    active_tasks: Related
    standby_tasks: Related
    warmup_tasks: Related


class StreamsTaskData(Shape):
    """Tasks of one subtopology."""

    kind: Literal["KafkaStreamsGroupTask"] = "KafkaStreamsGroupTask"
    metadata: Metadata
    subtopology_id: str
    partition_ids: list[int]


class StreamsTaskDataList(KafkaList[StreamsTaskData]):
    """Tasks of one kind."""

    kind: Literal["KafkaStreamsGroupTaskList"] = "KafkaStreamsGroupTaskList"


@routes.get("/streams-groups")
async def list_kafka_streams_groups(call: Call, path: ClusterPath) -> StreamsGroupDataList:
    """List the streams groups."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        groups = await group_admin.list_groups(client)
        described = await group_admin.describe(client, [one.group_id for one in groups if one.type == STREAMS])
    # A group that was deleted between the two requests has no description.
    data = [_group(call, path.cluster_id, group) for group in described.values() if isinstance(group, Group)]
    return StreamsGroupDataList(metadata=listed(call), data=data)


@routes.get("/streams-groups/{group_id}")
async def get_kafka_streams_group(call: Call, path: StreamsGroupPath) -> StreamsGroupData:
    """Get a streams group."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        group, _ = await _existing(client, path.group_id)
    return _group(call, path.cluster_id, group)


@routes.get("/streams-groups/{group_id}/subtopologies")
async def list_kafka_streams_group_subtopologies(call: Call, path: StreamsGroupPath) -> SubtopologyDataList:
    """List the subtopologies of a streams group."""
    data = [_subtopology(call, path, part) for part in await _subtopologies(call, path)]
    return SubtopologyDataList(metadata=listed(call), data=data)


@routes.get("/streams-groups/{group_id}/subtopologies/{subtopology_id}")
async def get_kafka_streams_group_subtopology(call: Call, path: SubtopologyPath) -> SubtopologyData:
    """Get a subtopology of a streams group."""
    for part in await _subtopologies(call, path):
        if part.subtopology_id == path.subtopology_id:
            return _subtopology(call, path, part)
    raise Problem(404, f"Subtopology {path.subtopology_id} cannot be found in streams group {path.group_id}.")


@routes.get("/streams-groups/{group_id}/members")
async def list_kafka_streams_group_members(call: Call, path: StreamsGroupPath) -> StreamsMemberDataList:
    """List the members of a streams group."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        group, _ = await _existing(client, path.group_id)
    data = [_member(call, path, member) for member in group.members]
    return StreamsMemberDataList(metadata=listed(call), data=data)


@routes.get(_MEMBER)
async def get_kafka_streams_group_member(call: Call, path: StreamsMemberPath) -> StreamsMemberData:
    """Get a member of a streams group."""
    return _member(call, path, await _existing_member(call, path))


@routes.get(_MEMBER + "/assignments")
async def get_kafka_streams_group_member_assignments(call: Call, path: StreamsMemberPath) -> StreamsAssignmentData:
    """Get the kinds of tasks that a member has."""
    await _existing_member(call, path)
    return _assignment(call, path, "assignments")


@routes.get(_MEMBER + "/target-assignments")
async def get_kafka_streams_group_member_target_assignments(
    call: Call, path: StreamsMemberPath
) -> StreamsAssignmentData:
    """Get the kinds of tasks that a member is to have."""
    await _existing_member(call, path)
    return _assignment(call, path, "target-assignments")


@routes.get(_MEMBER + "/assignments/{assignments_type}")
async def list_kafka_streams_group_member_assignment_tasks(call: Call, path: TasksPath) -> StreamsTaskDataList:
    """List the tasks of one kind that a member has."""
    return await _tasks(call, path, "assignments")


@routes.get(_MEMBER + "/target-assignments/{assignments_type}")
async def list_kafka_streams_group_member_target_assignment_tasks(call: Call, path: TasksPath) -> StreamsTaskDataList:
    """List the tasks of one kind that a member is to have."""
    return await _tasks(call, path, "target-assignments")


@routes.get(_MEMBER + "/assignments/{assignments_type}/subtopologies/{subtopology_id}")
async def get_kafka_streams_group_member_assignment_task_partitions(call: Call, path: TaskPath) -> StreamsTaskData:
    """Get the tasks of one kind and subtopology that a member has."""
    return await _task(call, path, "assignments")


@routes.get(_MEMBER + "/target-assignments/{assignments_type}/subtopologies/{subtopology_id}")
async def get_kafka_streams_group_member_target_assignment_task_partitions(
    call: Call, path: TaskPath
) -> StreamsTaskData:
    """Get the tasks of one kind and subtopology that a member is to have."""
    return await _task(call, path, "target-assignments")


async def _existing(client: Client, group_id: str) -> tuple[Group, StreamsGroup]:
    group = await existing_group(client, group_id)
    if group.streams is None:
        raise Problem(404, f"Group {group_id} is not a streams group.")
    return group, group.streams


async def _subtopologies(call: Call, path: StreamsGroupPath) -> tuple[Subtopology, ...]:
    async with call.parts.clusters.use(path.cluster_id) as client:
        _, streams = await _existing(client, path.group_id)
    return () if streams.topology is None else streams.topology.subtopologies


async def _existing_member(call: Call, path: StreamsMemberPath) -> Member:
    async with call.parts.clusters.use(path.cluster_id) as client:
        group, _ = await _existing(client, path.group_id)
    for member in group.members:
        if member.member_id == path.member_id:
            return member
    raise Problem(404, f"Member {path.member_id} cannot be found in streams group {path.group_id}.")


async def _tasks_of(call: Call, path: TasksPath, which: Which) -> Tasks:
    streams = _of_streams(await _existing_member(call, path))
    assignment = streams.assignment if which == "assignments" else streams.target
    return {"active": assignment.active, "standby": assignment.standby, "warmup": assignment.warmup}[
        path.assignments_type
    ]


async def _tasks(call: Call, path: TasksPath, which: Which) -> StreamsTaskDataList:
    tasks = await _tasks_of(call, path, which)
    data = [_task_data(call, path, which, part, tasks[part]) for part in sorted(tasks)]
    return StreamsTaskDataList(metadata=listed(call), data=data)


async def _task(call: Call, path: TaskPath, which: Which) -> StreamsTaskData:
    tasks = await _tasks_of(call, path, which)
    if path.subtopology_id not in tasks:
        raise Problem(
            404, f"Member {path.member_id} has no {path.assignments_type} tasks of subtopology {path.subtopology_id}."
        )
    return _task_data(call, path, which, path.subtopology_id, tasks[path.subtopology_id])


def _of_streams(member: Member) -> StreamsMember:
    assert member.streams is not None, "a member of a streams group"
    return member.streams


def _here(path: StreamsGroupPath) -> tuple[str, ...]:
    return ("clusters", path.cluster_id, "streams-groups", path.group_id)


def _crn(path: StreamsGroupPath) -> tuple[str, ...]:
    return ("kafka", path.cluster_id, "streams-group", path.group_id)


def _group(call: Call, cluster_id: str, group: Group) -> StreamsGroupData:
    path = StreamsGroupPath(cluster_id=cluster_id, group_id=group.group_id)
    streams, here = group.streams, _here(path)
    assert streams is not None, "a streams group"
    assert group.epoch is not None, "streams groups have an epoch"
    topology = streams.topology
    return StreamsGroupData(
        metadata=metadata(call, here, _crn(path)),
        cluster_id=cluster_id,
        group_id=group.group_id,
        state=capitals(group.state),
        member_count=len(group.members),
        subtopology_count=0 if topology is None else len(topology.subtopologies),
        group_epoch=group.epoch,
        topology_epoch=None if topology is None else topology.epoch,
        target_assignment_epoch=streams.assignment_epoch,
        members=related(call, *here, "members"),
        subtopologies=related(call, *here, "subtopologies"),
    )


def _subtopology(call: Call, path: StreamsGroupPath, part: Subtopology) -> SubtopologyData:
    here = (*_here(path), "subtopologies", part.subtopology_id)
    return SubtopologyData(
        metadata=metadata(call, here, (*_crn(path), "subtopology", part.subtopology_id)),
        cluster_id=path.cluster_id,
        group_id=path.group_id,
        subtopology_id=part.subtopology_id,
        source_topics=list(part.source_topics),
        repartition_source_topics=list(part.repartition_source_topics),
        changelog_topics=list(part.changelog_topics),
        repartition_sink_topics=list(part.repartition_sink_topics),
    )


def _member(call: Call, path: StreamsGroupPath, member: Member) -> StreamsMemberData:
    streams, here = _of_streams(member), (*_here(path), "members", member.member_id)
    assert member.epoch is not None, "members of streams groups have an epoch"
    return StreamsMemberData(
        metadata=metadata(call, here, (*_crn(path), "member", member.member_id)),
        cluster_id=path.cluster_id,
        group_id=path.group_id,
        member_id=member.member_id,
        process_id=streams.process_id,
        client_id=member.client_id,
        instance_id=member.instance_id,
        member_epoch=member.epoch,
        topology_epoch=streams.topology_epoch,
        is_classic=False,
        tasks=_member_tasks(streams.assignment),
        target_tasks=_member_tasks(streams.target),
        assignments=related(call, *here, "assignments"),
        target_assignment=related(call, *here, "target-assignments"),
    )


def _member_tasks(assignment: Assignment) -> MemberTasks:
    return MemberTasks(
        active=_partitions(assignment.active),
        standby=_partitions(assignment.standby),
        warmup=_partitions(assignment.warmup),
    )


def _partitions(tasks: Tasks) -> list[TaskPartitions]:
    return [TaskPartitions(subtopology_id=part, partition_ids=list(tasks[part])) for part in sorted(tasks)]


def _assignment(call: Call, path: StreamsMemberPath, which: Which) -> StreamsAssignmentData:
    here = (*_here(path), "members", path.member_id, which)
    return StreamsAssignmentData(
        metadata=metadata(call, here, (*_crn(path), "member", path.member_id, which[:-1], path.member_id)),
        cluster_id=path.cluster_id,
        group_id=path.group_id,
        member_id=path.member_id,
        active_tasks=related(call, *here, "active"),
        standby_tasks=related(call, *here, "standby"),
        warmup_tasks=related(call, *here, "warmup"),
    )


def _task_data(call: Call, path: TasksPath, which: Which, part: str, partitions: tuple[int, ...]) -> StreamsTaskData:
    here = (*_here(path), "members", path.member_id, which, path.assignments_type, "subtopologies", part)
    crn = (*_crn(path), "member", path.member_id, which[:-1], path.assignments_type, "subtopology", part)
    return StreamsTaskData(metadata=metadata(call, here, crn), subtopology_id=part, partition_ids=list(partitions))
