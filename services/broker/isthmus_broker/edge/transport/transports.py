"""Transport security of accepted sockets, below the Kafka protocol."""

import asyncio
import socket
from typing import Final, Protocol


class ListenerTransport(Protocol):
    """The transport of a listener below the Kafka protocol."""

    async def accept(self, accepted: socket.socket, connection: asyncio.BaseProtocol) -> None:
        """Attach the socket to the connection, after a handshake if there is one; raises OSError. Called apart from accepting."""
        ...


class _Plaintext:
    async def accept(self, accepted: socket.socket, connection: asyncio.BaseProtocol) -> None:
        await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, accepted)


PLAINTEXT: Final[ListenerTransport] = _Plaintext()
"""Neither encryption nor authentication."""
