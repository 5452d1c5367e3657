"""AppendAfter: append batches only if the log ends with a given batch.

Produce carries one batch per partition, and a producer with two requests in flight cannot know which batch precedes the second. Here the
leader compares its log end with the offset and checksum of the preceding batch in the request, so a request carries several batches, and
several requests may be in flight: each is appended only behind the batch that its sender expects.
"""

# No postponed annotations here: the codec reads the fields' types.
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple
from uuid import UUID

from kio.static.constants import EntityType

from isthmus_wire.extensions.message import Message, Nested
from isthmus_wire.extensions.mirrors import AppendedTopic
from isthmus_wire.extensions.topic_batches import Part, RawTopic, read_batches, read_topics, write_topics
from isthmus_wire.fast_fields import INT32, Chunk, unpack
from isthmus_wire.primitives import Cursor

APPEND_AFTER: Final = 20_012
NO_BATCH: Final = -1
"""Instead of a checksum: the log is empty."""
_PARTITION: Final = struct.Struct(">iqq")


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowingPartition(Nested):
    """Batches of one producer in sequence, as in Produce. They are appended, all or none, only if the log ends at
    `after_offset` and its last batch has this checksum (-1: only if it has none)."""

    index: int = field(metadata={"kafka_type": "int32"})
    after_offset: int = field(metadata={"kafka_type": "int64"})
    after_crc: int = field(metadata={"kafka_type": "int64"})
    records: bytes | None = field(metadata={"kafka_type": "records"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowingTopic(Nested):
    """The partitions of a topic; the id protects a recreated topic of the same name."""

    name: str = field(metadata={"kafka_type": "string"})
    topic_id: UUID | None = field(metadata={"kafka_type": "uuid"})
    partitions: tuple[FollowingPartition, ...] = field(metadata={})


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendAfterRequest(Message):
    """The response is sent when every in-sync replica has the batches, or at the timeout."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[int] = APPEND_AFTER
    timeout_ms: int = field(metadata={"kafka_type": "int32"})
    topics: tuple[FollowingTopic, ...] = field(metadata={})


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendAfterResponse(Message):
    """Results in the order of the request. OFFSET_OUT_OF_RANGE: the log does not end with that batch at that offset."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[int] = APPEND_AFTER
    topics: tuple[AppendedTopic, ...] = field(metadata={})


class Following(NamedTuple):
    """As `FollowingPartition`, with the records in any number of chunks."""

    partition: int
    after_offset: int
    after_crc: int
    records: Sequence[Chunk] | None


FollowingOfTopic = RawTopic[Following]
"""As `FollowingTopic`."""


def encode_after_request(timeout_ms: int, topics: Sequence[FollowingOfTopic]) -> list[Chunk]:
    """The body of version 0."""
    return write_topics(bytearray(INT32.pack(timeout_ms)), topics, _part)


def _part(partition: Following) -> Part:
    return _PARTITION.pack(*partition[:-1]), partition.records


def decode_after_request(data: bytes | memoryview, offset: int = 0) -> tuple[int, list[FollowingOfTopic]]:
    """Timeout and topics of version 0; record batches stay views of `data`."""
    cursor = Cursor(data, offset)
    (timeout_ms,) = unpack(cursor, INT32)
    return timeout_ms, read_topics(cursor, _read)


def _read(cursor: Cursor) -> Following:
    index, offset, crc = unpack(cursor, _PARTITION)
    records = read_batches(cursor)
    return Following(index, offset, crc, None if records is None else (records,))
