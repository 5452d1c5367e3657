"""Valid requests of every API and version, generated from kio's schemas: the input of the mutations."""

import random
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import timedelta
from types import NoneType, SimpleNamespace
from typing import Any, Final, get_args, get_origin
from uuid import UUID

from isthmus_wire.apis import KAFKA_VERSIONS, OWN_VERSIONS
from isthmus_wire.codec import writer
from isthmus_wire.extensions import REQUESTS
from isthmus_wire.headers import encode_request_header
from kio.index import load_request_schema

_FIRST_PRODUCE: Final = 3
_NAMES: Final = ("", "t", "fuzzed", "__consumer_offsets", "ä", "x" * 300)
_NUMBERS: Final = {"int8": 7, "int16": 15, "int32": 31, "int64": 63, "uint16": 16}
_FUZZER: Final = "fuzz"


def every_version() -> Iterator[tuple[int, int]]:
    """API keys and versions whose requests have a schema."""
    for key, (lowest, highest) in (*KAFKA_VERSIONS.items(), *OWN_VERSIONS.items()):
        for version in range(max(lowest, _FIRST_PRODUCE) if key == 0 else lowest, highest + 1):
            yield key, version


def drawn_request(key: int, version: int, draw: random.Random, batch: bytes) -> bytes:
    """Header and body of a request with random values of the fields' types; `batch` is used for records."""
    layout: Any = REQUESTS.get(key) or load_request_schema(key, version)
    out = bytearray(encode_request_header(key, version, draw.randrange(2**31), _FUZZER))
    writer(layout)(out, _entity(layout, draw, batch))
    return bytes(out)


def _entity(layout: Any, draw: random.Random, batch: bytes) -> SimpleNamespace:
    values = {field.name: _value(field.type, field.metadata.get("kafka_type"), draw, batch) for field in fields(layout)}
    return SimpleNamespace(**values)


def _value(annotation: Any, kafka_type: str | None, draw: random.Random, batch: bytes) -> Any:
    if get_origin(annotation) is tuple:
        inner = get_args(annotation)[0]
        return tuple(_value(inner, kafka_type, draw, batch) for _ in range(draw.randrange(3)))
    if is_dataclass(annotation):
        return _entity(annotation, draw, batch)
    alternatives = [one for one in get_args(annotation) if one is not NoneType]
    if len(alternatives) < len(get_args(annotation)):
        if draw.random() < 0.2:
            return None
        return _value(alternatives[0], kafka_type, draw, batch)
    return _primitive(kafka_type or "", draw, batch)


def _primitive(kafka_type: str, draw: random.Random, batch: bytes) -> Any:
    if kafka_type == "string":
        return draw.choice(_NAMES)
    if kafka_type in ("bytes", "records"):
        return batch if kafka_type == "records" else draw.randbytes(draw.randrange(20))
    if kafka_type == "uuid":
        return UUID(int=draw.randrange(4))
    if kafka_type == "bool":
        return draw.random() < 0.5
    if kafka_type.startswith("timedelta"):
        return timedelta(milliseconds=draw.choice((0, 1, 10, -1)))
    bits = _NUMBERS[kafka_type]
    return (
        draw.choice((0, 1, 2, 5, 2**bits - 1))
        if kafka_type == "uint16"
        else draw.choice((0, 1, 2, -1, -2, 2**bits - 1))
    )
