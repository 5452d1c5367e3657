"""The raft core's requests over the network: one connection to each peer; the core is informed when a peer's process has died.

The core has at most one request in flight to each peer, with its own timeout, so nothing is queued here. A request that the core has
abandoned, because its role changed, may still be in flight when the next one follows; the connection's own limit applies to those.
"""

import asyncio
import logging
from typing import Final

from isthmus_client.connection import Connection
from isthmus_client.errors import ClientError, ConnectionFailed
from isthmus_wire.errors import WireError

from isthmus_broker.core.raft.messages import EndQuorumEpochRequest, Request
from isthmus_broker.edge.background import background
from isthmus_broker.edge.quorum.connection_refused import is_refusal
from isthmus_broker.edge.quorum.quorum_addresses import QuorumAddresses
from isthmus_broker.edge.quorum.raft_driver import RaftDriver
from isthmus_broker.edge.quorum.raft_requests import PeerResponse, RefusedAsAWhole, Speaker, from_wire, to_wire

logger = logging.getLogger(__name__)

CLIENT_ID: Final = "isthmus-quorum"
FAREWELL_SECONDS: Final = 0.5
"""How long a resigning leader waits for its successors to receive EndQuorumEpoch."""


class QuorumPeers:
    """Implements `raft_driver.Peers`."""

    def __init__(self, raft: RaftDriver, speaker: Speaker, addresses: QuorumAddresses, request_seconds: float) -> None:
        self._raft = raft
        self._speaker = speaker
        self._addresses = addresses
        self._request_seconds = request_seconds
        self._connections: dict[int, Connection] = {}
        self._farewells: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._refused_by: set[int] = set()

    def send(self, peer: int, request_id: int, request: Request) -> None:
        """Send, and report the outcome to the driver."""
        task = background(self._exchange(peer, request_id, request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if isinstance(request, EndQuorumEpochRequest):
            self._farewells.add(task)
            task.add_done_callback(self._farewells.discard)

    async def stop(self) -> None:
        """Close everything, once a resigned leader's last messages are sent."""
        if self._farewells:
            await asyncio.wait(self._farewells, timeout=FAREWELL_SECONDS)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in self._connections.values():
            connection.close()

    async def _exchange(self, peer: int, request_id: int, request: Request) -> None:
        try:
            async with asyncio.timeout(self._request_seconds):
                reply = await self._request(peer, request)
        except (ClientError, WireError, TimeoutError, RefusedAsAWhole) as error:
            self._note(peer, error)
            self._raft.failed(peer, request_id, is_gone=is_refusal(error.__cause__))
            return
        self._refused_by.discard(peer)
        if reply.leader is not None:
            self._addresses.learn(*reply.leader)
        self._raft.responded(peer, request_id, reply.response)

    async def _request(self, peer: int, request: Request) -> PeerResponse:
        connection = await self._connection(peer)
        api, message = to_wire(request, self._speaker)
        return from_wire(api, await connection.request(api, message, seconds=self._request_seconds))

    async def _connection(self, peer: int) -> Connection:
        place = self._addresses.find(peer)
        if place is None:
            raise ConnectionFailed(f"the endpoint of node {peer} is unknown")
        connection = self._connections.get(peer)
        if connection is None or connection.closed or connection.endpoint != place:
            opened = await Connection.open(place, CLIENT_ID)
            connection = self._connections.get(peer)  # an abandoned request may have opened one meanwhile
            if connection is not None:
                connection.close()
            connection = self._connections[peer] = opened
        return connection

    def _note(self, peer: int, error: Exception) -> None:
        """Log once when a peer becomes unreachable, not for every attempt."""
        if peer not in self._refused_by:
            self._refused_by.add(peer)
            logger.info("quorum: node %d does not respond: %s", peer, error or type(error).__name__)
