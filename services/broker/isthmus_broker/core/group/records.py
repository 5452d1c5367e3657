"""The records of __consumer_offsets, in Kafka's formats.

A record's key starts with its type, its value with a version of its own. Values are written in Kafka 4.3.1's version and read in any
earlier one. Those of streams groups are in `streams.records`; those of share groups are not supported here.
"""

import struct
from dataclasses import dataclass, field, fields, make_dataclass
from types import GenericAlias
from typing import Any, ClassVar, Final
from uuid import UUID

from isthmus_wire.errors import DecodeError
from isthmus_wire.messages import decode_entity, encode_entity

from isthmus_broker.core.coordinator.result import Record
from isthmus_broker.core.group.entity import Entity as _Entity
from isthmus_broker.core.group.entity import kafka_type as _of
from isthmus_broker.core.group.streams.records import STREAMS_RECORDS

_PREFIX: Final = struct.Struct(">h")


@dataclass(frozen=True, slots=True)
class OffsetCommitKey(_Entity):
    """The key of a committed offset."""

    __flexible__: ClassVar[bool] = False
    prefix: ClassVar[int] = 1
    group: str = field(metadata=_of("string"))
    topic: str = field(metadata=_of("string"))
    partition: int = field(metadata=_of("int32"))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValue:
    """A committed offset. Version 1 is written only for an offset with its own expiry time, as old clients can request."""

    __flexible__: ClassVar[bool] = True
    offset: int = field(metadata=_of("int64"))
    leader_epoch: int = field(metadata=_of("int32"), default=-1)
    metadata: str = field(metadata=_of("string"))
    commit_timestamp: int = field(metadata=_of("int64"))
    expire_timestamp: int = field(metadata=_of("int64"), default=-1)
    topic_id: UUID | None = field(metadata=_of("uuid", tag=0), default=None)

    @property
    def prefix(self) -> int:
        """The version in which it is written."""
        return 4 if self.expire_timestamp < 0 else 1

    def body(self) -> bytes:
        """The fields of that version."""
        return encode_entity(self, _OFFSET_VALUES[self.prefix])


@dataclass(frozen=True, slots=True)
class GroupMetadataKey(_Entity):
    """A classic group."""

    __flexible__: ClassVar[bool] = False
    prefix: ClassVar[int] = 2
    group: str = field(metadata=_of("string"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    """A member of a classic group: its metadata for the group's protocol and its assignment."""

    __flexible__: ClassVar[bool] = False
    member_id: str = field(metadata=_of("string"))
    group_instance_id: str | None = field(metadata=_of("string"), default=None)
    client_id: str = field(metadata=_of("string"))
    client_host: str = field(metadata=_of("string"))
    rebalance_timeout: int = field(metadata=_of("int32"), default=-1)
    session_timeout: int = field(metadata=_of("int32"))
    subscription: bytes = field(metadata=_of("bytes"))
    assignment: bytes = field(metadata=_of("bytes"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue(_Entity):
    """A classic group's generation."""

    __flexible__: ClassVar[bool] = False
    prefix: ClassVar[int] = 3
    protocol_type: str = field(metadata=_of("string"))
    generation: int = field(metadata=_of("int32"))
    protocol: str | None = field(metadata=_of("string"))
    leader: str | None = field(metadata=_of("string"))
    current_state_timestamp: int = field(metadata=_of("int64"), default=-1)
    members: tuple[MemberMetadata, ...]


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadataKey(_Entity):
    """A consumer group's epoch."""

    __flexible__: ClassVar[bool] = False
    prefix: ClassVar[int] = 3
    group_id: str = field(metadata=_of("string"))


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadataValue(_Entity):
    """The group epoch and the hash of the subscribed topics for which it was bumped."""

    __flexible__: ClassVar[bool] = True
    epoch: int = field(metadata=_of("int32"))
    metadata_hash: int = field(metadata=_of("int64", tag=0), default=0)


@dataclass(frozen=True, slots=True)
class ConsumerGroupPartitionMetadataKey(_Entity):
    """The subscribed topics of a group written before Kafka 4.1; only its tombstone is written now."""

    __flexible__: ClassVar[bool] = False
    prefix: ClassVar[int] = 4
    group_id: str = field(metadata=_of("string"))


@dataclass(frozen=True, slots=True)
class ConsumerGroupPartitionMetadataValue(_Entity):
    """Decoded but not used."""

    __flexible__: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class ConsumerGroupMemberMetadataKey(_Entity):
    """A member of a consumer group."""

    __flexible__: ClassVar[bool] = False
    prefix: ClassVar[int] = 5
    group_id: str = field(metadata=_of("string"))
    member_id: str = field(metadata=_of("string"))


@dataclass(frozen=True, slots=True)
class ClassicProtocol:
    """A protocol that a classic member of a consumer group supports."""

    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=_of("string"))
    metadata: bytes = field(metadata=_of("bytes"))


@dataclass(frozen=True, slots=True)
class ClassicMemberMetadata:
    """The classic protocol's state of a member of a consumer group."""

    __flexible__: ClassVar[bool] = True
    session_timeout_ms: int = field(metadata=_of("int32"))
    supported_protocols: tuple[ClassicProtocol, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataValue(_Entity):
    """What a member said of itself.

    The tagged `classic_member_metadata` is always written, null as well: its default in Kafka's schema is not null but an empty
    struct, which would make any member a classic one. In a tagged field a nullable struct starts with a 0 for null or a 1, unlike
    elsewhere.
    """

    __flexible__: ClassVar[bool] = True
    instance_id: str | None = field(metadata=_of("string"))
    rack_id: str | None = field(metadata=_of("string"))
    client_id: str = field(metadata=_of("string"))
    client_host: str = field(metadata=_of("string"))
    subscribed_topic_names: tuple[str, ...] = field(metadata=_of("string"))
    subscribed_topic_regex: str | None = field(metadata=_of("string"))
    rebalance_timeout_ms: int = field(metadata=_of("int32"), default=-1)
    server_assignor: str | None = field(metadata=_of("string"))
    classic_member_metadata: ClassicMemberMetadata | None = field(metadata={"tag": 0}, default=None)

    def body(self) -> bytes:
        """The codec writes a struct that is present, and treats null as the default, which it omits."""
        written = encode_entity(self)
        return written if self.classic_member_metadata is not None else written[:-1] + _NULL_TAG_0


# One tagged field: number 0, one byte long, null.
_NULL_TAG_0: Final = b"\1\0\1\0"


@dataclass(frozen=True, slots=True)
class _Marker:
    """The first byte of a tagged nullable struct."""

    __flexible__: ClassVar[bool] = False
    present: int = field(metadata=_of("int8"), default=0)


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMetadataKey(_Entity):
    """A consumer group's target assignment."""

    __flexible__: ClassVar[bool] = False
    prefix: ClassVar[int] = 6
    group_id: str = field(metadata=_of("string"))


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMetadataValue(_Entity):
    """The group epoch for which the target was computed, and when (KIP-1263)."""

    __flexible__: ClassVar[bool] = True
    assignment_epoch: int = field(metadata=_of("int32"))
    assignment_timestamp: int = field(metadata=_of("int64", tag=0), default=0)


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMemberKey(_Entity):
    """A member's part of the target."""

    __flexible__: ClassVar[bool] = False
    prefix: ClassVar[int] = 7
    group_id: str = field(metadata=_of("string"))
    member_id: str = field(metadata=_of("string"))


@dataclass(frozen=True, slots=True)
class TargetPartitions:
    """Partitions of one topic."""

    __flexible__: ClassVar[bool] = True
    topic_id: UUID | None = field(metadata=_of("uuid"))
    partitions: tuple[int, ...] = field(metadata=_of("int32"))


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMemberValue(_Entity):
    """The target partitions of a member."""

    __flexible__: ClassVar[bool] = True
    topic_partitions: tuple[TargetPartitions, ...]


@dataclass(frozen=True, slots=True)
class ConsumerGroupCurrentMemberAssignmentKey(_Entity):
    """A member's reconciliation state."""

    __flexible__: ClassVar[bool] = False
    prefix: ClassVar[int] = 8
    group_id: str = field(metadata=_of("string"))
    member_id: str = field(metadata=_of("string"))


@dataclass(frozen=True, slots=True)
class CurrentPartitions:
    """Partitions of one topic and the epochs at which the member got them (KIP-1251), of the same length."""

    __flexible__: ClassVar[bool] = True
    topic_id: UUID | None = field(metadata=_of("uuid"))
    partitions: tuple[int, ...] = field(metadata=_of("int32"))
    assignment_epochs: tuple[int, ...] | None = field(metadata=_of("int32", tag=0), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentValue(_Entity):
    """A member's partitions, and those it must revoke."""

    __flexible__: ClassVar[bool] = True
    member_epoch: int = field(metadata=_of("int32"))
    previous_member_epoch: int = field(metadata=_of("int32"))
    state: int = field(metadata=_of("int8"))
    assigned_partitions: tuple[CurrentPartitions, ...]
    partitions_pending_revocation: tuple[CurrentPartitions, ...]


@dataclass(frozen=True, slots=True)
class ConsumerGroupRegularExpressionKey(_Entity):
    """A regular expression that members subscribe to."""

    __flexible__: ClassVar[bool] = False
    prefix: ClassVar[int] = 16
    group_id: str = field(metadata=_of("string"))
    regular_expression: str = field(metadata=_of("string"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpressionValue(_Entity):
    """The matching topics, the metadata version they were matched against, and when."""

    __flexible__: ClassVar[bool] = True
    topics: tuple[str, ...] = field(metadata=_of("string"))
    version: int = field(metadata=_of("int64"))
    timestamp: int = field(metadata=_of("int64"))


def _layout(name: str, flexible: bool, columns: list[tuple[str, Any, dict[str, Any]]]) -> Any:
    """An older or newer version of a value: the names, types and metadata of its fields, in order."""
    made = [(column, kind, field(metadata=metadata)) for column, kind, metadata in columns]
    return make_dataclass(name, made, namespace={"__flexible__": flexible})


def _offset_value(version: int) -> Any:
    columns: list[tuple[str, Any, dict[str, Any]]] = [("offset", int, _of("int64"))]
    if version >= 3:
        columns.append(("leader_epoch", int, _of("int32")))
    columns += [("metadata", str, _of("string")), ("commit_timestamp", int, _of("int64"))]
    if version == 1:
        columns.append(("expire_timestamp", int, _of("int64")))
    if version >= 4:
        columns.append(("topic_id", UUID | None, _of("uuid", tag=0)))
    return _layout(f"OffsetCommitValueV{version}", version >= 4, columns)


def _group_value(version: int) -> Any:
    flexible = version >= 4
    member: list[tuple[str, Any, dict[str, Any]]] = [("member_id", str, _of("string"))]
    if version >= 3:
        member.append(("group_instance_id", str | None, _of("string")))
    member += [("client_id", str, _of("string")), ("client_host", str, _of("string"))]
    if version >= 1:
        member.append(("rebalance_timeout", int, _of("int32")))
    member.append(("session_timeout", int, _of("int32")))
    member += [("subscription", bytes, _of("bytes")), ("assignment", bytes, _of("bytes"))]
    columns: list[tuple[str, Any, dict[str, Any]]] = [
        ("protocol_type", str, _of("string")),
        ("generation", int, _of("int32")),
        ("protocol", str | None, _of("string")),
        ("leader", str | None, _of("string")),
    ]
    if version >= 2:
        columns.append(("current_state_timestamp", int, _of("int64")))
    columns.append(("members", GenericAlias(tuple, (_layout(f"MemberMetadataV{version}", flexible, member), ...)), {}))
    return _layout(f"GroupMetadataValueV{version}", flexible, columns)


_MEMBER_COLUMNS: Final = [
    (each.name, each.type, dict(each.metadata))
    for each in fields(ConsumerGroupMemberMetadataValue)
    if "tag" not in each.metadata
]
_CONSUMER_MEMBER: Final = _layout("ConsumerMemberMetadata", True, _MEMBER_COLUMNS)
_MARKED_MEMBER: Final = _layout(
    "MarkedMemberMetadata", True, [*_MEMBER_COLUMNS, ("classic_member_metadata", _Marker, {"tag": 0})]
)
_OFFSET_VALUES: Final = {version: _offset_value(version) for version in range(5)}
_GROUP_VALUES: Final = {version: _group_value(version) for version in range(5)}

# By record type: the key's class, the value's class, and the layouts of the value's versions.
_KINDS: Final[dict[int, tuple[Any, Any, dict[int, Any]]]] = {
    0: (OffsetCommitKey, OffsetCommitValue, _OFFSET_VALUES),  # the key of offsets before Kafka 0.9
    1: (OffsetCommitKey, OffsetCommitValue, _OFFSET_VALUES),
    2: (GroupMetadataKey, GroupMetadataValue, _GROUP_VALUES),
    **{
        key.prefix: (key, value, {0: value})
        for key, value in (
            (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
            (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
            (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
            (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
            (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
            (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
            (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
            *STREAMS_RECORDS,
        )
    },
}


def decode_record(key: bytes, value: bytes | None) -> Record | None:
    """Decode a record; None for an unknown type, DecodeError if the log is damaged."""
    kind = _KINDS.get(_prefix(key))
    if kind is None:
        return None
    key_class, value_class, layouts = kind
    decoded_key = decode_entity(key_class, key, offset=_PREFIX.size)
    if value is None:
        return Record(decoded_key)
    if value_class is ConsumerGroupPartitionMetadataValue:
        return Record(decoded_key, ConsumerGroupPartitionMetadataValue())
    layout = layouts.get(_prefix(value))
    if layout is None:
        raise DecodeError(f"version {_prefix(value)} of {value_class.__name__} is not known")
    if value_class is ConsumerGroupMemberMetadataValue:
        marked = decode_entity(_MARKED_MEMBER, value, offset=_PREFIX.size)
        layout = layout if marked.classic_member_metadata.present else _CONSUMER_MEMBER
    return Record(decoded_key, decode_entity(value_class, value, layout, _PREFIX.size))


def _prefix(data: bytes) -> int:
    if len(data) < _PREFIX.size:
        raise DecodeError("a key or value without its version")
    number: int = _PREFIX.unpack_from(data)[0]
    return number
