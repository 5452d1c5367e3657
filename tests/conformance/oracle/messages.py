"""Requests from plain values and responses to plain values, each in its own version's layout, so that every field on the wire shows."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from types import NoneType, SimpleNamespace
from typing import Any, get_args
from uuid import UUID

from isthmus_wire.codec import Layout, reader, writer
from isthmus_wire.errors import CorruptBatch, DecodeError, ErrorCode
from isthmus_wire.primitives import Cursor
from isthmus_wire.records import batches, iterate_records
from kio.index import load_request_schema, load_response_schema

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_FIRST_PRODUCE = 3
"""Produce below version 3 is listed and refused; kio has no schema of it, and its layout was that of 3 without the first field."""


@cache
def request_layout(api_key: int, version: int) -> Layout:
    """kio's class of a request."""
    return load_request_schema(api_key, max(version, _FIRST_PRODUCE) if api_key == 0 else version)


def _nested(annotation: Any) -> Layout | None:
    """The message class inside a field's type, if it holds one."""
    if is_dataclass(annotation):
        return annotation
    inner = [argument for argument in get_args(annotation) if argument not in (NoneType, Ellipsis)]
    return _nested(inner[0]) if inner else None


@cache
def _known_names(api_key: int, versions: tuple[int, ...]) -> frozenset[str]:
    """Every field name of any version, so that a misspelt one is noticed."""

    def names(layout: Layout) -> Iterator[str]:
        for field in fields(layout):
            yield field.name
            nested = _nested(field.type)
            if nested is not None:
                yield from names(nested)

    return frozenset(name for version in versions for name in names(request_layout(api_key, version)))


def encode_request(api_key: int, version: int, versions: tuple[int, int], values: Mapping[str, Any]) -> bytes:
    """A request's body. Fields that this version does not have are left out, absent ones get the schema's default."""
    known = _known_names(api_key, tuple(range(versions[0], versions[1] + 1)))
    layout = request_layout(api_key, version)
    out = bytearray()
    writer(layout)(out, _entity(layout, values, known))
    return bytes(out)


def _entity(layout: Layout, values: Mapping[str, Any], known: frozenset[str]) -> SimpleNamespace:
    unknown = values.keys() - known
    assert not unknown, f"{layout.__name__} has no {sorted(unknown)}"
    entity = SimpleNamespace()
    for field in fields(layout):
        if field.name in values:
            setattr(entity, field.name, _field(field.type, field.metadata, values[field.name], known))
    return entity


def _field(annotation: Any, metadata: Mapping[str, Any], value: Any, known: frozenset[str]) -> Any:
    nested = _nested(annotation)
    if nested is not None and value is not None:
        if isinstance(value, Mapping):
            return _entity(nested, value, known)
        return tuple(_entity(nested, one, known) for one in value)
    if metadata.get("kafka_type", "").startswith("timedelta"):
        return timedelta(milliseconds=value)
    return value


def decode_answer(api_key: int, version: int, body: bytes) -> dict[str, Any]:
    """A response as dicts, lists, numbers, strings and UUIDs; remaining bytes are a separate entry."""
    layout = load_response_schema(api_key, max(version, _FIRST_PRODUCE) if api_key == 0 else version)
    cursor = Cursor(body)
    entity = reader(layout, layout)(cursor)
    answer = {field.name: _plain(getattr(entity, field.name), field.metadata) for field in fields(layout)}
    if cursor.remaining():
        answer["left over"] = bytes(body[cursor.position :]).hex()
    return answer


def _plain(value: Any, metadata: Mapping[str, Any]) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name), field.metadata) for field in fields(value)}
    if isinstance(value, tuple):
        return [_plain(one, metadata) for one in value]
    if isinstance(value, ErrorCode):
        return value.name
    if isinstance(value, timedelta):
        return value // _MILLISECOND
    if isinstance(value, datetime):
        return (value - _EPOCH) // _MILLISECOND
    if metadata.get("kafka_type") == "uuid":
        return value or UUID(int=0)
    if metadata.get("kafka_type") == "records" and value is not None:
        return plain_batches(value)
    return value.hex() if isinstance(value, bytes) else value


def plain_batches(data: bytes) -> list[Any]:
    """Record batches with the fields of their header and, where they parse, their records."""
    found: list[Any] = []
    end = 0
    for position, header in batches(data):
        batch = header._asdict()
        try:
            batch["records"] = [list(_plain_record(record)) for record in iterate_records(data, position)]
        except (CorruptBatch, DecodeError):
            batch["records"] = data[position + 61 : position + header.size].hex()
        found.append(batch)
        end = position + header.size
    if end != len(data):
        found.append({"torn": len(data) - end})
    return found


def _plain_record(record: Any) -> Iterator[Any]:
    yield record.offset
    yield record.timestamp
    for value in (record.key, record.value):
        yield None if value is None else value.decode("latin-1")
    for name, value in record.headers:
        yield [name, None if value is None else value.decode("latin-1")]
