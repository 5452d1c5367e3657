"""The process that relays all traffic between regions, and its control socket.

Requests and responses are lines of JSON: {"op": "state"}, {"op": "set", "between": [a, b], "weather": {...}},
{"op": "cut", "from": a, "to": b, "reset": false, "one_way": false}, {"op": "heal"} or with from and to.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import permutations
from pathlib import Path
from typing import Any, Final

from isthmus_topology.description import Topology, Weather, read_weather
from isthmus_topology.plan import Relay
from isthmus_topology.reading import TopologyRefused
from isthmus_topology.wan.direction import Direction
from isthmus_topology.wan.relay import Crossing, Relayed

_BACKLOG: Final = 512
_REQUEST_MAX: Final = 64 << 10


class Wan:
    """Every direction between two regions, and the relays over them."""

    def __init__(self, topology: Topology, seed: int | None = None) -> None:
        draws = random.Random(seed)
        self._regions = topology.regions
        self._directions = {pair: Direction(Weather(), draws) for pair in permutations(topology.regions, 2)}
        for link in topology.links:
            for pair in (link.between, link.between[::-1]):
                self._directions[pair].weather = link.weather
        self._crossings = {
            (near, far): Crossing(there, self._directions[far, near]) for (near, far), there in self._directions.items()
        }
        self._servers: list[asyncio.Server] = []

    async def open(self, relays: Sequence[Relay]) -> None:
        """Listen; raises OSError if a port is in use."""
        loop = asyncio.get_running_loop()
        for relay in relays:
            crossing = self._crossings[relay.near, relay.far]

            def accept(crossing: Crossing = crossing, relay: Relay = relay) -> asyncio.Protocol:
                return Relayed(crossing, relay.host, relay.target).near

            self._servers.append(await loop.create_server(accept, relay.listen, relay.port, backlog=_BACKLOG))

    def close(self) -> None:
        for server in self._servers:
            server.close()
        for crossing in self._crossings.values():
            for relayed in list(crossing.relayed):
                relayed.reset()

    # -- requests -----------------------------------------------------------------------------------------------------------

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """Handle a request of the control socket; raises TopologyRefused."""
        match request.get("op"):
            case "state":
                pass
            case "set":
                self._set(request)
            case "cut":
                for pair in self._pairs(request):
                    self._cut(*pair, reset=bool(request.get("reset")))
            case "heal":
                for pair in self._pairs(request) if "from" in request else self._directions:
                    self._heal(*pair)
            case unknown:
                raise TopologyRefused(f"unknown operation {unknown!r}")
        return {"directions": list(self._states())}

    def _states(self) -> Iterator[dict[str, Any]]:
        for (near, far), direction in self._directions.items():
            yield {
                "from": near,
                "to": far,
                "cut": direction.is_cut,
                "carried": direction.carried,
                "connections": len(self._crossings[near, far].relayed),
                **asdict(direction.weather),
            }

    def _set(self, request: dict[str, Any]) -> None:
        given = request.get("weather", {})
        weather = read_weather(given, "the new weather")
        for pair in self._pairs(request):
            direction = self._directions[pair]
            direction.weather = replace(direction.weather, **{key: getattr(weather, key) for key in given})

    def _pairs(self, request: dict[str, Any]) -> list[tuple[str, str]]:
        near, far = request.get("from"), request.get("to")
        if near == far or near not in self._regions or far not in self._regions:
            raise TopologyRefused(f"{near} and {far} are not two of the regions {', '.join(self._regions)}")
        assert isinstance(near, str)
        assert isinstance(far, str)
        return [(near, far)] if request.get("one_way") else [(near, far), (far, near)]

    def _cut(self, near: str, far: str, *, reset: bool) -> None:
        self._directions[near, far].is_cut = True
        for relayed in self._using(near, far):
            relayed.changed()
            if reset:
                relayed.reset()

    def _heal(self, near: str, far: str) -> None:
        self._directions[near, far].is_cut = False
        for relayed in self._using(near, far):
            relayed.changed()

    def _using(self, near: str, far: str) -> list[Relayed]:
        return [*self._crossings[near, far].relayed, *self._crossings[far, near].relayed]


async def serve(topology: Topology, relays: Sequence[Relay], control: Path) -> None:
    """Relay until cancelled; a line on standard output says when all ports are open."""
    wan = Wan(topology)
    await wan.open(relays)

    async def serve_control(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                try:
                    response = wan.handle(json.loads(line))
                except (TopologyRefused, ValueError) as refusal:
                    response = {"error": str(refusal)}
                writer.write(json.dumps(response).encode() + b"\n")
                await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_unix_server(serve_control, control, limit=_REQUEST_MAX)
    print(f"ready {len(relays)} relays", flush=True)
    try:
        await server.serve_forever()
    finally:
        wan.close()
