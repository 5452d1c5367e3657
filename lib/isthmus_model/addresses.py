"""Addresses as people write them: HOST:PORT, lists of them, brackets around IPv6."""

import re
from typing import Final, NamedTuple

PORT_MAX: Final = 65535
_HOST_AND_PORT: Final = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]{1,5})")


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def split_host_and_port(text: str) -> Address | None:
    """Any `host:port` that Kafka's own configurations accept, also one with a protocol or without a host; None for other text."""
    match = _HOST_AND_PORT.fullmatch(text)
    if match is None or int(match[2]) > PORT_MAX:
        return None
    return Address(match[1], int(match[2]))


def parse_address(text: str) -> Address:
    """Where to listen; port 0 takes any free port. Raises ValueError."""
    address = None if "://" in text else split_host_and_port(text)
    if address is None or not address.host:
        raise ValueError(f"'{text}' is not an address; write HOST:PORT")
    return address
