"""Which brokers are certainly dead: their heartbeats' connection has closed, and nobody listens where they did.

A closed connection alone may be a cut in the network, and a broker that does not answer may be slow: both are left to the session timeout.
A refused connection is said by the machine that the broker ran on; a relay before it, which has accepted already, resets instead.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Final

from isthmus_broker.core.metadata.image import Broker, ClusterImage
from isthmus_broker.edge.quorum.connection_refused import is_refusal
from isthmus_broker.edge.transport.connection import Connection

logger = logging.getLogger(__name__)

PROBE_SECONDS: Final = 1.0
PROBES_MAX: Final = 32
"""Brokers that are looked for at once; the others wait."""

Fence = Callable[[int, int], Awaitable[None]]


class BrokerLiveness:
    """The active controller's eye on the brokers' processes."""

    def __init__(self, image: Callable[[], ClusterImage], listener: str, fence: Fence) -> None:
        """`fence` takes a broker's id and epoch; `listener` is the one brokers reach each other by."""
        self._image = image
        self._listener = listener
        self._fence = fence
        self._heard: dict[Connection, tuple[int, int]] = {}
        self._probes: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(PROBES_MAX)

    def heard(self, broker_id: int, epoch: int, connection: Connection) -> None:
        """A heartbeat came by this connection."""
        self._heard[connection] = (broker_id, epoch)

    def closed(self, connection: Connection) -> None:
        """A connection of a controller listener is gone."""
        broker = self._heard.pop(connection, None)
        if broker is not None and broker not in self._heard.values():
            self._probe(*broker)

    def look(self, except_for: int) -> None:
        """Look for every broker that should be there: a new active controller has not heard of any."""
        for broker in self._image().brokers.values():
            if not broker.fenced and broker.broker_id != except_for:
                self._probe(broker.broker_id, broker.broker_epoch)

    def stop(self) -> None:
        """This controller is not the active one any more."""
        for probe in self._probes:
            probe.cancel()

    def _probe(self, broker_id: int, epoch: int) -> None:
        task = asyncio.get_running_loop().create_task(self._fence_if_dead(broker_id, epoch))
        self._probes.add(task)
        task.add_done_callback(self._probes.discard)

    async def _fence_if_dead(self, broker_id: int, epoch: int) -> None:
        async with self._places:
            broker = self._image().brokers.get(broker_id)
            if broker is None or broker.fenced or broker.broker_epoch != epoch or not await self._is_gone(broker):
                return
        logger.info("broker %d is gone: its connection closed, and a new one is refused", broker_id)
        await self._fence(broker_id, epoch)

    async def _is_gone(self, broker: Broker) -> bool:
        named = (endpoint for endpoint in broker.endpoints if endpoint.name == self._listener)
        endpoint = next(named, next(iter(broker.endpoints), None))
        if endpoint is None:
            return False
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
                with closing(writer):
                    await reader.read(1)  # a broker says nothing unasked; a relay learns late that it is refused
        except ConnectionResetError:
            return True
        except OSError as error:  # a timeout is one as well
            return is_refusal(error)
        return False
