"""The memory that all fetches of a worker share: each gets an equal share of the bytes in flight."""

from isthmus_linker.core.limits import FETCH_BYTES_LEAST, IN_FLIGHT_BYTES_MAX


class Budget:
    """The budget of one worker."""

    def __init__(self) -> None:
        self._fetchers = 0

    def enter(self) -> None:
        """Add a fetcher."""
        self._fetchers += 1

    def leave(self) -> None:
        """Remove a fetcher."""
        self._fetchers -= 1
        assert self._fetchers >= 0

    def share(self, most: int) -> int:
        """Maximum size of one response; earlier responses may use as much again."""
        return min(most, max(IN_FLIGHT_BYTES_MAX // (2 * max(self._fetchers, 1)), FETCH_BYTES_LEAST))
