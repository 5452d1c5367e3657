"""The compiled codec against kio's own reader and writer, for every API and version a node lists."""

import io
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isthmus_wire import extensions, messages, requests
from isthmus_wire.apis import ALL_VERSIONS, FLEXIBLE_SINCE, ApiKey
from isthmus_wire.codec import reader, writer
from isthmus_wire.errors import DecodeError, ErrorCode
from isthmus_wire.primitives import Cursor
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32

LAYOUTS: list[Any] = [
    load(key, version)
    for key, (lowest, highest) in ALL_VERSIONS.items()
    for version in range(max(lowest, 3) if key == ApiKey.PRODUCE else lowest, highest + 1)
    for load in (load_request_schema, load_response_schema)
    if key < extensions.FIRST_OWN_KEY
]
LAYOUTS += [*extensions.REQUESTS.values(), *extensions.RESPONSES.values()]
PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "int8": st.integers(-128, 127),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "float64": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "string": st.text(max_size=8),
    "bytes": st.binary(max_size=20),
    "records": st.binary(max_size=20),
    "uuid": st.none() | st.uuids(),
    "error_code": st.sampled_from(ErrorCode),
    "timedelta_i32": st.integers(-1, 2**31 - 1).map(lambda ms: timedelta(milliseconds=ms)),
    "timedelta_i64": st.integers(-1, 2**45).map(lambda ms: timedelta(milliseconds=ms)),
    "datetime_i64": st.integers(0, 2**41).map(lambda ms: datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)),
}


def values(annotation: Any, kafka_type: str | None) -> st.SearchStrategy[Any]:
    if get_origin(annotation) in (UnionType, Union):
        (inner,) = (argument for argument in get_args(annotation) if argument is not NoneType)
        return st.none() | values(inner, kafka_type)
    if get_origin(annotation) is tuple:
        inner = get_args(annotation)[0]
        element = values(inner, kafka_type) if is_dataclass(inner) else PRIMITIVES[kafka_type or ""]
        return st.lists(element, max_size=2).map(tuple)
    if is_dataclass(annotation):
        return entities(annotation)
    return PRIMITIVES[kafka_type or ""]


def entities(layout: Any) -> st.SearchStrategy[Any]:
    drawn = {}
    for field in fields(layout):
        kafka_type = field.metadata.get("kafka_type")
        drawn[field.name] = values(field.type, kafka_type)
        if "tag" in field.metadata and field.default is not MISSING:
            drawn[field.name] = st.just(field.default) | drawn[field.name].filter(lambda value: value is not None)
    return st.builds(layout, **drawn)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: f"{layout.__name__}-{layout.__version__}")
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_bytes_and_entities_are_kios(layout: Any, data: st.DataObject) -> None:
    entity = data.draw(entities(layout))
    expected = io.BytesIO()
    entity_writer(layout)(expected, entity)
    out = bytearray()
    writer(layout)(out, entity)
    assert out == expected.getvalue()
    cursor = Cursor(bytes(out))
    assert reader(layout, layout)(cursor) == entity_reader(layout)(bytes(out), 0)[0]
    assert cursor.remaining() == 0


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: f"{layout.__name__}-{layout.__version__}")
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_damaged_bytes_are_refused_or_read_but_never_crash(layout: Any, data: st.DataObject) -> None:
    out = bytearray()
    writer(layout)(out, data.draw(entities(layout)))
    for _ in range(data.draw(st.integers(1, 4))):
        if out:
            out[data.draw(st.integers(0, len(out) - 1))] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    with suppress(DecodeError):
        reader(layout, layout)(Cursor(bytes(out)))


def test_a_false_array_count_is_refused_before_allocation() -> None:
    for version, lie in ((1, b"\x7f\xff\xff\xff"), (12, b"\xff\xff\xff\xff\x0f")):
        with pytest.raises(DecodeError, match="claims"):
            messages.decode_request(ApiKey.METADATA, version, lie)


def test_every_api_has_its_first_flexible_version() -> None:
    for layout in LAYOUTS:
        assert layout.__flexible__ == (layout.__version__ >= FLEXIBLE_SINCE[layout.__api_key__])


def test_an_old_version_is_read_into_the_highest_versions_class() -> None:
    old = messages.encode_request(ApiKey.JOIN_GROUP, 0, _Join())
    request: Any = messages.decode_request(ApiKey.JOIN_GROUP, 0, old)
    expected: Any = load_request_schema(ApiKey.JOIN_GROUP, 9)
    assert type(request) is expected
    assert request.group_instance_id is None
    assert request.reason is None


class _Join:
    group_id = "g"
    member_id = ""
    protocol_type = "consumer"
    protocols = ()
    session_timeout = timedelta(seconds=10)


def test_unions_keep_what_a_version_dropped() -> None:
    by_name = requests.OffsetFetchRequest(group_id="g", topics=None)
    decoded = messages.decode_request(9, 7, messages.encode_request(9, 7, by_name))
    assert (decoded.group_id, decoded.topics, decoded.groups) == ("g", None, ())
    topic_id = UUID(int=7)
    group = requests.OffsetFetchRequestGroup(
        group_id="g", topics=(requests.OffsetFetchRequestTopic(topic_id=topic_id, partition_indexes=(i32(1),)),)
    )
    by_id = requests.OffsetFetchRequest(groups=(group,))
    assert messages.decode_request(9, 10, messages.encode_request(9, 10, by_id)) == by_id
