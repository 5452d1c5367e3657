"""A broker with scripted responses, over a loopback socket."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from isthmus_model.endpoints import Endpoint
from isthmus_wire.apis import KAFKA_VERSIONS, ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.headers import FRAME_LENGTH, RequestHeader, decode_request_header, encode_response_prefix
from isthmus_wire.messages import NO_THROTTLE, encode_response
from kio.schema.api_versions.v4.response import ApiVersion, ApiVersionsResponse

Answer = Callable[[RequestHeader, bytes], bytes | None]
"""The response's body; None closes the connection."""


class FakeBroker:
    """Knows ApiVersions up to `newest_api_versions`; `respond` gives the other responses."""

    def __init__(self, respond: Answer, newest_api_versions: int = 4) -> None:
        self.asked: list[RequestHeader] = []
        self.connections = 0
        self.address = Endpoint("", 0)
        self._answer = respond
        self._newest = newest_api_versions

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                (size,) = FRAME_LENGTH.unpack(await reader.readexactly(FRAME_LENGTH.size))
                frame = await reader.readexactly(size)
                header = decode_request_header(frame)
                self.asked.append(header)
                body = self._versions(header) if header.api_key == ApiKey.API_VERSIONS else self._answer(header, frame)
                if body is None:
                    return
                prefix = encode_response_prefix(header.api_key, header.api_version, header.correlation_id, len(body))
                writer.write(prefix + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    def _versions(self, header: RequestHeader) -> bytes:
        known = header.api_version <= self._newest
        response = entity(
            ApiVersionsResponse,
            error_code=ErrorCode.none if known else ErrorCode.unsupported_version,
            api_keys=tuple(
                entity(ApiVersion, api_key=int(key), min_version=low, max_version=high)
                for key, (low, high) in KAFKA_VERSIONS.items()
            ),
            throttle_time=NO_THROTTLE,
            supported_features=(),
            finalized_features=(),
        )
        return encode_response(ApiKey.API_VERSIONS, header.api_version if known else 0, response)


@asynccontextmanager
async def serving(broker: FakeBroker) -> AsyncIterator[FakeBroker]:
    """The broker listens while the block runs."""
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    broker.address = Endpoint(*server.sockets[0].getsockname()[:2])
    try:
        yield broker
    finally:
        server.close()
        await server.wait_closed()
