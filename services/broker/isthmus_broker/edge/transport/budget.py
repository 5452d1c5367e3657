"""The memory that all connections together may spend on frames that are larger than most."""

from collections import deque
from collections.abc import Callable

from isthmus_broker.edge.transport.limits import LARGE_FRAMES_MAX


class Budget:
    """Bytes lent to connections; who gets none waits in line."""

    def __init__(self, limit: int = LARGE_FRAMES_MAX) -> None:
        self._limit = limit
        self._lent = 0
        self._line: deque[Callable[[], None]] = deque()

    def take(self, size: int) -> bool:
        """Borrow, if there is enough; a single borrower always gets what it wants, however much."""
        if self._lent and self._lent + size > self._limit:
            return False
        self._lent += size
        return True

    def give_back(self, size: int) -> None:
        """Return what was borrowed; those in line try again."""
        self._lent -= size
        assert self._lent >= 0
        if size:
            for retry in [self._line.popleft() for _ in range(len(self._line))]:
                retry()

    def wait(self, retry: Callable[[], None]) -> None:
        """Call `retry` when something came back."""
        self._line.append(retry)
