"""StreamsGroupDescribe: a group with its topology, members, and their current and target assignments."""

from collections.abc import Iterable, Mapping

from isthmus_wire.errors import ErrorCode
from kio.schema.streams_group_describe.v0 import response as wire
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i16, i32, u16

from isthmus_broker.core.group.streams.group import StreamsGroup
from isthmus_broker.core.group.streams.member import StreamsMember
from isthmus_broker.core.group.streams.records import TopicInfo
from isthmus_broker.core.group.streams.tasks import Assignment, OwnedAssignment, listed
from isthmus_broker.core.group.streams.topology import Topology


def described(group: StreamsGroup) -> wire.DescribedGroup:
    """The group."""
    return wire.DescribedGroup(
        error_code=ErrorCode.none,
        error_message=None,
        group_id=GroupId(group.group_id),
        group_state=group.state,
        group_epoch=i32(group.epoch),
        assignment_epoch=i32(group.assignment_epoch),
        topology=_topology(group),
        members=tuple(_member(member, group.target_of(member.member_id)) for member in group.members.values()),
    )


def _topology(group: StreamsGroup) -> wire.Topology | None:
    """The topology with partition counts if it is valid, else as the first member sent it."""
    configured, topology = group.configured, group.topology
    if configured is not None and configured.is_ready and configured.subtopologies is not None:
        subtopologies = tuple(
            wire.Subtopology(
                subtopology_id=name,
                source_topics=_names(each.source_topics),
                repartition_sink_topics=_names(each.repartition_sink_topics),
                state_changelog_topics=_topics(each.state_changelog_topics),
                repartition_source_topics=_topics(each.repartition_source_topics),
            )
            for name, each in configured.subtopologies.items()
        )
        return wire.Topology(epoch=i32(configured.epoch), subtopologies=subtopologies)
    return None if topology is None else _unvalidated(topology)


def _unvalidated(topology: Topology) -> wire.Topology:
    subtopologies = tuple(
        wire.Subtopology(
            subtopology_id=name,
            source_topics=_names(topology.subtopologies[name].source_topics),
            repartition_sink_topics=_names(topology.subtopologies[name].repartition_sink_topics),
            state_changelog_topics=_topics(topology.subtopologies[name].state_changelog_topics),
            repartition_source_topics=_topics(topology.subtopologies[name].repartition_source_topics),
        )
        for name in sorted(topology.subtopologies)
    )
    return wire.Topology(epoch=i32(topology.epoch), subtopologies=subtopologies)


def _names(topics: Iterable[str]) -> tuple[TopicName, ...]:
    return tuple(TopicName(name) for name in sorted(topics))


def _topics(topics: Iterable[TopicInfo]) -> tuple[wire.TopicInfo, ...]:
    return tuple(
        wire.TopicInfo(
            name=TopicName(topic.name),
            partitions=i32(topic.partitions),
            replication_factor=i16(topic.replication_factor),
            topic_configs=tuple(wire.KeyValue(key=each.key, value=each.value) for each in topic.topic_configs),
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    )


def _member(member: StreamsMember, target: Assignment) -> wire.Member:
    endpoint = member.user_endpoint
    return wire.Member(
        member_id=member.member_id,
        member_epoch=i32(member.epoch),
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=i32(member.topology_epoch),
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else wire.Endpoint(host=endpoint.host, port=u16(endpoint.port)),
        client_tags=tuple(wire.KeyValue(key=key, value=value) for key, value in sorted(member.client_tags.items())),
        task_offsets=(),
        task_end_offsets=(),
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(target),
        is_classic=False,
    )


def _assignment(tasks: Assignment | OwnedAssignment) -> wire.Assignment:
    return wire.Assignment(
        active_tasks=_tasks(tasks.active), standby_tasks=_tasks(tasks.standby), warmup_tasks=_tasks(tasks.warmup)
    )


def _tasks(tasks: Mapping[str, Iterable[int]]) -> tuple[wire.TaskIds, ...]:
    return tuple(
        wire.TaskIds(subtopology_id=name, partitions=tuple(map(i32, partitions))) for name, partitions in listed(tasks)
    )
