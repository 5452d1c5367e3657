"""What an object store must do, and how it fails.

An object appears whole or not at all, under a name that is never used for other bytes. Nothing else is expected: no renaming, no appending,
and listings may lag behind.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol


class StoreError(Exception):
    """A call failed; the message names the store, the object and the cause. Unless it is of a more specific class, try again."""


class Refused(StoreError):
    """The store does not permit the call, or does not exist: an operator must change something first."""


class Missing(StoreError):
    """There is no such object."""


class Stored(NamedTuple):
    """An object in a listing."""

    name: str
    size: int
    written_ms: int
    """When it was written, by the store's clock."""


class ObjectStore(Protocol):
    """A place for objects. Every call may raise StoreError and may be made in any thread."""

    def put(self, name: str, pieces: Iterable[bytes]) -> None:
        """Write an object; it is durable afterwards. One of that name is replaced."""
        ...

    def get(self, name: str, position: int = 0, size: int | None = None) -> bytes:
        """The bytes from this position, `size` or up to the end; fewer if the object ends before. Raises Missing."""
        ...

    def delete(self, name: str) -> None:
        """Delete an object; one that does not exist is deleted already."""
        ...

    def list(self, prefix: str) -> Iterator[Stored]:
        """The objects whose names begin with this, in any order."""
        ...

    def discard_unfinished(self, before_ms: int) -> None:
        """Delete what calls of `put` have left that were interrupted before this time, by the store's clock."""
        ...

    def close(self) -> None:
        """Give up connections."""
        ...
