"""A network that loses requests or responses of the client library, and closes the connection where it does."""

import random
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any

import pytest
from isthmus_client.connection import Chunk, Connection
from isthmus_client.errors import ConnectionFailed
from isthmus_wire.apis import ApiKey


class Fate(Enum):
    """What happens to an exchange."""

    ARRIVES = auto()
    REQUEST_LOST = auto()
    RESPONSE_LOST = auto()


class Network:
    """Decides the fate of every exchange while it is installed; without a decision, all arrive."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.decide: Callable[[ApiKey], Fate] = lambda api: Fate.ARRIVES
        self.lost = 0
        original = Connection.exchange

        async def exchange(
            connection: Connection, api: ApiKey, version: int, body: Sequence[Chunk], **options: Any
        ) -> tuple[memoryview, int]:
            fate = self.decide(api)
            if fate is Fate.REQUEST_LOST:
                self._lose(connection)
            received = await original(connection, api, version, body, **options)
            if fate is Fate.RESPONSE_LOST:
                self._lose(connection)
            return received

        monkeypatch.setattr(Connection, "exchange", exchange)

    def _lose(self, connection: Connection) -> None:
        self.lost += 1
        connection.close()
        raise ConnectionFailed(f"the network closed the connection to {connection.name}")

    def lose_responses(self, api: ApiKey, count: int) -> None:
        """Lose the responses of the next exchanges of one API."""
        left = [count]

        def decide(other: ApiKey) -> Fate:
            if other is not api or not left[0]:
                return Fate.ARRIVES
            left[0] -= 1
            return Fate.RESPONSE_LOST

        self.decide = decide

    def lose_at_random(self, rate: float, seed: int, apis: frozenset[ApiKey]) -> None:
        """Lose requests and responses of these APIs, each with half the rate."""
        randomness = random.Random(seed)

        def decide(api: ApiKey) -> Fate:
            draw = randomness.random()
            if api not in apis or draw >= rate:
                return Fate.ARRIVES
            return Fate.REQUEST_LOST if draw < rate / 2 else Fate.RESPONSE_LOST

        self.decide = decide
