"""The memory that all connections together may use for large frames."""

from collections import deque
from collections.abc import Callable

from isthmus_broker.edge.transport.limits import LARGE_FRAMES_MAX


class Budget:
    """Bytes lent to connections. Those that get none wait in order."""

    def __init__(self, limit: int = LARGE_FRAMES_MAX) -> None:
        self._limit = limit
        self._lent = 0
        self._line: deque[Callable[[], None]] = deque()

    def take(self, size: int) -> bool:
        """Borrow if enough is left. A single borrower always gets the memory, however much it is."""
        if self._lent and self._lent + size > self._limit:
            return False
        self._lent += size
        return True

    def give_back(self, size: int) -> None:
        """Return borrowed memory; those waiting try again."""
        self._lent -= size
        assert self._lent >= 0
        if size:
            for retry in [self._line.popleft() for _ in range(len(self._line))]:
                retry()

    def wait(self, retry: Callable[[], None]) -> None:
        """Call `retry` when memory was returned."""
        self._line.append(retry)
