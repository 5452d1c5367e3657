"""The memory that all fetches of a worker share: each gets an equal part of what may be in flight."""

from isthmus_linker.core.limits import FETCH_BYTES_LEAST, IN_FLIGHT_BYTES_MAX


class Budget:
    """Of one worker; fetchers come and go."""

    def __init__(self) -> None:
        self._fetchers = 0

    def enter(self) -> None:
        """One more fetcher."""
        self._fetchers += 1

    def leave(self) -> None:
        """One fewer."""
        self._fetchers -= 1
        assert self._fetchers >= 0

    def share(self, most: int) -> int:
        """Bytes that one answer may have; as much again may be held of earlier ones."""
        return min(most, max(IN_FLIGHT_BYTES_MAX // (2 * max(self._fetchers, 1)), FETCH_BYTES_LEAST))
