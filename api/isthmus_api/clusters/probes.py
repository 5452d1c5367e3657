"""Asks every broker, over a connection of its own, whether it is there, so that a cut is known in seconds whatever else hangs in it.

The question is the smallest that there is, and its answer is not even read: an empty ApiVersions, which no broker refuses.
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

from isthmus_api.core.reachability import Reach
from isthmus_api.limits import PROBE_ANSWER_SECONDS, PROBES_MAX

logger = logging.getLogger(__name__)

_CLIENT_ID: Final = "isthmus-api-probe"


class Probes:
    """`watch` says which addresses a cluster has, `away` which of them do not answer. `on_change` hears of each that goes or comes back."""

    def __init__(self, now_ms: WallClock) -> None:
        self.on_change: list[Callable[[Endpoint], None]] = []
        self._now_ms = now_ms
        self._wanted: dict[str, frozenset[Endpoint]] = {}
        self._probers: dict[Endpoint, asyncio.Task[None]] = {}
        self._reach: dict[Endpoint, Reach] = {}

    def is_away(self, address: Endpoint) -> bool:
        """Whether it is known not to answer."""
        reach = self._reach.get(address)
        return reach is not None and reach.is_away

    @property
    def away(self) -> Mapping[Endpoint, Reach]:
        """Every address that does not answer."""
        return {address: reach for address, reach in self._reach.items() if reach.is_away}

    def watch(self, cluster_id: str, addresses: Collection[Endpoint]) -> None:
        """From now on these, and no others of this cluster; none when the cluster is not registered any more."""
        for address in [address for address, prober in self._probers.items() if prober.done()]:
            self._probers.pop(
                address
            ).result()  # a prober does not end: whatever ended it ends its caller's loop as well
        self._wanted[cluster_id] = frozenset(addresses)
        wanted = {address for of_one in self._wanted.values() for address in of_one}
        for address in self._probers.keys() - wanted:
            self._probers.pop(address).cancel()
            self._reach.pop(address, None)
        for address in sorted(wanted - self._probers.keys())[: PROBES_MAX - len(self._probers)]:
            self._reach[address] = Reach(self._now_ms())
            self._probers[address] = asyncio.create_task(self._probe(address))

    def close(self) -> None:
        """Ask no more."""
        for prober in self._probers.values():
            prober.cancel()

    async def _probe(self, address: Endpoint) -> None:
        loop = asyncio.get_running_loop()
        connection: Connection | None = None
        try:
            while True:
                asked = loop.time()
                try:
                    async with asyncio.timeout(PROBE_ANSWER_SECONDS):
                        if connection is None:
                            connection = Connection(address, _CLIENT_ID)
                            await connection.connect()
                        await connection.exchange(ApiKey.API_VERSIONS, 0, ())
                except (ClientError, WireError, TimeoutError) as error:
                    if connection is not None:
                        connection.close()
                    connection = None
                    why = str(error) or f"no answer within {PROBE_ANSWER_SECONDS:g} s"
                    self._learn(address, self._reach[address].missed(why, loop.time() - asked))
                else:
                    self._learn(address, self._reach[address].answered(self._now_ms()))
                await asyncio.sleep(self._reach[address].pause)
        finally:
            if connection is not None:
                connection.close()

    def _learn(self, address: Endpoint, reach: Reach) -> None:
        before, self._reach[address] = self._reach[address], reach
        if before.is_away == reach.is_away:
            return
        if reach.is_away:
            logger.warning("%s does not answer: %s", address, reach.why)
        else:
            logger.info("%s answers again", address)
        for hear in self.on_change:
            hear(address)
