"""What the hand-written Produce and Fetch codecs share: length-prefixed fields in the legacy and the compact encoding.

A topic is a `str` where the version on the wire names it, and the 16 raw bytes of its id where it does not: both are dictionary
keys as they are.
"""

import struct
from typing import Final

from isthmus_wire.codec import skip_tagged_fields, tags
from isthmus_wire.errors import DecodeError
from isthmus_wire.primitives import READERS, WRITERS, Cursor, read_uvarint, write_uvarint

Topic = str | bytes
Chunk = bytes | bytearray | memoryview

TOPIC_ID_SIZE: Final = 16
ENTRIES_MAX: Final = 2_000_000
"""Topics and partitions that one request may name."""

INT8: Final = struct.Struct(">b")
INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
INT64: Final = struct.Struct(">q")
LEADER: Final = struct.Struct(">ii")

_read_int32 = READERS["int32", False, False]
_read_string = {flexible: READERS["string", flexible, False] for flexible in (False, True)}
_read_nullable_string = READERS["string", True, True]
_write_string = {flexible: WRITERS["string", flexible, True] for flexible in (False, True)}


def unpack(cursor: Cursor, layout: struct.Struct) -> tuple[int, ...]:
    """Fixed fields at the cursor."""
    start = cursor.position
    end = start + layout.size
    if end > len(cursor.data):
        raise DecodeError(f"{layout.size} bytes wanted with {cursor.remaining()} left")
    cursor.position = end
    return layout.unpack_from(cursor.data, start)


def read_count(cursor: Cursor, *, flexible: bool, nullable: bool = False) -> int:
    """The length of an array; -1 for null where that is allowed."""
    count: int = read_uvarint(cursor) - 1 if flexible else _read_int32(cursor)
    cursor.elements += max(count, 0)
    if count < -int(nullable) or count > cursor.remaining() or cursor.elements > ENTRIES_MAX:
        raise DecodeError(f"an array claims {count} elements with {cursor.remaining()} bytes left")
    return count


def write_count(out: bytearray, count: int, *, flexible: bool) -> None:
    """The length of an array; -1 for null."""
    if flexible:
        write_uvarint(out, count + 1)
    else:
        out += INT32.pack(count)


def read_topic(cursor: Cursor, *, by_id: bool, flexible: bool) -> Topic:
    """A topic's name or id."""
    if by_id:
        return bytes(cursor.take(TOPIC_ID_SIZE))
    name: str = _read_string[flexible](cursor)
    return name


def write_topic(out: bytearray, topic: Topic, *, flexible: bool) -> None:
    """A topic's name or id, whichever it is."""
    if isinstance(topic, bytes):
        out += topic
    else:
        _write_string[flexible](out, topic)


def write_string(out: bytearray, value: str | None, *, flexible: bool) -> None:
    """A nullable string."""
    _write_string[flexible](out, value)


def read_records(cursor: Cursor, *, flexible: bool) -> memoryview | None:
    """The record batches of one partition, not copied."""
    length: int = read_uvarint(cursor) - 1 if flexible else _read_int32(cursor)
    if length < 0:
        return None
    return memoryview(cursor.take(length))


def write_tag(out: bytearray, tag: int, body: bytes | bytearray) -> None:
    """One tagged field."""
    write_uvarint(out, tag)
    write_uvarint(out, len(body))
    out += body


Endpoints = tuple[tuple[int, str, int, str | None], ...]


def read_node_endpoints(cursor: Cursor) -> Endpoints:
    """The tags at the end of both responses; tag 0 has the addresses of the leaders that the response names."""
    endpoints: list[tuple[int, str, int, str | None]] = []
    for tag, end in tags(cursor):
        for _ in range(read_count(cursor, flexible=True) if tag == 0 else 0):
            (node_id,) = unpack(cursor, INT32)
            host = _read_string[True](cursor)
            (port,) = unpack(cursor, INT32)
            endpoints.append((node_id, host, port, _read_nullable_string(cursor)))
            skip_tagged_fields(cursor)
        cursor.position = end
    return tuple(endpoints)


def write_node_endpoints(out: bytearray, endpoints: Endpoints) -> None:
    """Tag 0 of both responses: where the leaders named in it are (id, host, port, rack); then the end of the tags."""
    if not endpoints:
        out.append(0)
        return
    body = bytearray()
    write_uvarint(body, len(endpoints) + 1)
    for node_id, host, port, rack in endpoints:
        body += INT32.pack(node_id)
        write_string(body, host, flexible=True)
        body += INT32.pack(port)
        write_string(body, rack, flexible=True)
        body.append(0)
    out.append(1)
    write_tag(out, 0, body)
