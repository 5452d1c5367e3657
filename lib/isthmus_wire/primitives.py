"""Kafka's primitive types: one reader and one writer for each type, encoding and nullability.

A reader takes a `Cursor` and moves it; bytes that are missing raise `DecodeError`, never an index error. A writer appends to a bytearray.
The tables at the end are keyed by (kio's name of the type, flexible encoding, nullable).
"""

import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from isthmus_wire.errors import DecodeError, error_code


class Cursor:
    """A position in the bytes of one message."""

    __slots__ = ("data", "elements", "position")

    def __init__(self, data: bytes | bytearray | memoryview, position: int = 0) -> None:
        self.data = data
        self.position = position
        self.elements = 0  # array elements promised so far, bounded by the codec

    def remaining(self) -> int:
        """Bytes left."""
        return len(self.data) - self.position

    def take(self, size: int) -> bytes | bytearray | memoryview:
        """The next `size` bytes."""
        start = self.position
        end = start + size
        if size < 0 or end > len(self.data):
            raise DecodeError(f"{size} bytes wanted with {len(self.data) - start} left")
        self.position = end
        return self.data[start:end]


Read = Callable[[Cursor], Any]
Write = Callable[[bytearray, Any], None]


def _number_reader(layout: str) -> Read:
    packed = struct.Struct(layout)
    size, unpack = packed.size, packed.unpack_from

    def read_number(cursor: Cursor) -> Any:
        start = cursor.position
        if start + size > len(cursor.data):
            raise DecodeError(f"{size} bytes wanted with {cursor.remaining()} left")
        cursor.position = start + size
        return unpack(cursor.data, start)[0]

    return read_number


def _number_writer(layout: str) -> Write:
    pack = struct.Struct(layout).pack

    def write_number(out: bytearray, value: Any) -> None:
        out += pack(value)

    return write_number


_read_int16 = _number_reader(">h")
_read_int32 = _number_reader(">i")
_read_int64 = _number_reader(">q")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_LEGACY_STRING_MAX: Final = 32767


def read_uvarint(cursor: Cursor) -> int:
    """An unsigned 32-bit varint, five bytes at most; nearly always one."""
    data, position = cursor.data, cursor.position
    end = len(data)
    if position < end and data[position] < 0x80:
        cursor.position = position + 1
        return data[position]
    value = shift = 0
    while position < end:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            cursor.position = position
            return value & 0xFFFFFFFF
        shift += 7
        if shift > 28:
            raise DecodeError("a varint longer than five bytes")
    raise DecodeError("the bytes end inside a varint")


def write_uvarint(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _length_reader(*, flexible: bool, text: bool, nullable: bool) -> Callable[[Cursor], int]:
    """Read a length; a negative one is null as Kafka reads it, and refused where null is not allowed."""
    read_legacy = _read_int16 if text else _read_int32

    def read_length(cursor: Cursor) -> int:
        length: int = read_uvarint(cursor) - 1 if flexible else read_legacy(cursor)
        if text and length > _LEGACY_STRING_MAX:
            raise DecodeError(f"a string of {length} bytes; the longest is {_LEGACY_STRING_MAX}")
        if length < 0 and not nullable:
            raise DecodeError(f"a length of {length} where a value is required")
        return length

    return read_length


def _string_reader(*, flexible: bool, nullable: bool) -> Read:
    read_length = _length_reader(flexible=flexible, text=True, nullable=nullable)

    def read_string(cursor: Cursor) -> str | None:
        length = read_length(cursor)
        if length < 0:
            return None
        return str(cursor.take(length), "utf-8", "replace")  # as Java decodes what is not UTF-8

    return read_string


def _bytes_reader(*, flexible: bool, nullable: bool) -> Read:
    read_length = _length_reader(flexible=flexible, text=False, nullable=nullable)

    def read_bytes(cursor: Cursor) -> bytes | None:
        length = read_length(cursor)
        return None if length < 0 else bytes(cursor.take(length))

    return read_bytes


def _write_compact(out: bytearray, value: bytes | bytearray | memoryview | None) -> None:
    if value is None:
        out.append(0)
    else:
        write_uvarint(out, len(value) + 1)
        out += value


def _write_compact_string(out: bytearray, value: str | None) -> None:
    _write_compact(out, None if value is None else value.encode())


def _write_legacy_string(out: bytearray, value: str | None) -> None:
    if value is None:
        out += _INT16.pack(-1)
        return
    encoded = value.encode()
    if len(encoded) > _LEGACY_STRING_MAX:
        raise ValueError(f"a string of {len(encoded)} bytes does not fit this version's 16-bit length")
    out += _INT16.pack(len(encoded))
    out += encoded


def _write_legacy_bytes(out: bytearray, value: bytes | bytearray | memoryview | None) -> None:
    if value is None:
        out += _INT32.pack(-1)
    else:
        out += _INT32.pack(len(value))
        out += value


def _read_bool(cursor: Cursor) -> bool:
    return cursor.take(1)[0] != 0


def _write_bool(out: bytearray, value: bool) -> None:
    out.append(1 if value else 0)


def _read_uuid(cursor: Cursor) -> UUID | None:
    raw = bytes(cursor.take(16))
    return UUID(bytes=raw) if any(raw) else None


def _write_uuid(out: bytearray, value: UUID | None) -> None:
    out += bytes(16) if value is None else value.bytes


def _read_error_code(cursor: Cursor) -> Any:
    return error_code(_read_int16(cursor))


_MILLISECOND: Final = timedelta(milliseconds=1)
_LONGEST_MS: Final = timedelta.max // _MILLISECOND
_SHORTEST_MS: Final = timedelta.min // _MILLISECOND
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _timedelta_reader(read: Read) -> Read:
    def read_timedelta(cursor: Cursor) -> timedelta:
        number: int = read(cursor)
        return timedelta(milliseconds=max(_SHORTEST_MS, min(number, _LONGEST_MS)))

    return read_timedelta


def _timedelta_writer(pack: Callable[[int], bytes]) -> Write:
    def write_timedelta(out: bytearray, value: timedelta) -> None:
        out += pack(value // _MILLISECOND)

    return write_timedelta


def _datetime_reader(*, nullable: bool) -> Read:
    def read_datetime(cursor: Cursor) -> datetime | None:
        number: int = _read_int64(cursor)
        if nullable and number == -1:
            return None
        try:
            return _EPOCH + timedelta(milliseconds=number)
        except OverflowError as error:
            raise DecodeError(f"a time of {number} ms is beyond the calendar") from error

    return read_datetime


def _write_datetime(out: bytearray, value: datetime | None) -> None:
    out += _INT64.pack(-1 if value is None else (value - _EPOCH) // _MILLISECOND)


def _tables() -> tuple[dict[tuple[str, bool, bool], Read], dict[tuple[str, bool, bool], Write]]:
    numbers = {
        "int8": ">b",
        "int16": ">h",
        "int32": ">i",
        "int64": ">q",
        "uint16": ">H",
        "uint32": ">I",
        "float64": ">d",
    }
    reads: dict[str, Read] = {name: _number_reader(layout) for name, layout in numbers.items()}
    writes: dict[str, Write] = {name: _number_writer(layout) for name, layout in numbers.items()}
    reads |= {"bool": _read_bool, "uuid": _read_uuid, "error_code": _read_error_code}
    writes |= {"bool": _write_bool, "uuid": _write_uuid, "error_code": writes["int16"]}
    reads |= {"timedelta_i32": _timedelta_reader(_read_int32), "timedelta_i64": _timedelta_reader(_read_int64)}
    writes |= {"timedelta_i32": _timedelta_writer(_INT32.pack), "timedelta_i64": _timedelta_writer(_INT64.pack)}
    readers: dict[tuple[str, bool, bool], Read] = {}
    writers: dict[tuple[str, bool, bool], Write] = {}
    for flexible in (False, True):
        for nullable in (False, True):
            of_kind = (flexible, nullable)
            readers |= {(name, *of_kind): read for name, read in reads.items()}
            writers |= {(name, *of_kind): write for name, write in writes.items()}
            readers["string", flexible, nullable] = _string_reader(flexible=flexible, nullable=nullable)
            writers["string", flexible, nullable] = _write_compact_string if flexible else _write_legacy_string
            for name in ("bytes", "records"):
                readers[name, flexible, nullable] = _bytes_reader(flexible=flexible, nullable=nullable)
                writers[name, flexible, nullable] = _write_compact if flexible else _write_legacy_bytes
            readers["datetime_i64", flexible, nullable] = _datetime_reader(nullable=nullable)
            writers["datetime_i64", flexible, nullable] = _write_datetime
    return readers, writers


READERS, WRITERS = _tables()
