"""One client's connection: bytes to requests, responses to bytes, in order.

A connection serves one request at a time, as in Kafka: the next frame is parsed when the response to the last has been passed to the
socket. The frame is a view of the receive buffer and valid only while its handler runs. A request that has done its work and only waits for
others, as a produce for its replicas, may defer its response: later requests are served meanwhile, and all responses are sent in order.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast

from isthmus_wire.errors import DecodeError
from isthmus_wire.headers import FRAME_LENGTH, RequestHeader, decode_request_header, encode_response_prefix
from isthmus_wire.messages import decode_request, encode_response

from isthmus_broker.core.security.principal import ANONYMOUS
from isthmus_broker.edge.transport.budget import Budget
from isthmus_broker.edge.transport.chunks import DeferredPart, PartUnavailable
from isthmus_broker.edge.transport.limits import (
    BUFFER_STEP,
    DEFERRED_MAX,
    GATHERED_MAX,
    ORDINARY_FRAME,
    PIECE_SIZE,
    RECEIVE_BUFFER_KEPT,
    RECEIVE_BUFFER_MIN,
    SMALL_FRAME,
    STALLED_SECONDS,
    SWEEP_SECONDS,
    WRITE_HIGH_WATER,
)

logger = logging.getLogger(__name__)

Chunk = bytes | bytearray | memoryview
_LENGTH_SIZE: Final = FRAME_LENGTH.size


class ConnectionRefused(Exception):
    """The peer sent malformed data; the connection is closed with one log line."""


class Owner(Protocol):
    """The listener to which a connection belongs."""

    listener_name: str
    frame_max: int
    budget: Budget

    def opened(self, connection: "Connection") -> bool:
        """Whether there is room for it."""
        ...

    def closed(self, connection: "Connection") -> None:
        """Stop counting it."""
        ...

    def handle(self, request: "Request") -> None:
        """Serve a request: reply at once or later; raises ConnectionRefused or DecodeError."""
        ...


class Request:
    """One request, until its response is sent."""

    __slots__ = ("_deferred", "connection", "frame", "header", "on_response", "principal")

    def __init__(self, connection: "Connection", header: RequestHeader, frame: memoryview) -> None:
        self.connection = connection
        self.header = header
        self.frame = frame
        self.principal = connection.principal
        self.on_response: Callable[[], None] | None = None
        """Called when the response has been passed to the connection, for middleware that measures."""
        self._deferred: _Deferred | None = None

    def defer(self, on_abandoned: Callable[[], None]) -> None:
        """Respond later, and let the next requests be served; `on_abandoned` is called if the client disconnects before."""
        self._deferred = self.connection.defer(on_abandoned)

    def reply(self, *chunks: Chunk | DeferredPart) -> None:
        """Send the chunks as the response's body."""
        size = sum(map(len, chunks))
        header = self.header
        prefix = encode_response_prefix(header.api_key, header.api_version, header.correlation_id, size)
        if self._deferred is None:
            self.connection.send(prefix, chunks)
        else:
            self.connection.send_deferred(self._deferred, (prefix, *chunks))
        if self.on_response is not None:
            self.on_response()

    def decode(self) -> Any:
        """The body as the highest version's class; raises DecodeError."""
        return decode_request(self.header.api_key, self.header.api_version, bytes(self.frame), self.header.size)

    def respond(self, response: Any) -> None:
        """Send a response of the highest version's class, in the version of the request."""
        self.reply(encode_response(self.header.api_key, self.header.api_version, response))

    def finish(self) -> None:
        """Complete a request that has no response."""
        self.connection.send(b"", ())
        if self.on_response is not None:
            self.on_response()


class _Deferred:
    """A pending response in its place in the order; without chunks it is not ready."""

    __slots__ = ("chunks", "on_abandoned")

    def __init__(self, on_abandoned: Callable[[], None]) -> None:
        self.on_abandoned = on_abandoned
        self.chunks: Sequence[Chunk | DeferredPart] | None = None


class Connection(asyncio.BufferedProtocol):
    """The asyncio protocol of one socket."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray(RECEIVE_BUFFER_MIN)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self._serving = False  # a request is being served: neither its response was sent nor was it deferred
        self._draining = False  # inside the loop over frames
        self._reading_paused = False
        self._writing_paused = False
        self._borrowed = 0
        self._unsent: deque[DeferredPart | Chunk] = deque()
        self._gathered: list[Chunk] = []  # of responses to pipelined requests, for one write
        self._gathered_size = 0
        self._owed: deque[_Deferred] = deque()  # deferred responses, and those that wait behind one
        self.on_abandoned: Callable[[], None] | None = None
        """Called when the client disconnects while its request still waits, so that nothing is retained for it."""
        self.active_at = 0.0
        self.peer_host = "unknown"
        self.peer = "unknown"
        self.software: tuple[str, str] | None = None
        self.principal = ANONYMOUS

    @property
    def listener_name(self) -> str:
        """The listener that accepted it; it determines the advertised addresses in responses."""
        return self._owner.listener_name

    # -- asyncio's side ------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(
            asyncio.Transport, transport
        )  # uvloop's transport has the methods, but not the class
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.peer_host = str(peer[0])
            self.peer = f"{peer[0]}:{peer[1]}"
        self.active_at = asyncio.get_running_loop().time()
        transport.set_write_buffer_limits(high=WRITE_HIGH_WATER)
        if not self._owner.opened(self):
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._unsent.clear()
        self._gathered.clear()
        if self.on_abandoned is not None:
            self.on_abandoned()
            self.on_abandoned = None
        for deferred in self._owed:
            deferred.on_abandoned()
        self._owed.clear()
        self._return_loan()
        self._owner.closed(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        assert self._end < len(self._buffer), "reading is paused while there is no room"
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        self.active_at = asyncio.get_running_loop().time()
        if not self._must_wait:
            self._serve_frames()
        if self._end == len(self._buffer):
            self._make_room()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        self.active_at = asyncio.get_running_loop().time()
        self._send_more()
        if not self._must_wait:
            self._serve_frames()

    # -- requests ------------------------------------------------------------------------------------------------------------

    def _serve_frames(self) -> None:
        """Serve the complete frames in the buffer until one must wait."""
        if self._draining:
            return
        self._draining = True
        try:
            while not self._must_wait and self._transport is not None:
                frame = self._next_frame()
                if frame is None:
                    break
                self._serve(frame)
        except (ConnectionRefused, DecodeError) as refusal:
            self.close(f"malformed request: {refusal}")
        except Exception:
            logger.exception("unexpected error in a request from %s", self.peer)
            self.close("of an internal error")
        finally:
            self._draining = False
        self._flush()
        if not self._must_wait and self._reading_paused:
            if self._end == len(self._buffer):
                self._make_room()
            if self._end < len(self._buffer):
                self._resume_reading()

    @property
    def _must_wait(self) -> bool:
        """Whether the next frame must wait."""
        return self._serving or bool(self._unsent) or self._writing_paused or len(self._owed) >= DEFERRED_MAX

    def _next_frame(self) -> memoryview | None:
        available = self._end - self._start
        if available < _LENGTH_SIZE:
            return None
        (size,) = FRAME_LENGTH.unpack_from(self._buffer, self._start)
        if size <= 0 or size > self._owner.frame_max:
            raise ConnectionRefused(f"a frame of {size} bytes exceeds the maximum of {self._owner.frame_max}")
        if available < _LENGTH_SIZE + size:
            return None
        begin = self._start + _LENGTH_SIZE
        self._start = begin + size
        return self._view[begin : self._start]

    def _serve(self, frame: memoryview) -> None:
        self._serving = True
        if len(frame) > SMALL_FRAME:
            self._flush()
        self._owner.handle(Request(self, decode_request_header(frame), frame))
        if self._start == self._end:
            self._start = self._end = 0

    def _make_room(self) -> None:
        """The buffer is full: move the remaining bytes to its front, or grow to the frame that is arriving, or wait."""
        left = self._end - self._start
        if self._start > 0:
            self._view[:left] = self._view[self._start : self._end]
            self._start, self._end = 0, left
        elif self._must_wait:
            self._pause_reading()  # the rest waits in the kernel until the response is sent
        else:
            (size,) = FRAME_LENGTH.unpack_from(self._buffer)
            self._grow(_LENGTH_SIZE + size)

    def _grow(self, frame_size: int) -> None:
        capacity = -(-frame_size // BUFFER_STEP) * BUFFER_STEP
        excess = max(0, capacity - ORDINARY_FRAME)
        if self._borrowed >= excess or self._owner.budget.take(excess - self._borrowed):
            self._borrowed = max(self._borrowed, excess)
            self._replace_buffer(capacity)
            self._resume_reading()
        else:
            self._pause_reading()
            self._owner.budget.wait(self._retry_growth)

    def _retry_growth(self) -> None:
        if self._transport is not None and self._end == len(self._buffer):
            self._make_room()

    def _return_loan(self) -> None:
        borrowed, self._borrowed = self._borrowed, 0
        self._owner.budget.give_back(borrowed)

    def _replace_buffer(self, capacity: int) -> None:
        left = self._end - self._start
        fresh = bytearray(capacity)
        fresh[:left] = self._view[self._start : self._end]
        self._buffer, self._view = fresh, memoryview(fresh)
        self._start, self._end = 0, left

    def sweep(self, now: float) -> None:
        """Release a large buffer that is not used, or close a connection whose large frame does not arrive."""
        quiet = now - self.active_at
        if self._start == self._end:
            if quiet > SWEEP_SECONDS and len(self._buffer) > RECEIVE_BUFFER_KEPT:
                self._replace_buffer(RECEIVE_BUFFER_MIN)
                self._return_loan()
        elif self._borrowed and quiet > STALLED_SECONDS:
            self.close(f"a frame of {len(self._buffer)} bytes did not arrive within {STALLED_SECONDS:.0f} s")

    def _pause_reading(self) -> None:
        if self._transport is not None and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._transport is not None and self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()

    # -- responses -----------------------------------------------------------------------------------------------------------

    def send(self, prefix: bytes, chunks: Sequence[Chunk | DeferredPart]) -> None:
        """Send the response to the current request, and continue with the next frame."""
        if self._transport is None:
            return
        assert self._serving, "a request has exactly one response"
        self._serving = False
        self.on_abandoned = None
        if prefix and self._owed:
            behind = _Deferred(_nobody_waits)
            behind.chunks = (prefix, *chunks)
            self._owed.append(behind)
        elif prefix:
            self._unsent.append(prefix)
            self._unsent.extend(chunks)
            self._send_more()
        self._go_on()

    def defer(self, on_abandoned: Callable[[], None]) -> _Deferred:
        """Respond to the current request later, in its turn; the next may be served."""
        assert self._serving, "only the current request may be deferred"
        self._serving = False
        deferred = _Deferred(on_abandoned)
        self._owed.append(deferred)
        self._go_on()
        return deferred

    def send_deferred(self, deferred: _Deferred, chunks: Sequence[Chunk | DeferredPart]) -> None:
        """Record a deferred response. It is sent when all earlier ones have been sent."""
        if self._transport is None:
            return
        deferred.chunks = chunks
        while self._owed and (ready := self._owed[0].chunks) is not None:
            self._owed.popleft()
            self._unsent.extend(ready)
        self._send_more()
        self._go_on()

    def _go_on(self) -> None:
        if not self._must_wait and not self._draining:
            self._serve_frames()

    def _send_more(self) -> None:
        """Pass chunks to the socket while it has room; while frames are served, small ones are gathered for one write."""
        transport = self._transport
        while self._unsent and transport is not None and not self._writing_paused:
            chunk = self._unsent[0]
            if not isinstance(chunk, DeferredPart):
                self._gathered.append(chunk)
                self._gathered_size += len(chunk)
                self._unsent.popleft()
                continue
            piece = self._read_piece(chunk)
            if piece is None:
                return
            if not len(chunk):
                self._unsent.popleft()
            transport.writelines([*self._take_gathered(), piece])
        if not self._draining or self._gathered_size >= GATHERED_MAX:
            self._flush()

    def _flush(self) -> None:
        if self._gathered and self._transport is not None:
            self._transport.write(b"".join(self._take_gathered()))

    def _take_gathered(self) -> list[Chunk]:
        gathered, self._gathered, self._gathered_size = self._gathered, [], 0
        return gathered

    def _read_piece(self, chunk: DeferredPart) -> bytes | None:
        try:
            piece = chunk.take(PIECE_SIZE)
        except PartUnavailable as error:
            self.close(f"part of a response could not be read: {error}")
            return None
        if not piece:
            self.close("part of a response could not be read: the file is shorter than expected")
            return None
        return piece

    def close(self, reason: str) -> None:
        """Close the connection, with one log line that gives the reason."""
        if self._transport is not None:
            logger.info("closing the connection from %s: %s", self.peer, reason)
            self._flush()
            self._transport.abort()
            self._transport = None


def _nobody_waits() -> None:
    """Ignore the disconnection: the response only waits for its turn."""
