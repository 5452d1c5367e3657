"""The emulator over real sockets: bytes cross unchanged and late, cuts hold them back, closes cross too."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import uvloop
from isthmus_topology.description import Link, Topology, Weather
from isthmus_topology.plan import Relay
from isthmus_topology.wan.relay import IN_FLIGHT_MAX
from isthmus_topology.wan.server import Wan

from tests.ports import free_ports

DEADLINE = 20.0
CLOCK_STEPS = 0.005
"""The event loop counts whole milliseconds, at each hop."""


class World:
    """An echo server in the east, a relay to it for the west, and what the server has received."""

    def __init__(self, wan: Wan, port: int) -> None:
        self.wan = wan
        self.port = port
        self.received = bytearray()
        self.served: list[asyncio.StreamWriter] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.closed = asyncio.Event()

    async def echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.served.append(writer)
        task: asyncio.Task[None] | None = asyncio.current_task()
        assert task is not None
        self.tasks.append(task)
        try:
            while data := await reader.read(1 << 16):
                self.received += data
                writer.write(data)
                await writer.drain()
        except ConnectionResetError:
            pass
        finally:
            writer.close()
            self.closed.set()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def has_carried(self, size: int) -> None:
        """Waits until more than that has been sent to the east, and until nothing more follows at once."""
        before = -1
        while carried(self) <= size or carried(self) != before:
            before = carried(self)
            for _ in range(1_000):
                await asyncio.sleep(0)

    def send(self, op: str, **more: object) -> None:
        self.wan.handle({"op": op, "from": "west", "to": "east", **more})


@asynccontextmanager
async def world(**weather: float) -> AsyncIterator[World]:
    topology = Topology(("west", "east"), (Link(("west", "east"), Weather(**weather)),), ())
    wan = Wan(topology, seed=1)
    made = World(wan, *free_ports(1))
    server = await asyncio.start_server(made.echo, "127.0.0.1", 0)
    await wan.open([Relay("west", "east", made.port, server.sockets[0].getsockname()[1])])
    try:
        yield made
    finally:
        wan.close()
        server.close()
        for writer in made.served:
            writer.transport.abort()
        await asyncio.gather(*made.tasks)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE):
            await test()

    uvloop.run(bounded())


def test_bytes_cross_unchanged_in_both_directions() -> None:
    async def test() -> None:
        async with world(latency_ms=2, jitter_ms=2, loss=0.001, bandwidth_mbit=2_000) as east:
            reader, writer = await east.connect()
            data = bytes(range(256)) * 40_000
            writer.write(data)
            assert await reader.readexactly(len(data)) == data
            states = {(s["from"], s["to"]): s for s in east.wan.handle({"op": "state"})["directions"]}
            assert states["west", "east"]["carried"] == states["east", "west"]["carried"] == len(data)
            writer.close()

    run(test)


def test_a_round_trip_takes_twice_the_latency_and_a_handshake_one_more() -> None:
    async def test() -> None:
        async with world(latency_ms=50) as east:
            loop = asyncio.get_running_loop()
            reader, writer = await east.connect()
            started = loop.time()
            writer.write(b"x")
            await reader.readexactly(1)
            assert loop.time() - started >= 0.2 - CLOCK_STEPS
            started = loop.time()
            writer.write(b"x")
            await reader.readexactly(1)
            assert loop.time() - started >= 0.1 - CLOCK_STEPS
            writer.close()

    run(test)


def test_a_one_way_cut_lets_the_other_way_through_and_loses_nothing() -> None:
    async def test() -> None:
        async with world() as east:
            reader, writer = await east.connect()
            writer.write(b"before")
            assert await reader.readexactly(6) == b"before"
            east.send("cut", one_way=True)
            writer.write(b"during")
            east.served[0].write(b"news")
            assert await reader.readexactly(4) == b"news"
            assert east.received == b"before"
            east.send("heal", one_way=True)
            assert await reader.readexactly(6) == b"during"
            writer.close()

    run(test)


def test_a_connection_begun_during_a_cut_reaches_the_other_side_after_it() -> None:
    async def test() -> None:
        async with world() as east:
            east.send("cut")
            reader, writer = await east.connect()
            writer.write(b"patience")
            await writer.drain()
            assert not east.served
            east.send("heal")
            assert await reader.readexactly(8) == b"patience"
            writer.close()

    run(test)


def test_a_close_crosses_after_the_data_before_it() -> None:
    async def test() -> None:
        async with world(latency_ms=5) as east:
            _, writer = await east.connect()
            writer.write(b"last words")
            writer.close()
            await east.closed.wait()
            assert east.received == b"last words"

    run(test)


def test_a_reset_breaks_both_sides_and_new_connections_wait() -> None:
    async def test() -> None:
        async with world() as east:
            reader, writer = await east.connect()
            writer.write(b"x")
            await reader.readexactly(1)
            east.send("cut", reset=True)
            await east.closed.wait()
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()

    run(test)


def test_a_closed_port_on_the_other_side_is_a_reset() -> None:
    async def test() -> None:
        topology = Topology(("west", "east"), (), ())
        wan, (port, target) = Wan(topology), free_ports(2)
        await wan.open([Relay("west", "east", port, target)])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        wan.close()

    run(test)


def test_what_a_cut_holds_back_is_bounded() -> None:
    async def test() -> None:
        async with world() as east:
            reader, writer = await east.connect()
            east.send("cut", one_way=True)
            data = bytes(4 * IN_FLIGHT_MAX)
            writer.write(data)
            await east.has_carried(IN_FLIGHT_MAX)
            assert carried(east) <= IN_FLIGHT_MAX + (1 << 20)
            east.send("heal")
            assert await reader.readexactly(len(data)) == data
            writer.close()

    run(test)


def carried(east: World) -> int:
    states = east.wan.handle({"op": "state"})["directions"]
    return int(next(state["carried"] for state in states if state["from"] == "west"))
