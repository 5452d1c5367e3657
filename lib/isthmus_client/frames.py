"""Split the bytes of a socket into frames, with at most one copy. Pure.

Small frames are copied out of a reused buffer. A larger frame gets a buffer of exactly its size, which the socket fills directly and the
frame's reader then owns: record batches stay views of it.
"""

from collections.abc import Iterator

from isthmus_wire.headers import FRAME_LENGTH

from isthmus_client.errors import ProtocolBroken
from isthmus_client.limits import FRAME_MAX, RECEIVE_BUFFER


class FrameReader:
    """Reads frames: the socket fills `room()`, and `received()` yields complete frames."""

    def __init__(self, frame_max: int = FRAME_MAX) -> None:
        self._frame_max = frame_max
        self._shared = memoryview(bytearray(RECEIVE_BUFFER))
        self._start = 0
        self._end = 0
        self._large: memoryview | None = None
        self._filled = 0

    def room(self) -> memoryview:
        """The buffer for the next bytes; never empty."""
        if self._large is not None:
            return self._large[self._filled :]
        return self._shared[self._end :]

    def received(self, count: int) -> Iterator[memoryview]:
        """The frames that are complete now; raises ProtocolBroken for an impossible length."""
        if self._large is not None:
            self._filled += count
            if self._filled == len(self._large):
                frame, self._large = self._large, None
                yield frame
            return
        self._end += count
        while (frame_or_none := self._next()) is not None:
            yield frame_or_none
        self._keep_rest()

    def _next(self) -> memoryview | None:
        available = self._end - self._start - FRAME_LENGTH.size
        if available < 0:
            return None
        (size,) = FRAME_LENGTH.unpack_from(self._shared, self._start)
        if size < FRAME_LENGTH.size or size > self._frame_max:
            raise ProtocolBroken(
                f"impossible frame length {size}; check that the port is a plaintext listener of a Kafka broker"
            )
        begin = self._start + FRAME_LENGTH.size
        if available >= size:
            self._start = begin + size
            return memoryview(bytes(self._shared[begin : self._start]))
        if size + FRAME_LENGTH.size > len(self._shared):
            self._large = memoryview(bytearray(size))
            self._large[:available] = self._shared[begin : self._end]
            self._filled = available
            self._start = self._end
        return None

    def _keep_rest(self) -> None:
        """Move the incomplete frame to the front of the buffer."""
        left = self._end - self._start
        if self._start:
            self._shared[:left] = bytes(self._shared[self._start : self._end])
            self._start, self._end = 0, left
