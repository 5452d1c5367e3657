"""AppendMirrored's request as chunks, written by hand because it carries the bytes: batches go from socket to socket, and from
socket to file, without a copy."""

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from isthmus_wire.codec import skip_tagged_fields
from isthmus_wire.hot import INT32, Chunk, read_count, read_records, unpack, write_count, write_string
from isthmus_wire.primitives import READERS, Cursor

_NO_TAGS: Final = b"\0"
_NIL: Final = bytes(16)
_PARTITION: Final = struct.Struct(">iqqiq")
_read_string = READERS["string", True, False]
_read_uuid = READERS["uuid", True, False]


class PartitionAppend(NamedTuple):
    """As `MirroredPartition`, with the records as they were received."""

    partition: int
    expected_end_offset: int
    start_offset: int
    source_leader_epoch: int
    source_high_watermark: int
    records: Chunk | None


class TopicAppend(NamedTuple):
    """As `MirroredTopic`."""

    name: str
    topic_id: UUID | None
    partitions: Sequence[PartitionAppend]


def encode_append_request(link_id: UUID | None, timeout_ms: int, topics: Sequence[TopicAppend]) -> list[Chunk]:
    """The body of version 0."""
    chunks: list[Chunk] = []
    out = bytearray(_NIL if link_id is None else link_id.bytes)
    out += INT32.pack(timeout_ms)
    write_count(out, len(topics), flexible=True)
    for topic in topics:
        write_string(out, topic.name, flexible=True)
        out += _NIL if topic.topic_id is None else topic.topic_id.bytes
        write_count(out, len(topic.partitions), flexible=True)
        out = _write_partitions(chunks, out, topic.partitions)
        out += _NO_TAGS
    out += _NO_TAGS
    chunks.append(out)
    return chunks


def _write_partitions(chunks: list[Chunk], out: bytearray, partitions: Iterable[PartitionAppend]) -> bytearray:
    """Returns what is to be gone on with: everything before is in `chunks`."""
    for partition in partitions:
        out += _PARTITION.pack(*partition[:5])
        records = partition.records
        write_count(out, -1 if records is None else len(records), flexible=True)
        if records:
            chunks += (out, records)
            out = bytearray()
        out += _NO_TAGS
    return out


class AppendRequest(NamedTuple):
    """As `AppendMirroredRequest`."""

    link_id: UUID | None
    timeout_ms: int
    topics: Sequence[TopicAppend]


def decode_append_request(data: bytes | memoryview, offset: int = 0) -> AppendRequest:
    """The body of version 0; record batches stay views of `data`."""
    cursor = Cursor(data, offset)
    link_id = _read_uuid(cursor)
    (timeout_ms,) = unpack(cursor, INT32)
    topics = []
    for _ in range(read_count(cursor, flexible=True)):
        name, topic_id = _read_string(cursor), _read_uuid(cursor)
        partitions = []
        for _ in range(read_count(cursor, flexible=True)):
            index, expected, start, epoch, high_watermark = unpack(cursor, _PARTITION)
            records = read_records(cursor, flexible=True)
            partitions.append(PartitionAppend(index, expected, start, epoch, high_watermark, records))
            skip_tagged_fields(cursor)
        topics.append(TopicAppend(name, topic_id, partitions))
        skip_tagged_fields(cursor)
    skip_tagged_fields(cursor)
    return AppendRequest(link_id, timeout_ms, topics)
