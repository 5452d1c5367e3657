"""Request and response headers, all versions, and the length prefix of a frame.

A frame is a 32-bit length and that many bytes. A request begins with API key, version, correlation id and client id; from
the API's first flexible version on, tagged fields follow. A response begins with the correlation id and, when flexible, tagged fields,
except that ApiVersions responses always have the old header, so that a client can read them before it knows the broker's version.
"""

import struct
from typing import Final, NamedTuple

from isthmus_wire.apis import FLEXIBLE_SINCE, ApiKey
from isthmus_wire.codec import Cursor, skip_tagged_fields
from isthmus_wire.errors import DecodeError

FRAME_LENGTH: Final = struct.Struct(">i")
_FIXED: Final = struct.Struct(">hhih")
_NEVER: Final = 2**15
_CORRELATION: Final = struct.Struct(">i")
_LENGTH_AND_CORRELATION: Final = struct.Struct(">ii")


class RequestHeader(NamedTuple):
    """What every request begins with; `size` is where its body starts."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    size: int


def is_flexible(api_key: int, api_version: int) -> bool:
    """Whether messages of this API and version carry tagged fields and compact lengths."""
    return api_version >= FLEXIBLE_SINCE[api_key]


def decode_request_header(frame: memoryview | bytes) -> RequestHeader:
    """Parse the header of a request; after an unknown key, the header ends with the client id."""
    if len(frame) < _FIXED.size:
        raise DecodeError(f"a request of {len(frame)} bytes is shorter than its header")
    api_key, api_version, correlation_id, length = _FIXED.unpack_from(frame)
    end = _FIXED.size + max(length, 0)
    if end > len(frame):
        raise DecodeError(f"the client id claims {length} bytes in a frame of {len(frame)}")
    client_id = None if length < 0 else str(frame[_FIXED.size : end], "utf-8", "replace")
    if api_version >= FLEXIBLE_SINCE.get(api_key, _NEVER):
        cursor = Cursor(frame, end)
        skip_tagged_fields(cursor)
        end = cursor.position
    return RequestHeader(api_key, api_version, correlation_id, client_id, end)


def encode_request_header(api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    """The header that a client puts before a request's body."""
    name = b"" if client_id is None else client_id.encode()
    fixed = _FIXED.pack(api_key, api_version, correlation_id, -1 if client_id is None else len(name))
    return fixed + name + (b"\0" if is_flexible(api_key, api_version) else b"")


def response_header_is_flexible(api_key: int, api_version: int) -> bool:
    """Whether the response's header ends with tagged fields."""
    return api_key != ApiKey.API_VERSIONS and is_flexible(api_key, api_version)


def encode_response_prefix(api_key: int, api_version: int, correlation_id: int, body_size: int) -> bytes:
    """Frame length and response header for a body of that many bytes."""
    if response_header_is_flexible(api_key, api_version):
        return _LENGTH_AND_CORRELATION.pack(body_size + 5, correlation_id) + b"\0"
    return _LENGTH_AND_CORRELATION.pack(body_size + 4, correlation_id)


def decode_response_header(frame: memoryview | bytes, api_key: int, api_version: int) -> tuple[int, int]:
    """Correlation id, and where the body starts."""
    if len(frame) < _CORRELATION.size:
        raise DecodeError(f"a response of {len(frame)} bytes is shorter than its header")
    (correlation_id,) = _CORRELATION.unpack_from(frame)
    cursor = Cursor(frame, _CORRELATION.size)
    if response_header_is_flexible(api_key, api_version):
        skip_tagged_fields(cursor)
    return correlation_id, cursor.position
