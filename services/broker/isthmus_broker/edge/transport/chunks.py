"""Parts of a response body that are read only when the socket can take them."""

from abc import ABC, abstractmethod


class PartUnavailable(Exception):
    """A part cannot be read any more; the response it belongs to has begun, so the connection closes."""


class DeferredPart(ABC):
    """Bytes of a known length that stay where they are until they are sent."""

    __slots__ = ()

    @abstractmethod
    def __len__(self) -> int:
        """Bytes that are left."""

    @abstractmethod
    def take(self, size: int) -> bytes:
        """The next bytes, at most `size`; raises PartUnavailable."""
