"""Connections on real sockets: framing at any split, one request at a time, order, backpressure, and what closes them."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from isthmus_broker.core.connection_quota import ConnectionLimits
from isthmus_broker.edge.replication.file_range import FileRange
from isthmus_broker.edge.transport.admission import Admission
from isthmus_broker.edge.transport.budget import Budget
from isthmus_broker.edge.transport.connection import Connection, ConnectionRefused, Request
from isthmus_broker.edge.transport.limits import (
    DEFERRED_MAX,
    ORDINARY_FRAME,
    PIECE_SIZE,
    RECEIVE_BUFFER_KEPT,
    RECEIVE_BUFFER_MIN,
    SMALL_FRAME,
    STALLED_SECONDS,
    SWEEP_SECONDS,
)
from isthmus_broker.edge.transport.listener import Listener, ListenerSettings
from isthmus_client.clock import monotonic_ms
from isthmus_wire.apis import ApiKey
from isthmus_wire.headers import encode_request_header

from tests.edge.storage.logs import append, new_log

SETTINGS = ListenerSettings(frame_max=1_000_000, idle_ms=600_000, backlog=50)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def frame(correlation_id: int, body: bytes = b"") -> bytes:
    payload = encode_request_header(ApiKey.METADATA, 1, correlation_id, "client") + body
    return struct.pack(">i", len(payload)) + payload


async def read_response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    async with asyncio.timeout(60):
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        payload = await reader.readexactly(size)
    return struct.unpack_from(">i", payload)[0], payload[4:]


def echo(request: Request) -> None:
    request.reply(bytes(request.frame[request.header.size :]))


async def some(matching: Callable[[], list[Connection]]) -> list[Connection]:
    """Waits until there are some."""
    async with asyncio.timeout(60):
        while True:
            connections = matching()
            if connections:
                return connections
            await asyncio.sleep(0.001)


def serve(
    handler: Callable[[Request], None],
    test: Callable[[Listener], Awaitable[None]],
    settings: ListenerSettings = SETTINGS,
    budget: Budget | None = None,
    limits: ConnectionLimits | None = None,
) -> None:
    async def run() -> None:
        admission = Admission(limits or ConnectionLimits(), monotonic_ms)
        listener = Listener("TEST", settings, admission, budget or Budget(), handler)
        await listener.bind("127.0.0.1", 0)
        await listener.accept()
        try:
            await test(listener)
        finally:
            await listener.stop()

    asyncio.run(run())


async def connect(listener: Listener) -> Streams:
    return await asyncio.open_connection("127.0.0.1", listener.port)


@pytest.mark.parametrize("step", [1, 3, 7, 1000])
def test_frames_are_parsed_however_they_are_split(step: int) -> None:
    bodies = [b"", b"a", b"bc" * 40, b"d" * 500]

    async def test(listener: Listener) -> None:
        reader, writer = await connect(listener)
        sent = b"".join(frame(number, body) for number, body in enumerate(bodies))
        for start in range(0, len(sent), step):
            writer.write(sent[start : start + step])
            await writer.drain()
            await asyncio.sleep(0)
        assert [await read_response(reader) for _ in bodies] == list(enumerate(bodies))
        writer.close()

    serve(echo, test)


def test_responses_to_small_pipelined_requests_leave_in_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[int] = []
    flush = Connection._flush

    def counted(connection: Connection) -> None:
        if connection._gathered:
            writes.append(len(connection._gathered))
        flush(connection)

    monkeypatch.setattr(Connection, "_flush", counted)
    large = b"x" * (SMALL_FRAME + 1)

    async def test(listener: Listener) -> None:
        reader, writer = await connect(listener)
        writer.write(frame(1, large))  # the buffer now holds all that follows
        assert await read_response(reader) == (1, large)
        writes.clear()
        writer.write(b"".join(frame(number) for number in range(2, 12)))
        assert [await read_response(reader) for _ in range(10)] == [(number, b"") for number in range(2, 12)]
        assert writes == [20], "ten responses of a prefix and a body"
        writes.clear()
        writer.write(frame(12) + frame(13, large) + frame(14))
        assert [(await read_response(reader))[0] for _ in range(3)] == [12, 13, 14]
        assert writes[0] == 2, "the response before a large frame does not wait for it"
        writer.write(frame(15) + frame(16) + struct.pack(">i", -1))
        assert [(await read_response(reader))[0] for _ in range(2)] == [15, 16], "served before the malformed frame"
        assert await reader.read() == b""
        writer.close()

    serve(echo, test)


def test_socket_buffers_have_the_size_that_is_set() -> None:
    sizes: list[int] = []

    def handler(request: Request) -> None:
        assert request.connection._transport is not None
        accepted = request.connection._transport.get_extra_info("socket")
        sizes.extend(accepted.getsockopt(socket.SOL_SOCKET, option) for option in (socket.SO_SNDBUF, socket.SO_RCVBUF))
        echo(request)

    async def test(listener: Listener) -> None:
        reader, writer = await connect(listener)
        writer.write(frame(1))
        await read_response(reader)
        writer.close()

    serve(handler, test, SETTINGS._replace(send_buffer=50_000, receive_buffer=60_000))
    assert sizes == [100_000, 120_000], "Linux doubles the requested size"


def test_a_frame_larger_than_the_buffer_arrives_whole_and_the_buffer_is_given_back() -> None:
    seen = []

    def handler(request: Request) -> None:
        seen.append(request.connection)
        echo(request)

    async def test(listener: Listener) -> None:
        reader, writer = await connect(listener)
        for number, size in enumerate((RECEIVE_BUFFER_MIN - 30, RECEIVE_BUFFER_KEPT * 2, 10)):
            body = bytes([number]) * size
            writer.write(frame(number, body))
            assert await read_response(reader) == (number, body)
        (connection,) = set(seen)
        assert len(connection._buffer) > RECEIVE_BUFFER_KEPT
        connection.sweep(asyncio.get_running_loop().time() + SWEEP_SECONDS + 1)
        assert len(connection._buffer) == RECEIVE_BUFFER_MIN
        writer.write(frame(9, b"still"))
        assert await read_response(reader) == (9, b"still")
        writer.close()

    serve(handler, test)


def test_a_connection_serves_one_request_at_a_time_and_others_meanwhile() -> None:
    waiting: list[Request] = []
    order: list[int] = []

    def handler(request: Request) -> None:
        order.append(request.header.correlation_id)
        if request.header.correlation_id == 1:
            waiting.append(request)
        else:
            echo(request)

    async def test(listener: Listener) -> None:
        reader, writer = await connect(listener)
        writer.write(frame(1, b"slow") + frame(2, b"quick"))
        other_reader, other_writer = await connect(listener)
        other_writer.write(frame(5, b"other"))
        assert await read_response(other_reader) == (5, b"other")
        assert order == [1, 5]
        waiting[0].reply(b"at last")
        assert await read_response(reader) == (1, b"at last")
        assert await read_response(reader) == (2, b"quick")
        writer.close()
        other_writer.close()

    serve(handler, test)


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">i", 0),
        struct.pack(">i", -1),
        struct.pack(">i", 1_000_001),
        struct.pack(">i", 3) + b"abc",
        struct.pack(">i", 12) + struct.pack(">hhih", 3, 1, 7, 500) + b"xx",
    ],
)
def test_what_is_no_request_closes_its_connection_and_no_other(sent: bytes) -> None:
    async def test(listener: Listener) -> None:
        reader, writer = await connect(listener)
        other_reader, other_writer = await connect(listener)
        writer.write(sent)
        async with asyncio.timeout(60):
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await reader.readexactly(1)
        other_writer.write(frame(1, b"alive"))
        assert await read_response(other_reader) == (1, b"alive")
        writer.close()
        other_writer.close()

    serve(echo, test)


@pytest.mark.parametrize("fault", [ConnectionRefused("no"), RuntimeError("a bug")])
def test_a_handler_that_fails_closes_the_connection(fault: Exception) -> None:
    def handler(request: Request) -> None:
        raise fault

    async def test(listener: Listener) -> None:
        reader, writer = await connect(listener)
        writer.write(frame(1))
        async with asyncio.timeout(60):
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await reader.readexactly(1)
        writer.close()

    serve(handler, test)


def test_large_frames_share_a_budget_and_ordinary_ones_do_not_wait_for_it() -> None:
    size = ORDINARY_FRAME + 600_000
    body = bytes(size - 100)
    settings = SETTINGS._replace(frame_max=100_000_000)
    seen: list[Request] = []

    def handler(request: Request) -> None:
        seen.append(request)
        request.reply(b"")

    async def test(listener: Listener) -> None:
        loop = asyncio.get_running_loop()
        first, second, third = [await connect(listener) for _ in range(3)]
        sent = frame(1, body)
        first[1].write(sent[:-10])  # its memory stays borrowed, since its last bytes do not come
        await first[1].drain()
        second[1].write(frame(2, body))
        third[1].write(frame(3, bytes(1_000_000)))
        assert (await read_response(third[0]))[0] == 3
        assert [request.header.correlation_id for request in seen] == [3]
        first[1].write(sent[-10:])
        assert (await read_response(first[0]))[0] == 1
        seen[-1].connection.sweep(loop.time() + SWEEP_SECONDS + 1)
        assert (await read_response(second[0]))[0] == 2
        seen[-1].connection.sweep(loop.time() + SWEEP_SECONDS + 1)
        first[1].write(sent[:-10])
        await first[1].drain()
        stalled = await some(lambda: [c for c in listener.open() if c._end - c._start > ORDINARY_FRAME])
        stalled[0].sweep(loop.time() + STALLED_SECONDS + 1)
        async with asyncio.timeout(60):
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await first[0].readexactly(1)
        for _, writer in (first, second, third):
            writer.close()

    serve(handler, test, settings, Budget(1_000_000))


def test_a_waiting_request_is_abandoned_when_its_client_disconnects() -> None:
    abandoned = asyncio.Event()

    def handler(request: Request) -> None:
        request.connection.on_abandoned = abandoned.set

    async def test(listener: Listener) -> None:
        _, writer = await connect(listener)
        writer.write(frame(1))
        await writer.drain()
        writer.close()
        async with asyncio.timeout(60):
            await abandoned.wait()

    serve(handler, test)


def test_connections_beyond_the_limits_are_refused() -> None:
    async def test(listener: Listener) -> None:
        first = await connect(listener)
        first[1].write(frame(1))
        await read_response(first[0])
        second_reader, second_writer = await connect(listener)
        async with asyncio.timeout(60):
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await second_reader.readexactly(1)
        first[1].write(frame(2, b"x"))
        assert await read_response(first[0]) == (2, b"x")
        first[1].close()
        second_writer.close()

    serve(echo, test, limits=ConnectionLimits(per_address_max=1))


def test_who_comes_beyond_the_most_connections_waits_until_one_ends() -> None:
    async def test(listener: Listener) -> None:
        first = await connect(listener)
        first[1].write(frame(1))
        await read_response(first[0])
        second = await connect(listener)
        second[1].write(frame(2))
        first[1].write(frame(3))
        assert (await read_response(first[0]))[0] == 3
        assert len(listener.open()) == 1
        first[1].close()
        assert (await read_response(second[0]))[0] == 2
        second[1].close()

    serve(echo, test, limits=ConnectionLimits(connections_max=1))


def test_an_idle_connection_is_closed() -> None:
    async def test(listener: Listener) -> None:
        reader, writer = await connect(listener)
        async with asyncio.timeout(60):
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await reader.readexactly(1)
        writer.close()

    serve(echo, test, SETTINGS._replace(idle_ms=50))


def test_a_reader_that_never_drains_costs_a_piece_and_others_are_served(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=1 << 30)
    for _ in range(64):
        append(log, [b"x" * (1 << 20)])
    segment = log.active
    stuck: list[Request] = []

    def handler(request: Request) -> None:
        if request.header.correlation_id == 1:
            stuck.append(request)
            request.reply(b"head", FileRange(segment, 0, segment.size), b"tail")
        else:
            echo(request)

    async def test(listener: Listener) -> None:
        reader, writer = await connect(listener)
        writer.write(frame(1) + frame(2, b"later"))
        other_reader, other_writer = await connect(listener)
        for number in range(3, 20):
            other_writer.write(frame(number))
            assert (await read_response(other_reader))[0] == number
        transport = stuck[0].connection._transport
        assert transport is not None
        assert transport.get_write_buffer_size() <= 4 * PIECE_SIZE
        correlation_id, body = await read_response(reader)
        assert correlation_id == 1
        assert len(body) == segment.size + 8
        assert body[:4] + body[-4:] == b"headtail"
        assert body[4:-4] == segment.read(0, segment.size)
        assert await read_response(reader) == (2, b"later")
        writer.close()
        other_writer.close()

    serve(handler, test)


class Deferring:
    """Defers every request whose body begins with `d`, and responds to the others at once."""

    def __init__(self) -> None:
        self.deferred: dict[int, Request] = {}
        self.served: list[int] = []
        self.abandoned: list[int] = []
        self.changed = asyncio.Event()

    def __call__(self, request: Request) -> None:
        number = request.header.correlation_id
        self.served.append(number)
        if bytes(request.frame[request.header.size :]).startswith(b"d"):
            self.deferred[number] = request
            request.defer(lambda: self._abandon(number))
        else:
            request.reply(b"at once")
        self.changed.set()

    def _abandon(self, number: int) -> None:
        self.abandoned.append(number)
        self.changed.set()

    async def has_served(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.served) < count:
                self.changed.clear()
                await self.changed.wait()


def test_requests_behind_a_deferred_one_are_served_and_their_responses_follow() -> None:
    handler = Deferring()

    async def test(listener: Listener) -> None:
        reader, writer = await connect(listener)
        writer.write(frame(0, b"d") + frame(1) + frame(2, b"d") + frame(3))
        await handler.has_served(4)
        handler.deferred[2].reply(b"second")
        handler.deferred[0].reply(b"first")
        assert [await read_response(reader) for _ in range(4)] == [
            (0, b"first"),
            (1, b"at once"),
            (2, b"second"),
            (3, b"at once"),
        ]
        writer.write(frame(4))
        assert await read_response(reader) == (4, b"at once")
        writer.close()

    serve(handler, test)


def test_deferred_responses_are_limited_and_then_the_next_request_waits() -> None:
    handler = Deferring()

    async def test(listener: Listener) -> None:
        reader, writer = await connect(listener)
        body = b"d" * (RECEIVE_BUFFER_MIN // 4)  # the waiting request does not fit into the buffer
        for number in range(DEFERRED_MAX + 8):
            writer.write(frame(number, body))
        await handler.has_served(DEFERRED_MAX)
        await asyncio.sleep(0)
        assert len(handler.served) == DEFERRED_MAX
        for number in range(DEFERRED_MAX + 8):
            await handler.has_served(number + 1)
            handler.deferred[number].reply(b"")
            assert await read_response(reader) == (number, b"")
        writer.close()

    serve(handler, test)


def test_deferred_requests_are_abandoned_when_their_client_has_disconnected() -> None:
    handler = Deferring()

    async def test(listener: Listener) -> None:
        _, writer = await connect(listener)
        writer.write(frame(0, b"d") + frame(1) + frame(2, b"d"))
        await handler.has_served(3)
        writer.transport.abort()
        async with asyncio.timeout(60):
            while handler.abandoned != [0, 2]:
                handler.changed.clear()
                await handler.changed.wait()
        handler.deferred[0].reply(b"too late")

    serve(handler, test)
