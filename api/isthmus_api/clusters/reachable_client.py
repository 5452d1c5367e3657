"""A client that avoids unreachable brokers, and fails immediately when all of them are."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from isthmus_client.client import Client
from isthmus_client.connection import Connection
from isthmus_client.errors import ConnectionFailed
from isthmus_model.endpoints import Endpoint
from isthmus_wire.apis import ApiKey


class ReachableClient(Client):
    """`disconnect` ends requests that wait for an unreachable broker."""

    def __init__(
        self,
        bootstrap: Sequence[Endpoint],
        is_unreachable: Callable[[Endpoint], bool],
        *,
        client_id: str,
        operation_seconds: float,
    ) -> None:
        super().__init__(bootstrap, client_id=client_id, operation_seconds=operation_seconds)
        self._starts = tuple(bootstrap)
        self._is_unreachable = is_unreachable
        self._draws = random.Random()
        self._used: dict[Endpoint, Connection] = {}

    async def any_connection(self, api: ApiKey | None = None) -> Connection:
        """A connection to a reachable broker; raises ConnectionFailed when all known brokers are unreachable."""
        endpoints = {broker.endpoint for broker in self.view.brokers.values()}
        if all(map(self._is_unreachable, endpoints | set(self._starts))):
            raise ConnectionFailed("none of its brokers is reachable")
        candidates = [broker for broker in self.view.brokers.values() if not self._is_unreachable(broker.endpoint)]
        self._draws.shuffle(candidates)
        for broker in candidates:
            try:
                reached = await self.broker_connection(broker)
            except ConnectionFailed:
                continue
            if api is None or reached.versions.supports(api):
                return self._used_for(reached)
        return self._used_for(await super().any_connection(api))

    def _used_for(self, connection: Connection) -> Connection:
        self._used[connection.endpoint] = connection
        return connection

    def disconnect(self, address: Endpoint) -> None:
        """A broker became unreachable: requests that wait for it fail now, so that others can be tried."""
        connection = self._used.pop(address, None)
        if connection is not None:
            connection.close()
