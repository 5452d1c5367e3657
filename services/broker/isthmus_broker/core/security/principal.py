"""The identity in whose name a request is made."""

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """As Kafka writes it, `User:alice`."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""The principal of a connection that was not authenticated."""
