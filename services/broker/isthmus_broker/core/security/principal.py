"""The identity on whose behalf a request is made."""

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """In Kafka's form, `User:alice`."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""The principal of a connection that was not authenticated."""
