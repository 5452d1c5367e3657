"""The records of `__remote_log_metadata`, in Kafka's format.

The key is null. A value begins with the frame's version, the record's type and the type's version, each an unsigned varint.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple
from uuid import UUID

from isthmus_wire.errors import DecodeError
from isthmus_wire.messages import decode_entity, encode_entity
from isthmus_wire.primitives import Cursor, read_uvarint, write_uvarint

from isthmus_tier.core.segments import EpochStart, Place, RemoteSegment, State

_FRAME_VERSION: Final = 1
_ADD: Final = 0
_UPDATE: Final = 1
_PARTITION_DELETE: Final = 2
_RECORD_VERSION: Final = 0


class Update(NamedTuple):
    """A segment entered another state."""

    place: Place
    id: UUID
    broker_id: int
    changed_ms: int
    state: State
    custom: bytes | None = None


def _of(kafka_type: str, tag: int | None = None) -> dict[str, Any]:
    return {"kafka_type": kafka_type} | ({} if tag is None else {"tag": tag})


@dataclass(frozen=True, slots=True)
class _Place:
    __flexible__: ClassVar[bool] = True
    topic: str = field(metadata=_of("string"))
    topic_id: UUID | None = field(metadata=_of("uuid"))
    partition: int = field(metadata=_of("int32"))


@dataclass(frozen=True, slots=True)
class _SegmentId:
    __flexible__: ClassVar[bool] = True
    place: _Place
    id: UUID | None = field(metadata=_of("uuid"))


@dataclass(frozen=True, slots=True)
class _Epoch:
    __flexible__: ClassVar[bool] = True
    epoch: int = field(metadata=_of("int32"))
    offset: int = field(metadata=_of("int64"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Added:
    __flexible__: ClassVar[bool] = True
    segment: _SegmentId
    start_offset: int = field(metadata=_of("int64"))
    end_offset: int = field(metadata=_of("int64"))
    broker_id: int = field(metadata=_of("int32"))
    largest_timestamp: int = field(metadata=_of("int64"))
    changed_ms: int = field(metadata=_of("int64"))
    epochs: tuple[_Epoch, ...]
    size: int = field(metadata=_of("int32"))
    custom: bytes | None = field(metadata=_of("bytes"))
    state: int = field(metadata=_of("int8"))
    has_no_aborted: bool = field(metadata=_of("bool", tag=0), default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Updated:
    __flexible__: ClassVar[bool] = True
    segment: _SegmentId
    broker_id: int = field(metadata=_of("int32"))
    changed_ms: int = field(metadata=_of("int64"))
    custom: bytes | None = field(metadata=_of("bytes"))
    state: int = field(metadata=_of("int8"))


def encode_added(segment: RemoteSegment) -> bytes:
    """The record that announces a segment."""
    value = _Added(
        segment=_segment_id(segment.place, segment.id),
        start_offset=segment.start_offset,
        end_offset=segment.end_offset,
        broker_id=segment.broker_id,
        largest_timestamp=segment.largest_timestamp,
        changed_ms=segment.changed_ms,
        epochs=tuple(_Epoch(*one) for one in segment.epochs),
        size=segment.size,
        custom=segment.custom,
        state=segment.state,
        has_no_aborted=not segment.has_aborted,
    )
    return _frame(_ADD) + encode_entity(value)


def encode_update(update: Update) -> bytes:
    """The record of a change of state."""
    value = _Updated(
        segment=_segment_id(update.place, update.id),
        broker_id=update.broker_id,
        changed_ms=update.changed_ms,
        custom=update.custom,
        state=update.state,
    )
    return _frame(_UPDATE) + encode_entity(value)


def decode_record(value: bytes) -> RemoteSegment | Update | None:
    """The content of a record; None for a type that says nothing about one segment. Raises DecodeError."""
    cursor = Cursor(value)
    frame, kind, version = (read_uvarint(cursor) for _ in range(3))
    if frame != _FRAME_VERSION:
        raise DecodeError(f"frame version {frame} of a record about remote segments is not known")
    if kind == _PARTITION_DELETE:
        return None
    if kind not in (_ADD, _UPDATE) or version != _RECORD_VERSION:
        raise DecodeError(f"version {version} of type {kind} of a record about remote segments is not known")
    if kind == _ADD:
        return _segment(decode_entity(_Added, value, offset=cursor.position))
    return _update(decode_entity(_Updated, value, offset=cursor.position))


def _frame(kind: int) -> bytes:
    out = bytearray()
    for number in (_FRAME_VERSION, kind, _RECORD_VERSION):
        write_uvarint(out, number)
    return bytes(out)


def _segment(value: _Added) -> RemoteSegment:
    return RemoteSegment(
        place=_place(value.segment.place),
        id=_uuid(value.segment.id),
        start_offset=value.start_offset,
        end_offset=value.end_offset,
        epochs=tuple(EpochStart(one.epoch, one.offset) for one in value.epochs),
        size=value.size,
        largest_timestamp=value.largest_timestamp,
        broker_id=value.broker_id,
        changed_ms=value.changed_ms,
        state=_state(value.state),
        custom=value.custom,
        has_aborted=not value.has_no_aborted,
    )


def _update(value: _Updated) -> Update:
    segment = value.segment
    return Update(
        _place(segment.place), _uuid(segment.id), value.broker_id, value.changed_ms, _state(value.state), value.custom
    )


def _segment_id(place: Place, segment: UUID) -> _SegmentId:
    return _SegmentId(_Place(*place), segment)


def _place(place: _Place) -> Place:
    return Place(place.topic, _uuid(place.topic_id), place.partition)


def _uuid(value: UUID | None) -> UUID:
    """The codec reads zero as None."""
    return UUID(int=0) if value is None else value


def _state(number: int) -> State:
    if number not in set(State):
        raise DecodeError(f"state {number} of a remote segment is not known")
    return State(number)
