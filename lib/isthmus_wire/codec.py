"""Readers and writers compiled from kio's message classes.

kio's classes are the schema: their fields carry Kafka's types. This module turns a class (the *layout*, of one version) into a reader
that fills another class (the *target*, usually the highest version's), so that the rest of the code sees one shape of every message.
Fields that only the target has get their default; fields that only the layout has are read and dropped.

Why not kio's own native reader: a lying array count makes it allocate without bound and abort the whole process, and a broker must
outlive any bytes it is sent. Here a count beyond the bytes that are left is refused before anything is allocated, and a message may hold at
most `ELEMENTS_MAX` array elements in all.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

from isthmus_wire.errors import DecodeError
from isthmus_wire.primitives import READERS, WRITERS, Cursor, read_uvarint, write_uvarint

__all__ = ["ELEMENTS_MAX", "Cursor", "Layout", "reader", "skip_tagged_fields", "tags", "writer"]

ELEMENTS_MAX: Final = 2_000_000

Layout = Any  # a dataclass of kio's kind, with `__flexible__` and Kafka's types in its fields' metadata
Read = Callable[[Cursor], Any]
Write = Callable[[bytearray, Any], None]


@dataclass(frozen=True, slots=True)
class _Shape:
    """A field's type taken apart."""

    kafka_type: str | None  # None for a nested entity
    entity: Layout | None
    is_array: bool
    nullable: bool


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) not in (UnionType, Union):
        return annotation, False
    (inner,) = (argument for argument in get_args(annotation) if argument is not NoneType)
    return inner, True


def _shape(field: Field[Any]) -> _Shape:
    inner, nullable = _without_none(field.type)
    is_array = get_origin(inner) is tuple
    if is_array:
        inner, _ = _without_none(get_args(inner)[0])
    entity = inner if is_dataclass(inner) else None
    return _Shape(None if entity else field.metadata["kafka_type"], entity, is_array, nullable)


def default_of(field: Field[Any]) -> Any:
    """What a field holds when the version on the wire does not have it."""
    if field.default is not MISSING:
        return field.default
    shape = _shape(field)
    if shape.nullable:
        return None
    if shape.is_array:
        return ()
    if shape.entity is not None:
        return shape.entity(**{nested.name: default_of(nested) for nested in fields(shape.entity)})
    kafka_type = shape.kafka_type or ""
    return READERS[kafka_type, True, False](Cursor(_EMPTY if kafka_type in ("string", "bytes", "records") else _ZEROES))


_EMPTY: Final = b"\1"  # a compact length of nothing
_ZEROES: Final = bytes(16)


@cache
def reader(layout: Layout, target: Layout) -> Read:
    """A function that reads `layout` from a cursor and returns a `target`."""
    target_fields = {field.name: field for field in fields(target)}
    absent = dict(_absent_fields(layout, target))
    plain = [(f.name, _field_reader(f, layout, target_fields)) for f in fields(layout) if "tag" not in f.metadata]
    tagged = {
        f.metadata["tag"]: (f.name, _field_reader(f, layout, target_fields))
        for f in fields(layout)
        if "tag" in f.metadata
    }
    tagged_defaults = {f.name: default_of(f) for f in fields(layout) if "tag" in f.metadata and f.name in target_fields}
    defaults = {**absent, **tagged_defaults}
    dropped = [name for name, _ in plain if name not in target_fields]
    flexible: bool = layout.__flexible__

    def read(cursor: Cursor) -> Any:
        values = defaults.copy()
        for name, read_field in plain:
            values[name] = read_field(cursor)
        for name in dropped:
            del values[name]
        if flexible and not tagged:
            skip_tagged_fields(cursor)
        elif flexible:
            for tag, end in tags(cursor):
                if tag in tagged:
                    name, read_field = tagged[tag]
                    value = read_field(cursor)
                    if name in target_fields:
                        values[name] = value
                cursor.position = end
        return target(**values)

    return read


def _absent_fields(layout: Layout, target: Layout) -> list[tuple[str, Any]]:
    present = {field.name for field in fields(layout)}
    return [(field.name, default_of(field)) for field in fields(target) if field.name not in present]


def _field_reader(field: Field[Any], layout: Layout, target_fields: dict[str, Field[Any]]) -> Read:
    shape = _shape(field)
    is_tag = "tag" in field.metadata
    read: Read
    if shape.entity is not None:
        target = shape.entity
        if field.name in target_fields:
            target = _shape(target_fields[field.name]).entity or shape.entity
        read = reader(shape.entity, target)
        if shape.nullable and not shape.is_array:
            read = _nullable_entity(read)
    else:
        nullable = shape.nullable and not shape.is_array and not is_tag
        read = READERS[shape.kafka_type or "", layout.__flexible__, nullable]
    if shape.is_array:
        return _array_reader(read, flexible=layout.__flexible__, nullable=shape.nullable)
    return read


def _nullable_entity(read: Read) -> Read:
    """KIP-893: a nullable struct is preceded by a byte, negative for null."""

    def read_nullable(cursor: Cursor) -> Any:
        return None if cursor.take(1)[0] >= 0x80 else read(cursor)

    return read_nullable


def _array_reader(read: Read, *, flexible: bool, nullable: bool) -> Read:
    read_int32 = READERS["int32", False, False]

    def read_array(cursor: Cursor) -> tuple[Any, ...] | None:
        count: int = read_uvarint(cursor) - 1 if flexible else read_int32(cursor)
        if count < 0 and nullable:
            return None
        if count < 0 or count > cursor.remaining():
            raise DecodeError(f"an array claims {count} elements with {cursor.remaining()} bytes left")
        cursor.elements += count
        if cursor.elements > ELEMENTS_MAX:
            raise DecodeError(f"a message with more than {ELEMENTS_MAX} array elements")
        return tuple([read(cursor) for _ in range(count)])

    return read_array


def tags(cursor: Cursor) -> Iterator[tuple[int, int]]:
    """Yield (tag, where its value ends); the caller moves the cursor there."""
    for _ in range(read_uvarint(cursor)):
        tag = read_uvarint(cursor)
        size = read_uvarint(cursor)
        if size > cursor.remaining():
            raise DecodeError(f"tagged field {tag} claims {size} bytes with {cursor.remaining()} left")
        yield tag, cursor.position + size


def skip_tagged_fields(cursor: Cursor) -> None:
    """Move past the tagged fields that end a flexible struct, nearly always none."""
    if cursor.position < len(cursor.data) and cursor.data[cursor.position] == 0:
        cursor.position += 1
        return
    for _, end in tags(cursor):
        cursor.position = end


@cache
def writer(layout: Layout) -> Write:
    """A function that writes any object with the attributes of `layout`; a missing attribute is written as its default."""
    plain = [_field_writer(f, layout) for f in fields(layout) if "tag" not in f.metadata]
    tagged = sorted(
        ((f.metadata["tag"], *_field_writer(f, layout)) for f in fields(layout) if "tag" in f.metadata),
        key=lambda entry: entry[0],
    )
    flexible: bool = layout.__flexible__

    def write(out: bytearray, entity: Any) -> None:
        for name, default, write_field in plain:
            write_field(out, getattr(entity, name, default))
        if not flexible:
            return
        if not tagged:
            out.append(0)
            return
        present = [
            (tag, value, write_field)
            for tag, name, default, write_field in tagged
            if (value := getattr(entity, name, default)) != default
        ]
        write_uvarint(out, len(present))
        for tag, value, write_field in present:
            body = bytearray()
            write_field(body, value)
            write_uvarint(out, tag)
            write_uvarint(out, len(body))
            out += body

    return write


def _field_writer(field: Field[Any], layout: Layout) -> tuple[str, Any, Write]:
    shape = _shape(field)
    is_tag = "tag" in field.metadata
    write: Write
    if shape.entity is not None:
        write = writer(shape.entity)
        if shape.nullable and not shape.is_array:
            write = _nullable_entity_writer(write)
    else:
        nullable = shape.nullable and not shape.is_array and not is_tag
        write = WRITERS[shape.kafka_type or "", layout.__flexible__, nullable]
    if shape.is_array:
        write = _array_writer(write, flexible=layout.__flexible__)
    return field.name, default_of(field), write


def _nullable_entity_writer(write: Write) -> Write:
    def write_nullable(out: bytearray, entity: Any) -> None:
        if entity is None:
            out.append(0xFF)
        else:
            out.append(1)
            write(out, entity)

    return write_nullable


_INT32: Final = struct.Struct(">i")


def _array_writer(write: Write, *, flexible: bool) -> Write:
    def write_array(out: bytearray, values: tuple[Any, ...] | None) -> None:
        count = -1 if values is None else len(values)
        if flexible:
            write_uvarint(out, count + 1)
        else:
            out += _INT32.pack(count)
        for value in values or ():
            write(out, value)

    return write_array
