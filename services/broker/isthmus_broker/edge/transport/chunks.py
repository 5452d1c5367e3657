"""Parts of a response body that are read only when the socket has room for them."""

from abc import ABC, abstractmethod


class PartUnavailable(Exception):
    """A part cannot be read any more. Its response has begun, so the connection closes."""


class DeferredPart(ABC):
    """Bytes of a known length that stay in storage until they are sent."""

    __slots__ = ()

    @abstractmethod
    def __len__(self) -> int:
        """The number of bytes not yet sent."""

    @abstractmethod
    def take(self, size: int) -> bytes:
        """The next bytes, at most `size`; raises PartUnavailable."""
