"""The records of streams groups in __consumer_offsets, in Kafka's formats."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from isthmus_broker.core.group.entity import Entity, kafka_type


@dataclass(frozen=True, slots=True)
class StreamsGroupMetadataKey(Entity):
    """A streams group's epoch."""

    __flexible__: ClassVar[bool] = False
    prefix: ClassVar[int] = 17
    group_id: str = field(metadata=kafka_type("string"))


@dataclass(frozen=True, slots=True)
class KeyValue:
    """One of several named texts: a tag of a client, a setting of a topic or of the assignment."""

    __flexible__: ClassVar[bool] = True
    key: str = field(metadata=kafka_type("string"))
    value: str = field(metadata=kafka_type("string"))


@dataclass(frozen=True, slots=True)
class StreamsGroupMetadataValue(Entity):
    """The group epoch, and what it was bumped for: the topics' hash, the validated topology, and the settings of the assignment."""

    __flexible__: ClassVar[bool] = True
    epoch: int = field(metadata=kafka_type("int32"))
    metadata_hash: int = field(metadata=kafka_type("int64"))
    validated_topology_epoch: int = field(metadata=kafka_type("int32", tag=0), default=-1)
    last_assignment_configs: tuple[KeyValue, ...] | None = field(metadata={"tag": 1}, default=None)


@dataclass(frozen=True, slots=True)
class StreamsGroupMemberMetadataKey(Entity):
    """A member of a streams group."""

    __flexible__: ClassVar[bool] = False
    prefix: ClassVar[int] = 19
    group_id: str = field(metadata=kafka_type("string"))
    member_id: str = field(metadata=kafka_type("string"))


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a member serves interactive queries."""

    __flexible__: ClassVar[bool] = True
    host: str = field(metadata=kafka_type("string"))
    port: int = field(metadata=kafka_type("uint16"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupMemberMetadataValue(Entity):
    """What a member reported about itself."""

    __flexible__: ClassVar[bool] = True
    instance_id: str | None = field(metadata=kafka_type("string"))
    rack_id: str | None = field(metadata=kafka_type("string"))
    client_id: str = field(metadata=kafka_type("string"))
    client_host: str = field(metadata=kafka_type("string"))
    rebalance_timeout_ms: int = field(metadata=kafka_type("int32"), default=-1)
    topology_epoch: int = field(metadata=kafka_type("int32"))
    process_id: str = field(metadata=kafka_type("string"))
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...]


@dataclass(frozen=True, slots=True)
class StreamsGroupTargetAssignmentMetadataKey(Entity):
    """A streams group's target assignment."""

    __flexible__: ClassVar[bool] = False
    prefix: ClassVar[int] = 20
    group_id: str = field(metadata=kafka_type("string"))


@dataclass(frozen=True, slots=True)
class StreamsGroupTargetAssignmentMetadataValue(Entity):
    """The group epoch for which the target was computed, and when (KIP-1263)."""

    __flexible__: ClassVar[bool] = True
    assignment_epoch: int = field(metadata=kafka_type("int32"))
    assignment_timestamp: int = field(metadata=kafka_type("int64", tag=0), default=0)


@dataclass(frozen=True, slots=True)
class StreamsGroupTargetAssignmentMemberKey(Entity):
    """A member's part of the target."""

    __flexible__: ClassVar[bool] = False
    prefix: ClassVar[int] = 21
    group_id: str = field(metadata=kafka_type("string"))
    member_id: str = field(metadata=kafka_type("string"))


@dataclass(frozen=True, slots=True)
class TargetTasks:
    """Tasks of one subtopology in the target."""

    __flexible__: ClassVar[bool] = True
    subtopology_id: str = field(metadata=kafka_type("string"))
    partitions: tuple[int, ...] = field(metadata=kafka_type("int32"))


@dataclass(frozen=True, slots=True)
class StreamsGroupTargetAssignmentMemberValue(Entity):
    """The target tasks of a member."""

    __flexible__: ClassVar[bool] = True
    active_tasks: tuple[TargetTasks, ...]
    standby_tasks: tuple[TargetTasks, ...]
    warmup_tasks: tuple[TargetTasks, ...]


@dataclass(frozen=True, slots=True)
class StreamsGroupCurrentMemberAssignmentKey(Entity):
    """A member's reconciliation state."""

    __flexible__: ClassVar[bool] = False
    prefix: ClassVar[int] = 22
    group_id: str = field(metadata=kafka_type("string"))
    member_id: str = field(metadata=kafka_type("string"))


@dataclass(frozen=True, slots=True)
class CurrentTasks:
    """Tasks of one subtopology; active ones with the epochs at which the member got them, of the same length."""

    __flexible__: ClassVar[bool] = True
    subtopology_id: str = field(metadata=kafka_type("string"))
    partitions: tuple[int, ...] = field(metadata=kafka_type("int32"))
    assignment_epochs: tuple[int, ...] | None = field(metadata=kafka_type("int32", tag=0), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupCurrentMemberAssignmentValue(Entity):
    """A member's tasks, and those it must revoke."""

    __flexible__: ClassVar[bool] = True
    member_epoch: int = field(metadata=kafka_type("int32"))
    previous_member_epoch: int = field(metadata=kafka_type("int32"))
    state: int = field(metadata=kafka_type("int8"))
    active_tasks: tuple[CurrentTasks, ...]
    standby_tasks: tuple[CurrentTasks, ...]
    warmup_tasks: tuple[CurrentTasks, ...]
    active_tasks_pending_revocation: tuple[CurrentTasks, ...]
    standby_tasks_pending_revocation: tuple[CurrentTasks, ...]
    warmup_tasks_pending_revocation: tuple[CurrentTasks, ...]


@dataclass(frozen=True, slots=True)
class StreamsGroupTopologyKey(Entity):
    """A streams group's topology."""

    __flexible__: ClassVar[bool] = False
    prefix: ClassVar[int] = 23
    group_id: str = field(metadata=kafka_type("string"))


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic that the broker creates; 0 partitions or replicas means that they are not prescribed."""

    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=kafka_type("string"))
    partitions: int = field(metadata=kafka_type("int32"))
    replication_factor: int = field(metadata=kafka_type("int16"))
    topic_configs: tuple[KeyValue, ...]


@dataclass(frozen=True, slots=True)
class CopartitionGroup:
    """Source topics that must have the same number of partitions, as indexes into the subtopology's arrays."""

    __flexible__: ClassVar[bool] = True
    source_topics: tuple[int, ...] = field(metadata=kafka_type("int16"))
    source_topic_regex: tuple[int, ...] = field(metadata=kafka_type("int16"))
    repartition_source_topics: tuple[int, ...] = field(metadata=kafka_type("int16"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtopology:
    """A part of the topology whose tasks process the same partition of all its source topics."""

    __flexible__: ClassVar[bool] = True
    subtopology_id: str = field(metadata=kafka_type("string"))
    source_topics: tuple[str, ...] = field(metadata=kafka_type("string"))
    source_topic_regex: tuple[str, ...] = field(metadata=kafka_type("string"))
    state_changelog_topics: tuple[TopicInfo, ...]
    repartition_sink_topics: tuple[str, ...] = field(metadata=kafka_type("string"))
    repartition_source_topics: tuple[TopicInfo, ...]
    copartition_groups: tuple[CopartitionGroup, ...]


@dataclass(frozen=True, slots=True)
class StreamsGroupTopologyValue(Entity):
    """The topology that the group's first member sent."""

    __flexible__: ClassVar[bool] = True
    epoch: int = field(metadata=kafka_type("int32"))
    subtopologies: tuple[Subtopology, ...]


STREAMS_RECORDS: Final[tuple[tuple[Any, Any], ...]] = (
    (StreamsGroupMetadataKey, StreamsGroupMetadataValue),
    (StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
    (StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue),
    (StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue),
    (StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue),
    (StreamsGroupTopologyKey, StreamsGroupTopologyValue),
)
"""Keys and their values, all in version 0."""
