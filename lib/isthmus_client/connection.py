"""One socket to one broker: pipelined requests, matched to their responses by correlation id.

A broker responds to the requests of a connection in order, so a request that waits (a fetch for new records) delays those behind it: send
such requests over a connection of their own (the pool's lanes).
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, Self

from isthmus_model.endpoints import Endpoint
from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import DecodeError, ErrorCode
from isthmus_wire.headers import FRAME_LENGTH, decode_response_header, encode_request_header
from isthmus_wire.messages import decode_response, encode_request

from isthmus_client.errors import ConnectionFailed, ProtocolBroken, RequestTimedOut, check
from isthmus_client.frames import FrameReader
from isthmus_client.limits import CONNECT_SECONDS, IN_FLIGHT_MAX, REQUEST_SECONDS, WRITE_HIGH_WATER
from isthmus_client.transports import PLAINTEXT, Transports
from isthmus_client.versions import NEWEST, Versions

Chunk = bytes | bytearray | memoryview

SOFTWARE_NAME: Final = "isthmus"
SOFTWARE_VERSION: Final = "1"
_decode_cached: Final = lru_cache(maxsize=64)(decode_response)
"""For ApiVersions: the response is the same for each connection to a broker."""


class _Waiting:
    """A request in flight."""

    __slots__ = ("api", "listener", "response", "timer", "version")

    def __init__(self, api: ApiKey, version: int, response: asyncio.Future[memoryview]) -> None:
        self.api = api
        self.version = version
        self.response = response
        self.timer: asyncio.TimerHandle | None = None
        self.listener: asyncio.TimerHandle | None = None

    def stop_timers(self) -> None:
        """Cancel the timers: the response has come, or never will."""
        for timer in (self.timer, self.listener):
            if timer is not None:
                timer.cancel()
        self.timer = self.listener = None  # a timer refers to its request


class _Protocol(asyncio.BufferedProtocol):
    """The asyncio protocol of a connection."""

    def __init__(self, owner: Connection) -> None:
        self._owner = owner
        self._frames = FrameReader()
        self._loop = asyncio.get_running_loop()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.room()

    def buffer_updated(self, nbytes: int) -> None:
        self._owner.received_at = self._loop.time()
        try:
            for frame in self._frames.received(nbytes):
                self._owner.complete(frame)
        except (ProtocolBroken, DecodeError) as error:
            self._owner.fail(ProtocolBroken(f"broker {self._owner.name}: {error}"))

    def pause_writing(self) -> None:
        self._owner.writable.clear()

    def resume_writing(self) -> None:
        self._owner.writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.fail(
            ConnectionFailed(f"broker {self._owner.name} closed the connection{f': {exc}' if exc else ''}")
        )


class Connection:
    """A connection, made by `open`; use `request`, or `exchange` with a codec of the caller's own."""

    def __init__(
        self,
        endpoint: Endpoint,
        client_id: str,
        response_seconds: float = REQUEST_SECONDS,
        transports: Transports = PLAINTEXT,
    ) -> None:
        self.name = f"{endpoint.host}:{endpoint.port}"
        self.versions = Versions(self.name, ())
        self.features: Any = None  # the ApiVersionsResponse
        self.writable = asyncio.Event()
        self.writable.set()
        self.endpoint = endpoint
        self._transports = transports
        self.received_at = 0.0  # when the last bytes arrived, by the loop's clock
        self._client_id = client_id
        self._response_seconds = response_seconds
        self._connect_seconds = min(CONNECT_SECONDS, response_seconds)
        self._transport: asyncio.Transport | None = None
        self._correlation = itertools.count()
        self._waiting: dict[int, _Waiting] = {}
        self._slots = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._failure: Exception | None = None
        self.timed_out_at: float | None = None  # by the loop's clock

    @classmethod
    async def open(
        cls,
        endpoint: Endpoint,
        client_id: str,
        response_seconds: float = REQUEST_SECONDS,
        transports: Transports = PLAINTEXT,
    ) -> Self:
        """Connect and negotiate versions; raises ConnectionFailed, ProtocolBroken."""
        self = cls(endpoint, client_id, response_seconds, transports)
        await self.connect()
        try:
            await self._learn_versions()
        except BaseException:
            self.close()
            raise
        return self

    async def connect(self) -> None:
        """Open the socket; raises ConnectionFailed."""
        try:
            async with asyncio.timeout(self._connect_seconds):
                transport = await self._transports.connect(self.endpoint, lambda: _Protocol(self))
        except TimeoutError as error:
            raise ConnectionFailed(f"cannot connect to {self.name} within {self._connect_seconds:.0f} s") from error
        except OSError as error:
            raise ConnectionFailed(f"cannot connect to {self.name}: {_reason(error)}") from error
        self._transport = transport
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER)

    @property
    def closed(self) -> bool:
        """Whether the connection has failed or was closed."""
        return self._failure is not None

    def close(self) -> None:
        """Close the connection; requests in flight fail."""
        self.fail(ConnectionFailed(f"the connection to {self.name} was closed by this side"))

    async def request(
        self,
        api: ApiKey,
        request: Any,
        *,
        seconds: float | None = None,
        at_least: int = 0,
        at_most: int = NEWEST,
    ) -> Any:
        """Send a request of the highest version's class and return the response in the highest version's class.

        The timeout is `seconds`, or this connection's `response_seconds`.
        """
        version = self.versions.choose(api, at_least=at_least, at_most=at_most)
        body = (encode_request(api, version, request),)
        wait = self._response_seconds if seconds is None else seconds
        frame, start = await self.exchange(api, version, body, seconds=wait)
        return self._decoded(api, version, frame[start:])

    async def exchange(
        self,
        api: ApiKey,
        version: int,
        body: Sequence[Chunk],
        *,
        seconds: float = REQUEST_SECONDS,
        silence: float | None = None,
    ) -> tuple[memoryview, int]:
        """Send an encoded body; returns the response's frame and where its body starts.

        The timeout is `seconds`; with `silence`, the connection also fails after that many seconds without any byte from the broker.
        """
        async with self._slots:
            await self.writable.wait()
            waiting = self._send(api, version, body, seconds)
            if silence is not None:
                self._listen(waiting, silence)
            frame = await waiting.response
        _, start = decode_response_header(frame, api, version)
        return frame, start

    async def send_only(self, api: ApiKey, version: int, body: Sequence[Chunk]) -> None:
        """Send a request that has no response: a produce request with acks=0."""
        await self.writable.wait()
        self._write(api, version, next(self._correlation), body)

    def _send(self, api: ApiKey, version: int, body: Sequence[Chunk], seconds: float) -> _Waiting:
        loop = asyncio.get_running_loop()
        correlation = next(self._correlation) & 0x7FFFFFFF
        self._write(api, version, correlation, body)
        waiting = _Waiting(api, version, loop.create_future())
        waiting.timer = loop.call_later(seconds, self._timed_out, api, seconds)
        self._waiting[correlation] = waiting
        return waiting

    def _listen(self, waiting: _Waiting, silence: float) -> None:
        """Fail the connection after `silence` seconds without any byte from the broker."""
        loop = asyncio.get_running_loop()
        waiting.listener = loop.call_later(silence, self._check_silence, waiting, loop.time(), silence)

    # Not a closure: one that refers to itself, and the response's frame, would live until the next garbage collection.
    def _check_silence(self, waiting: _Waiting, sent_at: float, silence: float) -> None:
        if waiting.response.done():
            return
        loop = asyncio.get_running_loop()
        quiet = loop.time() - max(self.received_at, sent_at)
        if quiet >= silence:
            self._timed_out(waiting.api, silence)
        else:
            waiting.listener = loop.call_later(silence - quiet, self._check_silence, waiting, sent_at, silence)

    def _write(self, api: ApiKey, version: int, correlation: int, body: Sequence[Chunk]) -> None:
        if self._failure is not None or self._transport is None:
            raise ConnectionFailed(f"the connection to {self.name} is closed") from self._failure
        header = encode_request_header(api, version, correlation, self._client_id)
        size = len(header) + sum(map(len, body))
        self._transport.writelines([FRAME_LENGTH.pack(size) + header, *body])

    def complete(self, frame: memoryview) -> None:
        """Match a response to its request."""
        (correlation,) = FRAME_LENGTH.unpack_from(frame)
        waiting = self._waiting.pop(correlation, None)
        if waiting is None:
            raise ProtocolBroken(f"a response with the unknown correlation id {correlation}")
        waiting.stop_timers()
        if not waiting.response.done():  # its caller may have been cancelled
            waiting.response.set_result(frame)

    def _timed_out(self, api: ApiKey, seconds: float) -> None:
        self.timed_out_at = asyncio.get_running_loop().time()
        self.fail(RequestTimedOut(f"broker {self.name} did not respond to {api.name} within {seconds:.0f} s"))

    def fail(self, error: Exception) -> None:
        """End the connection; every request on it fails with `error`."""
        if self._failure is not None:
            return
        self._failure = error
        self.writable.set()
        if self._transport is not None:
            self._transport.abort()
        waiting, self._waiting = self._waiting, {}
        for one in waiting.values():
            one.stop_timers()
            if not one.response.done():
                one.response.set_exception(error)

    async def _learn_versions(self) -> None:
        """Negotiate API versions: a broker without the newest ApiVersions responds in version 0 (KIP-511).

        An unreachable broker may seem to accept connections, so the timeout is that of connecting.
        """
        from kio.schema.api_versions.v4.request import ApiVersionsRequest

        request = entity(
            ApiVersionsRequest, client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
        )
        api, version = ApiKey.API_VERSIONS, 4
        frame, start = await self.exchange(
            api, version, (encode_request(api, version, request),), seconds=self._connect_seconds
        )
        if frame[start : start + 2] == ErrorCode.unsupported_version.value.to_bytes(2, "big"):
            version = 0
            frame, start = await self.exchange(
                api, version, (encode_request(api, version, request),), seconds=self._connect_seconds
            )
        response = self._decoded(api, version, bytes(frame[start:]), _decode_cached)
        check(response.error_code, f"broker {self.name}")
        self.features = response
        self.versions = Versions(self.name, ((k.api_key, k.min_version, k.max_version) for k in response.api_keys))

    def _decoded(
        self, api: ApiKey, version: int, body: bytes | memoryview, decode: Callable[..., Any] = decode_response
    ) -> Any:
        try:
            return decode(api, version, body)
        except DecodeError as error:
            broken = ProtocolBroken(f"broker {self.name} sent a malformed response to {api.name}: {error}")
            self.fail(broken)
            raise broken from error


def _reason(error: OSError) -> str:
    """The error without the address, which asyncio's text repeats; name resolution errors have their own text."""
    is_system = error.errno is not None and not isinstance(error, socket.gaierror)
    return os.strerror(error.errno) if is_system and error.errno else error.strerror or str(error)
