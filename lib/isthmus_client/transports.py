"""Open connections to endpoints, below the Kafka protocol."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from isthmus_model.endpoints import Endpoint, SecurityProtocol

from isthmus_client.errors import ConnectionFailed


class Transports(Protocol):
    """Opens connections for the security protocols that it is configured for."""

    async def connect(self, endpoint: Endpoint, protocol: Callable[[], asyncio.BaseProtocol]) -> asyncio.Transport:
        """Connect; raises OSError, and ConnectionFailed for a security protocol without configuration."""
        ...


class _Plaintext:
    async def connect(self, endpoint: Endpoint, protocol: Callable[[], asyncio.BaseProtocol]) -> asyncio.Transport:
        if endpoint.security is not SecurityProtocol.PLAINTEXT:
            raise ConnectionFailed(f"cannot connect to {endpoint}: {endpoint.security.name} is not configured")
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(protocol, endpoint.host, endpoint.port)
        return transport


PLAINTEXT: Final[Transports] = _Plaintext()
"""Connects without encryption or authentication."""
