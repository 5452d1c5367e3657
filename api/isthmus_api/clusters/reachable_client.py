"""A client that knows which brokers do not answer: it asks others, and says at once when there are none."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from isthmus_client.client import Client
from isthmus_client.connection import Connection
from isthmus_client.errors import ConnectionFailed
from isthmus_model.endpoints import Endpoint
from isthmus_wire.apis import ApiKey


class WaryClient(Client):
    """`lost` ends what waits for a broker's answer."""

    def __init__(
        self,
        bootstrap: Sequence[Endpoint],
        is_away: Callable[[Endpoint], bool],
        *,
        client_id: str,
        operation_seconds: float,
    ) -> None:
        super().__init__(bootstrap, client_id=client_id, operation_seconds=operation_seconds)
        self._starts = tuple(bootstrap)
        self._is_away = is_away
        self._draws = random.Random()
        self._asked: dict[Endpoint, Connection] = {}

    async def any_connection(self, api: ApiKey | None = None) -> Connection:
        """Of a broker that answers, as long as there is one; raises ConnectionFailed when all that are known are away."""
        known = {broker.endpoint for broker in self.view.brokers.values()}
        if all(map(self._is_away, known | set(self._starts))):
            raise ConnectionFailed("none of its brokers answers now")
        there = [broker for broker in self.view.brokers.values() if not self._is_away(broker.endpoint)]
        self._draws.shuffle(there)
        for broker in there:
            try:
                reached = await self.broker_connection(broker)
            except ConnectionFailed:
                continue
            if api is None or reached.versions.supports(api):
                return self._noted(reached)
        return self._noted(await super().any_connection(api))

    def _noted(self, connection: Connection) -> Connection:
        self._asked[connection.endpoint] = connection
        return connection

    def lost(self, address: Endpoint) -> None:
        """A broker does not answer any more: whoever waits for it, and so keeps others waiting, shall ask another."""
        connection = self._asked.pop(address, None)
        if connection is not None:
            connection.close()
