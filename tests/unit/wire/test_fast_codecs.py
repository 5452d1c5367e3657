"""Our Produce and Fetch codecs against kio's, over every version: the same bytes both ways."""

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isthmus_wire.codec import reader
from isthmus_wire.errors import DecodeError
from isthmus_wire.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    decode_fetch_request,
    decode_fetch_response,
    encode_fetch_request,
    encode_fetch_response,
)
from isthmus_wire.primitives import Cursor
from isthmus_wire.produce import (
    ProduceRequest,
    ProduceResponse,
    ProduceResult,
    decode_produce_request,
    decode_produce_response,
    encode_produce_request,
    encode_produce_response,
)
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_writer

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
SMALL = st.integers(0, 2**20)
RECORDS = st.none() | st.binary(max_size=40)
NAMES = st.text(max_size=10)
IDS = st.binary(min_size=16, max_size=16)
CODES = st.sampled_from([0, 1, 3, 5, 6, 87])
PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)


def topics_of(entries: st.SearchStrategy[Any], *, by_id: bool) -> st.SearchStrategy[Any]:
    return st.lists(st.tuples(IDS if by_id else NAMES, st.lists(entries, max_size=3)), max_size=3)


def kio_bytes(entity: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def reencoded(load: Any, key: int, version: int, data: bytes | bytearray) -> bytes:
    """Read with the codec that test_codec proves equal to kio's, write with kio's own writer."""
    layout = load(key, version)
    cursor = Cursor(bytes(data))
    entity = reader(layout, layout)(cursor)
    assert cursor.remaining() == 0
    return kio_bytes(entity)


@st.composite
def produce_requests(draw: st.DrawFn, version: int) -> ProduceRequest:
    topics = topics_of(st.tuples(INT32, RECORDS), by_id=version >= 13)
    return ProduceRequest(draw(st.none() | NAMES), draw(st.integers(-1, 1)), draw(SMALL), draw(topics))


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_produce_requests_are_kios_bytes(version: int, data: st.DataObject) -> None:
    request = data.draw(produce_requests(version))
    encoded = encode_produce_request(version, request)
    assert reencoded(load_request_schema, 0, version, encoded) == encoded
    decoded = decode_produce_request(version, bytes(encoded))
    assert decoded == request


@st.composite
def produce_results(draw: st.DrawFn, version: int) -> ProduceResult:
    errors = st.lists(st.tuples(INT32, st.none() | NAMES), max_size=2).map(tuple)
    leader = st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9))
    code = draw(CODES)
    if code == 0:
        errors = st.just(())
    return ProduceResult(
        draw(INT32),
        code,
        draw(INT64),
        draw(st.integers(-1, 2**40)),
        draw(INT64) if version >= 5 else -1,
        draw(errors) if version >= 8 else (),
        draw(st.none() | NAMES) if version >= 8 and code else None,
        draw(leader) if version >= 10 else None,
    )


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_produce_responses_are_kios_bytes(version: int, data: st.DataObject) -> None:
    topics = data.draw(topics_of(produce_results(version), by_id=version >= 13))
    endpoints = data.draw(st.sampled_from([(), ((1, "h", 9092, None), (2, "i", 9, "r"))])) if version >= 10 else ()
    response = ProduceResponse(topics, data.draw(SMALL), endpoints)
    encoded = encode_produce_response(version, response)
    assert reencoded(load_response_schema, 0, version, encoded) == encoded
    decoded = decode_produce_response(version, bytes(encoded))
    assert decoded == response


@st.composite
def fetch_partitions(draw: st.DrawFn, version: int) -> FetchPartition:
    return FetchPartition(
        draw(INT32),
        draw(INT64),
        draw(INT32),
        draw(INT32) if version >= 9 else -1,
        draw(INT32) if version >= 12 else -1,
        draw(INT64) if version >= 5 else -1,
        draw(IDS) if version >= 17 else bytes(16),
        draw(st.sampled_from([2**63 - 1, 0, 77])) if version >= 18 else 2**63 - 1,
    )


@st.composite
def fetch_requests(draw: st.DrawFn, version: int) -> FetchRequest:
    by_id = version >= 13
    forgotten: st.SearchStrategy[Any] = st.lists(
        st.tuples(IDS if by_id else NAMES, st.lists(INT32, max_size=3)), max_size=2
    )
    return FetchRequest(
        draw(SMALL),
        draw(SMALL),
        draw(SMALL),
        draw(topics_of(fetch_partitions(version), by_id=by_id)),
        draw(st.integers(0, 1)),
        draw(INT32) if version >= 7 else 0,
        draw(INT32) if version >= 7 else -1,
        draw(forgotten) if version >= 7 else [],
        draw(NAMES) if version >= 11 else "",
        draw(st.sampled_from([-1, 3])),
        draw(st.sampled_from([-1, 5])) if version >= 15 else -1,
        draw(st.none() | NAMES) if version >= 12 else None,
    )


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_fetch_requests_are_kios_bytes(version: int, data: st.DataObject) -> None:
    request = data.draw(fetch_requests(version))
    encoded = encode_fetch_request(version, request)
    assert reencoded(load_request_schema, 1, version, encoded) == encoded
    assert decode_fetch_request(version, bytes(encoded)) == request


@st.composite
def fetched_partitions(draw: st.DrawFn, version: int) -> FetchedPartition:
    pair = st.none() | st.tuples(st.integers(0, 2**30), st.integers(0, 2**30))
    tagged = version >= 12
    return FetchedPartition(
        draw(INT32),
        draw(CODES),
        draw(INT64),
        draw(INT64),
        draw(INT64) if version >= 5 else -1,
        draw(st.none() | st.lists(st.tuples(INT64, INT64), max_size=2)),
        draw(INT32) if version >= 11 else -1,
        draw(st.none() | st.binary(max_size=30).map(lambda data: (data,))),
        draw(pair) if tagged else None,
        draw(pair) if tagged else None,
        draw(pair) if tagged else None,
    )


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_fetch_responses_are_kios_bytes(version: int, data: st.DataObject) -> None:
    topics = data.draw(topics_of(fetched_partitions(version), by_id=version >= 13))
    code, session = (data.draw(CODES), data.draw(INT32)) if version >= 7 else (0, 0)
    endpoints = data.draw(st.sampled_from([(), ((1, "h", 9092, None), (2, "i", 9, "r"))])) if version >= 16 else ()
    response = FetchResponse(topics, code, session, data.draw(SMALL), endpoints)
    encoded = b"".join(encode_fetch_response(version, response))
    assert reencoded(load_response_schema, 1, version, encoded) == encoded
    assert decode_fetch_response(version, encoded) == response


@given(data=st.binary(max_size=200), version=st.integers(3, 18))
def test_random_bytes_are_refused_or_read_but_never_crash(data: bytes, version: int) -> None:
    for decode in (decode_produce_request, decode_fetch_request, decode_produce_response, decode_fetch_response):
        try:
            decode(min(version, 13) if "produce" in decode.__name__ else max(version, 4), data)
        except DecodeError:
            continue
