"""Where a broker is reached, and how."""

from enum import IntEnum
from typing import Final, NamedTuple

from isthmus_model.addresses import Address, parse_address

DEFAULT_PORT: Final = 9092


class SecurityProtocol(IntEnum):
    """What a listener speaks below the Kafka protocol, with Kafka's numbers."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


class Endpoint(NamedTuple):
    """A listener of a broker, as a client connects to it."""

    host: str
    port: int
    security: SecurityProtocol = SecurityProtocol.PLAINTEXT

    def __str__(self) -> str:
        return str(Address(self.host, self.port))


def parse_bootstrap(text: str, security: SecurityProtocol = SecurityProtocol.PLAINTEXT) -> tuple[Endpoint, ...]:
    """Endpoints from `host:port,host:port`; a host alone means port 9092. Raises ValueError."""
    parts = [part for piece in text.split(",") if (part := piece.strip())]
    addresses = [parse_address(part if ":" in part else f"{part}:{DEFAULT_PORT}") for part in parts]
    for address in addresses:
        if address.port == 0:
            raise ValueError(f"'{address}' has no port to connect to; write HOST:PORT")
    if not addresses:
        raise ValueError("no bootstrap server; write HOST:PORT")
    return tuple(Endpoint(address.host, address.port, security) for address in addresses)
