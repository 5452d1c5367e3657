"""Choose the partition of a record as Kafka's own producer does. Pure."""

from collections.abc import Sequence
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit MurmurHash2 with the seed that Kafka's clients use, as an unsigned number."""
    length = len(data)
    h = (_SEED ^ length) & _MASK
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k ^= k >> 24
        h = (h * _M & _MASK) ^ (k * _M & _MASK)
    if length > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h ^= h >> 13
    h = h * _M & _MASK
    return h ^ (h >> 15)


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
