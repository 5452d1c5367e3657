"""Members of streams groups for tests: topologies, heartbeats, and a client that behaves as Kafka Streams does."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from isthmus_broker.core.group.streams.group import StreamsGroup
from isthmus_broker.core.group.streams.responses import TopicsToCreate
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import millis
from kio.schema.streams_group_describe.v0.request import StreamsGroupDescribeRequest as _StreamsGroupDescribeRequest
from kio.schema.streams_group_heartbeat.v0 import request as _request

from tests.unit.group.harness import GROUP, World

StreamsGroupDescribeRequest: Final[Any] = _StreamsGroupDescribeRequest
wire: Final[Any] = _request
Tasks = Mapping[str, Iterable[int]]


def internal(name: str, partitions: int = 0, replicas: int = 0, **configs: str) -> Any:
    """A topic that the broker creates."""
    entries = tuple(wire.KeyValue(key=key, value=value) for key, value in configs.items())
    return wire.TopicInfo(name=name, partitions=partitions, replication_factor=replicas, topic_configs=entries)


def together(sources: tuple[int, ...] = (), repartitions: tuple[int, ...] = ()) -> Any:
    """A copartition group."""
    return wire.CopartitionGroup(source_topics=sources, repartition_source_topics=repartitions)


def part(name: str, *sources: str, sinks: Iterable[str] = (), **fields: Any) -> Any:
    """A subtopology."""
    return wire.Subtopology(
        subtopology_id=name,
        source_topics=sources,
        source_topic_regex=fields.get("regex", ()),
        state_changelog_topics=tuple(fields.get("changelogs", ())),
        repartition_sink_topics=tuple(sinks),
        repartition_source_topics=tuple(fields.get("repartitions", ())),
        copartition_groups=tuple(fields.get("copartitioned", ())),
    )


def topology(*parts: Any, epoch: int = 0) -> Any:
    """A topology; one that copies topic `a` by default."""
    return wire.Topology(epoch=epoch, subtopologies=parts or (part("0", "a"),))


def task_ids(tasks: Tasks) -> Any:
    """Tasks as in a request."""
    return tuple(wire.TaskIds(subtopology_id=name, partitions=tuple(indexes)) for name, indexes in tasks.items())


def beat_request(
    member_id: str,
    epoch: int,
    *,
    active: Tasks | None = None,
    standby: Tasks | None = None,
    **fields: Any,
) -> Any:
    """A heartbeat; to join, a full one of a process of its own."""
    if epoch == 0:
        active = {} if active is None else active
        fields.setdefault("topology", topology())
        fields.setdefault("process_id", f"process of {member_id}")
        fields.setdefault("client_tags", ())
    fields.setdefault("rebalance_timeout", millis(60_000 if epoch == 0 else -1))
    owns = active is not None
    return wire.StreamsGroupHeartbeatRequest(
        group_id=fields.pop("group_id", GROUP),
        member_id=member_id,
        member_epoch=epoch,
        endpoint_information_epoch=fields.pop("endpoint_epoch", 0),
        topology=fields.pop("topology", None),
        active_tasks=task_ids(active) if active is not None else None,
        standby_tasks=task_ids(standby or {}) if owns else None,
        warmup_tasks=fields.pop("warmup_tasks", () if owns else None),
        client_tags=fields.pop("client_tags", None),
        task_offsets=fields.pop("task_offsets", None),
        task_end_offsets=fields.pop("task_end_offsets", None),
        **fields,
    )


def beat(world: World, member_id: str, epoch: int, **fields: Any) -> Any:
    """The response to a heartbeat, without the topics to create."""
    response = world.response_to(beat_request(member_id, epoch, **fields))
    return response.response if isinstance(response, TopicsToCreate) else response


def statuses(response: Any) -> list[int]:
    """The codes of a response's statuses."""
    return [status.status_code for status in response.status]


def tasks_of(entries: Any) -> dict[str, tuple[int, ...]] | None:
    """The tasks in a response."""
    return None if entries is None else {entry.subtopology_id: tuple(entry.partitions) for entry in entries}


def described(world: World, group_id: str = GROUP) -> Any:
    """StreamsGroupDescribe of one group."""
    request = StreamsGroupDescribeRequest(group_ids=(group_id,), include_authorized_operations=False)
    return world.response_to(request).groups[0]


def the_group(world: World) -> StreamsGroup:
    """The group itself."""
    group = world.shard.registry.groups[GROUP]
    assert isinstance(group, StreamsGroup)
    return group


@dataclass
class Client:
    """A thread of an application: it revokes tasks before it reports that it has others."""

    member_id: str
    process_id: str
    topology: Any
    epoch: int = 0
    active: dict[str, tuple[int, ...]] = field(default_factory=dict)
    standby: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def beat(self, world: World, rng: random.Random | None = None) -> Any:
        """One heartbeat, which may leave out the tasks, and the reaction to its response."""
        fields: dict[str, Any] = {}
        if self.epoch == 0:
            fields = {"topology": self.topology, "process_id": self.process_id}
        elif rng is None or rng.random() < 0.7:
            fields = {"active": self.active, "standby": self.standby}
        response = beat(world, self.member_id, self.epoch, **fields)
        if response.error_code != ErrorCode.none:
            self.epoch, self.active, self.standby = 0, {}, {}
            return response
        self.epoch = response.member_epoch
        if response.active_tasks is not None:
            self.active = tasks_of(response.active_tasks) or {}
            self.standby = tasks_of(response.standby_tasks) or {}
        return response

    def leave(self, world: World) -> None:
        """Leave the group."""
        beat(world, self.member_id, -1)
        self.epoch, self.active, self.standby = 0, {}, {}


def settle(world: World, *clients: Client) -> None:
    """Heartbeats until all clients have what the target gives them."""
    for _ in range(20):
        world.advance(100)
        for client in clients:
            client.beat(world)
        if described(world).group_state == "Stable":
            return
    raise AssertionError(f"the group does not settle: {described(world)}")
