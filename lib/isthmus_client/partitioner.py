"""Choose the partition of a record as Kafka's own producer does. Pure."""

from collections.abc import Sequence

from isthmus_model.murmur2 import murmur2


def partition_of_key(key: bytes, count: int) -> int:
    """The partition of a key; the same until partitions are added to the topic."""
    return (murmur2(key) & 0x7FFFFFFF) % count


class StickyChoice:
    """Chooses one partition for records without a key until its batch is sent, then the next with a leader."""

    def __init__(self, start: int) -> None:
        self._current = start

    def current(self, available: Sequence[int]) -> int:
        """The current partition; `available` is in order and not empty."""
        return available[self._current % len(available)]

    def move(self) -> None:
        """Switch partitions: a batch was sent."""
        self._current += 1
