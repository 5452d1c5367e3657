"""Parts of a response body that stay in their file until the socket can take them."""

from isthmus_broker.edge.storage.segment import Segment


class FileRange:
    """Bytes of a segment, read when they are sent."""

    __slots__ = ("_position", "_segment", "_size")

    def __init__(self, segment: Segment, position: int, size: int) -> None:
        self._segment = segment
        self._position = position
        self._size = size

    def __len__(self) -> int:
        return self._size

    def take(self, size: int) -> bytes:
        """The next bytes; raises DiskFailure or SegmentGone when they cannot be read any more."""
        data = self._segment.read(self._position, min(size, self._size))
        self._position += len(data)
        self._size -= len(data)
        return data
