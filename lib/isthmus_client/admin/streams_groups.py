"""Streams groups (KIP-1071): the topology of the application, and the tasks of its members."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from kio.schema.streams_group_describe.v0.request import StreamsGroupDescribeRequest

from isthmus_client.connection import Connection

STREAMS = "streams"
Tasks = Mapping[str, tuple[int, ...]]
"""The partitions of tasks by subtopology."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The tasks of one member."""

    active: Tasks
    standby: Tasks
    warmup: Tasks


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """What a member of a streams group has beside any other member; `endpoint` is HOST:PORT, where the application is queried."""

    process_id: str
    topology_epoch: int
    endpoint: str | None
    assignment: Assignment
    target: Assignment


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A part of the topology: its tasks read its source and repartition source topics."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_source_topics: tuple[str, ...]
    changelog_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]

    @property
    def topics_read(self) -> tuple[str, ...]:
        """The topics whose partitions its tasks read."""
        return tuple(sorted({*self.source_topics, *self.repartition_source_topics}))


@dataclass(frozen=True, slots=True)
class Topology:
    """The topology of the application, as its first member sent it or as the coordinator completed it."""

    epoch: int
    subtopologies: tuple[Subtopology, ...]

    @property
    def topics_read(self) -> tuple[str, ...]:
        """The topics that the application reads."""
        return tuple(sorted({topic for part in self.subtopologies for topic in part.topics_read}))

    def partitions_read(self, tasks: Tasks) -> Iterable[tuple[str, int]]:
        """Topic and partition of all that these tasks read, if each of the topics has as many partitions."""
        for part in self.subtopologies:
            for topic in part.topics_read:
                yield from ((topic, index) for index in tasks.get(part.subtopology_id, ()))


@dataclass(frozen=True, slots=True)
class StreamsGroup:
    """What a streams group has beside any other group; without a topology before its first member joined."""

    assignment_epoch: int
    topology: Topology | None


async def request_description(connection: Connection, group_ids: Iterable[str]) -> tuple[Any, ...]:
    """StreamsGroupDescribe of some groups."""
    request = entity(StreamsGroupDescribeRequest, group_ids=tuple(group_ids), include_authorized_operations=False)
    response = await connection.request(ApiKey.STREAMS_GROUP_DESCRIBE, request)
    return tuple(response.groups)


def streams_group(group: Any) -> StreamsGroup:
    """The part of a response that is about the group."""
    return StreamsGroup(group.assignment_epoch, None if group.topology is None else _topology(group.topology))


def streams_member(member: Any) -> StreamsMember:
    """The part of a response that is about a member."""
    endpoint = member.user_endpoint
    return StreamsMember(
        member.process_id,
        member.topology_epoch,
        None if endpoint is None else f"{endpoint.host}:{endpoint.port}",
        _assignment(member.assignment),
        _assignment(member.target_assignment),
    )


def _topology(topology: Any) -> Topology:
    subtopologies = tuple(
        Subtopology(
            part.subtopology_id,
            tuple(part.source_topics),
            tuple(topic.name for topic in part.repartition_source_topics),
            tuple(topic.name for topic in part.state_changelog_topics),
            tuple(part.repartition_sink_topics),
        )
        for part in sorted(topology.subtopologies or (), key=lambda part: str(part.subtopology_id))
    )
    return Topology(topology.epoch, subtopologies)


def _assignment(assignment: Any) -> Assignment:
    return Assignment(
        _tasks(assignment.active_tasks), _tasks(assignment.standby_tasks), _tasks(assignment.warmup_tasks)
    )


def _tasks(tasks: Iterable[Any]) -> Tasks:
    return {each.subtopology_id: tuple(sorted(each.partitions)) for each in tasks}
