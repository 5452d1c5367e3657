"""Probes every broker over a dedicated connection, so that a partition is noticed within seconds whatever else is delayed.

The probe is an empty ApiVersions request, the smallest one, which no broker refuses; its response is not decoded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final

from isthmus_client.connection import Connection
from isthmus_client.errors import ClientError
from isthmus_model.clocks import WallClock
from isthmus_model.endpoints import Endpoint
from isthmus_wire.apis import ApiKey
from isthmus_wire.errors import WireError

from isthmus_api.core.reachability import Reachability
from isthmus_api.limits import PROBE_TIMEOUT_SECONDS, PROBES_MAX

logger = logging.getLogger(__name__)

_CLIENT_ID: Final = "isthmus-api-probe"


class Probes:
    """`watch` sets the endpoints of a cluster, `unreachable` lists those that do not respond; `on_change` is called for each change."""

    def __init__(self, now_ms: WallClock) -> None:
        self.on_change: list[Callable[[Endpoint], None]] = []
        self._now_ms = now_ms
        self._watched: dict[str, frozenset[Endpoint]] = {}
        self._probers: dict[Endpoint, asyncio.Task[None]] = {}
        self._states: dict[Endpoint, Reachability] = {}

    def is_unreachable(self, address: Endpoint) -> bool:
        """Whether it is known to be unreachable."""
        reachability = self._states.get(address)
        return reachability is not None and reachability.is_unreachable

    @property
    def unreachable(self) -> Mapping[Endpoint, Reachability]:
        """Every endpoint that does not respond."""
        return {address: one for address, one in self._states.items() if one.is_unreachable}

    def watch(self, cluster_id: str, addresses: Collection[Endpoint]) -> None:
        """Probe these endpoints for a cluster, and no others; none when the cluster is no longer registered."""
        for address in [address for address, prober in self._probers.items() if prober.done()]:
            self._probers.pop(address).result()  # only an error ends a prober; it ends the caller's loop too
        self._watched[cluster_id] = frozenset(addresses)
        watched = {address for of_one in self._watched.values() for address in of_one}
        for address in self._probers.keys() - watched:
            self._probers.pop(address).cancel()
            self._states.pop(address, None)
        for address in sorted(watched - self._probers.keys())[: PROBES_MAX - len(self._probers)]:
            self._states[address] = Reachability(self._now_ms())
            self._probers[address] = asyncio.create_task(self._probe(address))

    def close(self) -> None:
        """Stop probing."""
        for prober in self._probers.values():
            prober.cancel()

    async def _probe(self, address: Endpoint) -> None:
        loop = asyncio.get_running_loop()
        connection: Connection | None = None
        try:
            while True:
                started = loop.time()
                try:
                    async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
                        if connection is None:
                            connection = Connection(address, _CLIENT_ID)
                            await connection.connect()
                        await connection.exchange(ApiKey.API_VERSIONS, 0, ())
                except (ClientError, WireError, TimeoutError) as error:
                    if connection is not None:
                        connection.close()
                    connection = None
                    why = str(error) or f"no response within {PROBE_TIMEOUT_SECONDS:g} s"
                    self._learn(address, self._states[address].missed(why, loop.time() - started))
                else:
                    self._learn(address, self._states[address].responded(self._now_ms()))
                await asyncio.sleep(self._states[address].pause)
        finally:
            if connection is not None:
                connection.close()

    def _learn(self, address: Endpoint, reachability: Reachability) -> None:
        before, self._states[address] = self._states[address], reachability
        if before.is_unreachable == reachability.is_unreachable:
            return
        if reachability.is_unreachable:
            logger.warning("%s is unreachable: %s", address, reachability.why)
        else:
            logger.info("%s is reachable again", address)
        for notify in self.on_change:
            notify(address)
