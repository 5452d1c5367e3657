"""Connections by broker and lane, opened on first use and again after a failure.

A *lane* separates requests that wait from those that do not: "" for short requests, another name for long polls. An unreachable broker is
retried only after a backoff; until then requests to it fail at once.
"""

import asyncio
import random
from typing import Final

from isthmus_model.endpoints import Endpoint

from isthmus_client.connection import Connection
from isthmus_client.errors import ClientError, ConnectionFailed
from isthmus_client.limits import REQUEST_SECONDS, TIMED_OUT_SECONDS
from isthmus_client.retry import Backoff, Randomness
from isthmus_client.transports import PLAINTEXT, Transports

SHORT_REQUESTS: Final = ""


class _Broken:
    """Consecutive connection failures of one endpoint, and when to retry."""

    __slots__ = ("failures", "retry_at", "why")

    def __init__(self) -> None:
        self.failures = 0
        self.retry_at = 0.0
        self.why = ""


class Pool:
    """The open connections of a client."""

    def __init__(
        self,
        client_id: str,
        backoff: Backoff | None = None,
        randomness: Randomness | None = None,
        response_seconds: float = REQUEST_SECONDS,
        transports: Transports = PLAINTEXT,
    ) -> None:
        self._client_id = client_id
        self._response_seconds = response_seconds
        self._transports = transports
        self._backoff = backoff or Backoff()
        self._random = randomness or random.Random()
        self._open: dict[tuple[Endpoint, str], Connection] = {}
        self._opening: dict[tuple[Endpoint, str], asyncio.Lock] = {}
        self._broken: dict[Endpoint, _Broken] = {}
        self._closed = False

    def opened(self, endpoint: Endpoint, lane: str = SHORT_REQUESTS) -> Connection | None:
        """The open connection, if there is one."""
        connection = self._open.get((endpoint, lane))
        return None if connection is None or connection.closed else connection

    async def get(self, endpoint: Endpoint, lane: str = SHORT_REQUESTS) -> Connection:
        """A connection that has not failed; raises ConnectionFailed."""
        connection = self.opened(endpoint, lane)
        if connection is not None:
            return connection
        async with self._opening.setdefault((endpoint, lane), asyncio.Lock()):
            return self.opened(endpoint, lane) or await self._connect(endpoint, lane)

    def failed_recently(self, endpoint: Endpoint) -> bool:
        """Whether the last attempt to connect failed, or a request timed out in the last `TIMED_OUT_SECONDS`."""
        since = asyncio.get_running_loop().time() - TIMED_OUT_SECONDS
        timeouts = [one.timed_out_at for (address, _), one in self._open.items() if address == endpoint]
        return endpoint in self._broken or any(at is not None and at > since for at in timeouts)

    async def _connect(self, endpoint: Endpoint, lane: str) -> Connection:
        if self._closed:
            raise ClientError("the client is closed")
        loop = asyncio.get_running_loop()
        broken = self._broken.get(endpoint)
        if broken is not None and loop.time() < broken.retry_at:
            raise ConnectionFailed(broken.why)
        try:
            connection = await Connection.open(
                endpoint, self._client_id, self._response_seconds, transports=self._transports
            )
        except ConnectionFailed as error:
            broken = self._broken.setdefault(endpoint, _Broken())
            broken.failures += 1
            broken.retry_at = loop.time() + self._backoff.delay(broken.failures, self._random)
            broken.why = str(error)
            raise
        self._broken.pop(endpoint, None)
        self._open[endpoint, lane] = connection
        return connection

    def close_connection(self, endpoint: Endpoint, lane: str = SHORT_REQUESTS) -> None:
        """Close one connection, if it is open; requests on it fail."""
        connection = self.opened(endpoint, lane)
        if connection is not None:
            connection.close()

    def close_lane(self, lane: str) -> None:
        """Close the connections of one lane."""
        for key in [key for key in self._open if key[1] == lane]:
            self._open.pop(key).close()
        for key in [key for key in self._opening if key[1] == lane]:
            del self._opening[key]

    def close(self) -> None:
        """Close every connection."""
        self._closed = True
        for connection in self._open.values():
            connection.close()
        self._open.clear()
