"""Bytes from a socket to frames, with one copy at most. Pure.

Small frames are cut out of a reused buffer. A frame that does not fit gets a buffer of exactly its size, which the socket fills
directly and its reader then owns: record batches stay views of it.
"""

from collections.abc import Iterator

from isthmus_wire.headers import FRAME_LENGTH

from isthmus_client.errors import ProtocolBroken
from isthmus_client.limits import FRAME_MAX, RECEIVE_BUFFER


class FrameReader:
    """Give `room()` to the socket, say how much came by `received()`, and take the frames it yields."""

    def __init__(self, frame_max: int = FRAME_MAX) -> None:
        self._frame_max = frame_max
        self._shared = memoryview(bytearray(RECEIVE_BUFFER))
        self._start = 0
        self._end = 0
        self._large: memoryview | None = None
        self._filled = 0

    def room(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._large is not None:
            return self._large[self._filled :]
        return self._shared[self._end :]

    def received(self, count: int) -> Iterator[memoryview]:
        """The frames that are whole now; raises ProtocolBroken for a length that cannot be."""
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
            raise ProtocolBroken(f"a frame of {size} bytes; is the port one of a Kafka broker's plaintext listener?")
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
        """What is left of the next frame moves to the front."""
        left = self._end - self._start
        if self._start:
            self._shared[:left] = bytes(self._shared[self._start : self._end])
            self._start, self._end = 0, left
