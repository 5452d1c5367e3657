"""Metadata records as bytes: a frame version, the record's key and version, and its body, as in Kafka."""

from __future__ import annotations

from dataclasses import MISSING, Field, field, fields, make_dataclass
from functools import cache
from typing import Any, Final

from isthmus_wire.codec import Layout
from isthmus_wire.errors import DecodeError
from isthmus_wire.messages import decode_entity, encode_entity
from isthmus_wire.primitives import Cursor, read_uvarint, write_uvarint

from isthmus_broker.core.metadata.schema import RECORD_TYPES, MetadataRecord

FRAME_VERSION: Final = 1


def encode_record(record: MetadataRecord) -> bytes:
    """The value of a record in the metadata log or in a snapshot."""
    out = bytearray()
    for number in (FRAME_VERSION, record.__api_key__, record.written_version):
        write_uvarint(out, number)
    return bytes(out) + encode_entity(record, _layout(record.__api_key__, record.written_version))


def decode_record(value: bytes | memoryview) -> MetadataRecord:
    """Decode a record; raises DecodeError for one that this release does not know.

    Kafka stops at such a record too: a node that skipped it would disagree with its peers.
    """
    cursor = Cursor(value, 0)
    frame_version, api_key, version = read_uvarint(cursor), read_uvarint(cursor), read_uvarint(cursor)
    if frame_version != FRAME_VERSION:
        raise DecodeError(f"a metadata record has frame version {frame_version}; expected {FRAME_VERSION}")
    record_type = RECORD_TYPES.get(api_key)
    if record_type is None:
        raise DecodeError(f"unknown metadata record type {api_key}")
    if version > record_type.__version__:
        raise DecodeError(f"{record_type.__name__} version {version} is newer than {record_type.__version__}")
    return decode_entity(record_type, value, _layout(api_key, version), cursor.position)


@cache
def _layout(api_key: int, version: int) -> Layout:
    """The fields that a version of the record has on disk."""
    record_type: Layout = RECORD_TYPES[api_key]
    if version == record_type.__version__:
        return record_type
    kept = [f for f in fields(record_type) if f.metadata.get("since", 0) <= version]
    return make_dataclass(
        f"{record_type.__name__}V{version}",
        [(f.name, f.type, _copied(f)) for f in kept],
        namespace={"__flexible__": True, "__version__": version},
        kw_only=True,
    )


def _copied(source: Field[Any]) -> Any:
    if source.default is MISSING:
        return field(metadata=source.metadata)
    return field(metadata=source.metadata, default=source.default)
