"""AppendMirrored's request as chunks, written by hand because it carries the bytes."""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from isthmus_wire.extensions.topic_batches import (
    NIL,
    Part,
    RawTopic,
    read_batches,
    read_topics,
    read_uuid,
    write_topics,
)
from isthmus_wire.fast_fields import INT32, Chunk, unpack
from isthmus_wire.primitives import Cursor

_PARTITION: Final = struct.Struct(">iqqiq")


class PartitionAppend(NamedTuple):
    """As `MirroredPartition`, with the records as they were received."""

    partition: int
    expected_end_offset: int
    start_offset: int
    source_leader_epoch: int
    source_high_watermark: int
    records: Chunk | None


TopicAppend = RawTopic[PartitionAppend]
"""As `MirroredTopic`."""


class AppendRequest(NamedTuple):
    """As `AppendMirroredRequest`."""

    link_id: UUID | None
    timeout_ms: int
    topics: Sequence[TopicAppend]


def encode_append_request(link_id: UUID | None, timeout_ms: int, topics: Sequence[TopicAppend]) -> list[Chunk]:
    """The body of version 0."""
    return write_topics(bytearray((NIL if link_id is None else link_id.bytes) + INT32.pack(timeout_ms)), topics, _part)


def _part(partition: PartitionAppend) -> Part:
    return _PARTITION.pack(*partition[:-1]), None if partition.records is None else (partition.records,)


def decode_append_request(data: bytes | memoryview, offset: int = 0) -> AppendRequest:
    """The body of version 0; record batches stay views of `data`."""
    cursor = Cursor(data, offset)
    link_id = read_uuid(cursor)
    (timeout_ms,) = unpack(cursor, INT32)
    return AppendRequest(link_id, timeout_ms, read_topics(cursor, _read))


def _read(cursor: Cursor) -> PartitionAppend:
    index, expected, start, epoch, high_watermark = unpack(cursor, _PARTITION)
    return PartitionAppend(index, expected, start, epoch, high_watermark, read_batches(cursor))
