"""Whole messages: bytes in, one class per API out, whatever version was on the wire; and back.

Handlers and clients see the highest version's class of kio, or the union class of `requests` where fields moved between versions.
"""

from datetime import timedelta
from functools import cache
from typing import Any, Final, TypeVar

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.static.primitive import i32Timedelta

from isthmus_wire import extensions, requests
from isthmus_wire.apis import ALL_VERSIONS, ApiKey
from isthmus_wire.codec import Layout, reader, writer
from isthmus_wire.primitives import Cursor

_REQUEST_UNIONS: Final[dict[int, Layout]] = {
    ApiKey.METADATA: requests.MetadataRequest,
    ApiKey.FIND_COORDINATOR: requests.FindCoordinatorRequest,
    ApiKey.ADD_PARTITIONS_TO_TXN: requests.AddPartitionsToTxnRequest,
    ApiKey.DELETE_TOPICS: requests.DeleteTopicsRequest,
    ApiKey.LEAVE_GROUP: requests.LeaveGroupRequest,
    ApiKey.OFFSET_COMMIT: requests.OffsetCommitRequest,
    ApiKey.OFFSET_FETCH: requests.OffsetFetchRequest,
}
_RESPONSE_UNIONS: Final[dict[int, Layout]] = {
    ApiKey.METADATA: requests.MetadataResponse,
    ApiKey.FIND_COORDINATOR: requests.FindCoordinatorResponse,
    ApiKey.ADD_PARTITIONS_TO_TXN: requests.AddPartitionsToTxnResponse,
    ApiKey.OFFSET_COMMIT: requests.OffsetCommitResponse,
    ApiKey.OFFSET_FETCH: requests.OffsetFetchResponse,
}
E = TypeVar("E")
_MILLISECOND: Final = timedelta(milliseconds=1)


def millis(number: int) -> i32Timedelta:
    """Milliseconds as the type that kio's fields want."""
    return i32Timedelta.parse(timedelta(milliseconds=number))


def to_millis(duration: timedelta) -> int:
    """The other way round."""
    return duration // _MILLISECOND


NO_THROTTLE: Final = millis(0)


@cache
def highest_version(api_key: int) -> int:
    """The version whose class the rest of the code sees."""
    if api_key in ALL_VERSIONS:
        return ALL_VERSIONS[ApiKey(api_key)][1]
    return max(schema_name_map[api_key_map[api_key]])


@cache
def _request_schema(api_key: int, version: int) -> Layout:
    return extensions.REQUESTS.get(api_key) or load_request_schema(api_key, version)


@cache
def _response_schema(api_key: int, version: int) -> Layout:
    return extensions.RESPONSES.get(api_key) or load_response_schema(api_key, version)


@cache
def request_class(api_key: int) -> Layout:
    """The class in which handlers see requests of this API."""
    return _REQUEST_UNIONS.get(api_key) or _request_schema(api_key, highest_version(api_key))


@cache
def response_class(api_key: int) -> Layout:
    """The class in which clients see responses of this API."""
    return _RESPONSE_UNIONS.get(api_key) or _response_schema(api_key, highest_version(api_key))


def decode_request(api_key: int, version: int, data: bytes | memoryview, offset: int = 0) -> Any:
    """A request's body; raises DecodeError for bytes that are not one."""
    return reader(_request_schema(api_key, version), request_class(api_key))(Cursor(data, offset))


def encode_request(api_key: int, version: int, request: Any) -> bytes:
    """The body of a request in the layout of that version."""
    return encode_entity(request, _request_schema(api_key, version))


def decode_response(api_key: int, version: int, data: bytes | memoryview, offset: int = 0) -> Any:
    """A response's body; raises DecodeError for bytes that are not one."""
    return reader(_response_schema(api_key, version), response_class(api_key))(Cursor(data, offset))


def encode_response(api_key: int, version: int, response: Any) -> bytes:
    """The body of a response in the layout of that version."""
    return encode_entity(response, _response_schema(api_key, version))


def encode_entity(entity: Any, layout: Layout = None) -> bytes:
    """Any object with the fields of `layout`, by default its own class."""
    out = bytearray()
    shape: Layout = layout or type(entity)
    writer(shape)(out, entity)
    return bytes(out)


def decode_entity(target: type[E], data: bytes | memoryview, layout: Layout = None, offset: int = 0) -> E:
    """The entity that `data` holds in the layout of `layout`, by default the target's own."""
    shape: Layout = target
    entity: E = reader(layout or shape, shape)(Cursor(data, offset))
    return entity
