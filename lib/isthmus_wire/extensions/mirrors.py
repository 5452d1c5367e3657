"""Mirror topics: topics of a destination whose records a link copies, offset for offset, and that clients cannot write to.

Any broker accepts requests on mirror topics and forwards changes to the active controller; appends and progress requests go to the leader
of each partition.
"""

# No postponed annotations here: the codec reads the fields' types.
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from isthmus_wire.extensions.links import LinkConfig
from isthmus_wire.extensions.message import Message, Nested

CREATE_MIRROR: Final = 20_006
DESCRIBE_MIRRORS: Final = 20_007
ALTER_MIRRORS: Final = 20_008
APPEND_MIRRORED: Final = 20_009
DESCRIBE_MIRROR_PROGRESS: Final = 20_010
RAISE_LEADER_EPOCHS: Final = 20_011

WORKER_CLIENT_ID: Final = "isthmus-linker"
"""The client id that may change a mirror topic as its source changes: add partitions, and set the configs that are always synced."""
ALWAYS_SYNCED_CONFIGS: Final = ("cleanup.policy", "max.message.bytes", "message.timestamp.type")
"""Topic configs that a mirror topic always shares with its source, independent of the link's settings."""
CONFIGURABLE_CONFIGS: Final = (
    "compression.type",
    "delete.retention.ms",
    "max.compaction.lag.ms",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.ms",
)
"""Topic configs that follow the source when the link's `topic.config.sync.include` names them, as it does by default. All others are the
mirror topic's own."""


class MirrorState(StrEnum):
    """What a mirror topic is doing. Only a stopped one takes writes of clients."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    LINK_PAUSED = "LINK_PAUSED"
    SOURCE_UNAVAILABLE = "SOURCE_UNAVAILABLE"
    FAILED = "FAILED"
    LINK_FAILED = "LINK_FAILED"
    PENDING_STOPPED = "PENDING_STOPPED"
    STOPPED = "STOPPED"


class MirrorError(StrEnum):
    """Why a mirror topic has failed."""

    NO_ERROR = "NO_ERROR"
    SOURCE_TOPIC_MAY_BE_DELETED = "SOURCE_TOPIC_MAY_BE_DELETED"
    SOURCE_TOPIC_ID_CHANGED = "SOURCE_TOPIC_ID_CHANGED"
    SOURCE_PARTITIONS_DECREASED = "SOURCE_PARTITIONS_DECREASED"
    NON_MONOTONIC_LOG_APPEND_EPOCH = "NON_MONOTONIC_LOG_APPEND_EPOCH"
    UNEXPECTED_TRUNCATION = "UNEXPECTED_TRUNCATION"
    UNSUPPORTED_MESSAGE_FORMAT = "UNSUPPORTED_MESSAGE_FORMAT"
    NON_MONOTONIC_SOURCE_EPOCH = "NON_MONOTONIC_SOURCE_EPOCH"
    ILLEGAL_STATE = "ILLEGAL_STATE"
    UNKNOWN = "UNKNOWN"


class MirrorAction(StrEnum):
    """The actions on a mirror topic. The first four are for operators, the others are reports of a worker."""

    PAUSE = "pause"
    RESUME = "resume"
    PROMOTE = "promote"
    FAILOVER = "failover"
    FINISH_PROMOTION = "finish-promotion"
    FAIL = "fail"
    SOURCE_LOST = "source-lost"
    SOURCE_FOUND = "source-found"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTopic(Nested):
    """What the source says of a topic."""

    topic_id: UUID | None = field(metadata={"kafka_type": "uuid"})
    partitions: int = field(metadata={"kafka_type": "int32"})
    configs: tuple[LinkConfig, ...] = field(metadata={})


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateMirrorRequest(Message):
    """Create a mirror topic. The receiving broker describes the source topic and fills in `source` before it forwards the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[int] = CREATE_MIRROR
    link_name: str = field(metadata={"kafka_type": "string"})
    source_topic: str = field(metadata={"kafka_type": "string"})
    mirror_topic: str | None = field(metadata={"kafka_type": "string"})
    replication_factor: int = field(metadata={"kafka_type": "int16"})
    configs: tuple[LinkConfig, ...] = field(metadata={})
    source: SourceTopic | None = field(metadata={})
    validate_only: bool = field(metadata={"kafka_type": "bool"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateMirrorResponse(Message):
    """The topic that was made, or why none was."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[int] = CREATE_MIRROR
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    topic: str = field(metadata={"kafka_type": "string"})
    topic_id: UUID | None = field(metadata={"kafka_type": "uuid"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeMirrorsRequest(Message):
    """Which mirror topics: of one link or of all, by name or all."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[int] = DESCRIBE_MIRRORS
    link_name: str | None = field(metadata={"kafka_type": "string"})
    topics: tuple[str, ...] | None = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMirror(Nested):
    """A mirror topic or an error: a `MirrorState`, a `MirrorError`, and since when."""

    topic: str = field(metadata={"kafka_type": "string"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    topic_id: UUID | None = field(metadata={"kafka_type": "uuid"})
    link_name: str = field(metadata={"kafka_type": "string"})
    link_id: UUID | None = field(metadata={"kafka_type": "uuid"})
    source_topic: str = field(metadata={"kafka_type": "string"})
    source_topic_id: UUID | None = field(metadata={"kafka_type": "uuid"})
    partitions: int = field(metadata={"kafka_type": "int32"})
    state: str = field(metadata={"kafka_type": "string"})
    mirror_error: str = field(metadata={"kafka_type": "string"})
    mirror_error_message: str = field(metadata={"kafka_type": "string"})
    state_since_ms: int = field(metadata={"kafka_type": "int64"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeMirrorsResponse(Message):
    """By topic."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[int] = DESCRIBE_MIRRORS
    mirrors: tuple[DescribedMirror, ...] = field(metadata={})


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterMirrorsRequest(Message):
    """One `MirrorAction` for several topics. The error and its message go with `fail` alone."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[int] = ALTER_MIRRORS
    action: str = field(metadata={"kafka_type": "string"})
    topics: tuple[str, ...] = field(metadata={"kafka_type": "string"})
    mirror_error: str = field(metadata={"kafka_type": "string"})
    mirror_error_message: str = field(metadata={"kafka_type": "string"})
    validate_only: bool = field(metadata={"kafka_type": "bool"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag(Nested):
    """A partition's lag as its leader knows it; -1 before the first report of a worker."""

    index: int = field(metadata={"kafka_type": "int32"})
    lag: int = field(metadata={"kafka_type": "int64"})
    last_source_fetch_offset: int = field(metadata={"kafka_type": "int64"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredMirror(Nested):
    """The result of an action, and the topic's lag at that moment."""

    topic: str = field(metadata={"kafka_type": "string"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    lags: tuple[PartitionLag, ...] = field(metadata={})


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterMirrorsResponse(Message):
    """In the order of the request."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[int] = ALTER_MIRRORS
    topics: tuple[AlteredMirror, ...] = field(metadata={})


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredPartition(Nested):
    """Batches of a source, unchanged, for one partition. They are appended only if the log ends at `expected_end_offset`; an empty log
    may be begun at `start_offset` instead (-1: it may not). Without records it reports the source's high watermark to the leader."""

    index: int = field(metadata={"kafka_type": "int32"})
    expected_end_offset: int = field(metadata={"kafka_type": "int64"})
    start_offset: int = field(metadata={"kafka_type": "int64"})
    source_leader_epoch: int = field(metadata={"kafka_type": "int32"})
    source_high_watermark: int = field(metadata={"kafka_type": "int64"})
    records: bytes | None = field(metadata={"kafka_type": "records"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredTopic(Nested):
    """The partitions of a mirror topic; the id protects a recreated topic of the same name."""

    name: str = field(metadata={"kafka_type": "string"})
    topic_id: UUID | None = field(metadata={"kafka_type": "uuid"})
    partitions: tuple[MirroredPartition, ...] = field(metadata={})


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendMirroredRequest(Message):
    """The response is sent when every in-sync replica has the batches, or at the timeout."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[int] = APPEND_MIRRORED
    link_id: UUID | None = field(metadata={"kafka_type": "uuid"})
    timeout_ms: int = field(metadata={"kafka_type": "int32"})
    topics: tuple[MirroredTopic, ...] = field(metadata={})


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendedPartition(Nested):
    """OFFSET_OUT_OF_RANGE comes with the actual log end. FENCED_LEADER_EPOCH: the source's epoch is above the partition's own, which
    must be raised first. POLICY_VIOLATION: the topic does not accept records of this link now."""

    index: int = field(metadata={"kafka_type": "int32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    log_start_offset: int = field(metadata={"kafka_type": "int64"})
    log_end_offset: int = field(metadata={"kafka_type": "int64"})
    last_epoch: int = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendedTopic(Nested):
    """In the order of the request."""

    name: str = field(metadata={"kafka_type": "string"})
    partitions: tuple[AppendedPartition, ...] = field(metadata={})


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendMirroredResponse(Message):
    """In the order of the request."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[int] = APPEND_MIRRORED
    topics: tuple[AppendedTopic, ...] = field(metadata={})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressOfTopic(Nested):
    """A mirror topic to describe."""

    name: str = field(metadata={"kafka_type": "string"})
    partitions: tuple[int, ...] = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeMirrorProgressRequest(Message):
    """The partitions to describe, each at its leader."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[int] = DESCRIBE_MIRROR_PROGRESS
    topics: tuple[ProgressOfTopic, ...] = field(metadata={})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProgress(Nested):
    """The ends of the copy and, as a worker last reported it, of the source; -1 if unknown. `last_epoch` is that of the last batch."""

    index: int = field(metadata={"kafka_type": "int32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    leader_epoch: int = field(metadata={"kafka_type": "int32"})
    log_start_offset: int = field(metadata={"kafka_type": "int64"})
    high_watermark: int = field(metadata={"kafka_type": "int64"})
    log_end_offset: int = field(metadata={"kafka_type": "int64"})
    last_epoch: int = field(metadata={"kafka_type": "int32"})
    source_high_watermark: int = field(metadata={"kafka_type": "int64"})
    last_heard_lag_ms: int = field(metadata={"kafka_type": "int64"})
    caught_up_lag_ms: int = field(metadata={"kafka_type": "int64"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProgress(Nested):
    """In the order of the request."""

    name: str = field(metadata={"kafka_type": "string"})
    partitions: tuple[PartitionProgress, ...] = field(metadata={})


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeMirrorProgressResponse(Message):
    """In the order of the request."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[int] = DESCRIBE_MIRROR_PROGRESS
    topics: tuple[TopicProgress, ...] = field(metadata={})


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochFloor(Nested):
    """A partition whose leader epoch has to be at least this, because the source's is near it."""

    index: int = field(metadata={"kafka_type": "int32"})
    at_least: int = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorsOfTopic(Nested):
    """The partitions of a mirror topic."""

    name: str = field(metadata={"kafka_type": "string"})
    partitions: tuple[EpochFloor, ...] = field(metadata={})


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseLeaderEpochsRequest(Message):
    """Leaders stay; their epochs are raised where they are lower. Mirror topics only."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[int] = RAISE_LEADER_EPOCHS
    topics: tuple[FloorsOfTopic, ...] = field(metadata={})


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedTopic(Nested):
    """Done, or why not."""

    name: str = field(metadata={"kafka_type": "string"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseLeaderEpochsResponse(Message):
    """In the order of the request."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[int] = RAISE_LEADER_EPOCHS
    topics: tuple[RaisedTopic, ...] = field(metadata={})
