"""What appends of our own have in common: topics, their partitions, and record batches that go from socket to socket, and from socket to
file, without a copy."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar
from uuid import UUID

from isthmus_wire.codec import skip_tagged_fields
from isthmus_wire.fast_fields import Chunk, read_count, read_records, write_count, write_string
from isthmus_wire.primitives import READERS, Cursor

P = TypeVar("P")
Part = tuple[bytes, Sequence[Chunk] | None]
"""A partition as it is written: its fields, and its batches in as many pieces as they are."""

NO_TAGS: Final = b"\0"
NIL: Final = bytes(16)
_read_string = READERS["string", True, False]
read_uuid = READERS["uuid", True, False]


class RawTopic(NamedTuple, Generic[P]):
    """A topic with its partitions and its id, which protects a recreated topic of the same name."""

    name: str
    topic_id: UUID | None
    partitions: Sequence[P]


def write_topics(out: bytearray, topics: Sequence[RawTopic[P]], part: Callable[[P], Part]) -> list[Chunk]:
    """The chunks of a body that begins with `out` and ends with these topics."""
    chunks: list[Chunk] = []
    write_count(out, len(topics), flexible=True)
    for topic in topics:
        write_string(out, topic.name, flexible=True)
        out += NIL if topic.topic_id is None else topic.topic_id.bytes
        write_count(out, len(topic.partitions), flexible=True)
        out = _write_parts(chunks, out, map(part, topic.partitions))
        out += NO_TAGS
    out += NO_TAGS
    chunks.append(out)
    return chunks


def _write_parts(chunks: list[Chunk], out: bytearray, parts: Iterable[Part]) -> bytearray:
    """Returns what is to be gone on with: everything before is in `chunks`."""
    for fields, records in parts:
        out += fields
        write_count(out, -1 if records is None else sum(map(len, records)), flexible=True)
        if records:
            chunks.append(out)
            chunks += records
            out = bytearray()
        out += NO_TAGS
    return out


def read_topics(cursor: Cursor, part: Callable[[Cursor], P]) -> list[RawTopic[P]]:
    """The topics at the end of a body; `part` reads a partition up to its tags."""
    topics = []
    for _ in range(read_count(cursor, flexible=True)):
        name, topic_id = _read_string(cursor), read_uuid(cursor)
        partitions = []
        for _ in range(read_count(cursor, flexible=True)):
            partitions.append(part(cursor))
            skip_tagged_fields(cursor)
        topics.append(RawTopic(name, topic_id, partitions))
        skip_tagged_fields(cursor)
    skip_tagged_fields(cursor)
    return topics


def read_batches(cursor: Cursor) -> Chunk | None:
    """Record batches as a view of the body."""
    return read_records(cursor, flexible=True)
