"""Records of a fetch response: a range of a segment's file, read when it is sent."""

from isthmus_broker.edge.storage.files import DiskFailure
from isthmus_broker.edge.storage.segment_source import RangeReader
from isthmus_broker.edge.transport.chunks import DeferredPart, PartUnavailable


class FileRange(DeferredPart):
    """Bytes of a segment."""

    __slots__ = ("_position", "_segment", "_size")

    def __init__(self, segment: RangeReader, position: int, size: int) -> None:
        self._segment = segment
        self._position = position
        self._size = size

    def __len__(self) -> int:
        return self._size

    def take(self, size: int) -> bytes:
        try:
            data = self._segment.read(self._position, min(size, self._size))
        except DiskFailure as error:
            raise PartUnavailable(str(error)) from error
        self._position += len(data)
        self._size -= len(data)
        return data
