"""Which partition a record goes to, the same as Kafka's own producer. Pure."""

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
    """Records of one key go to one partition, as long as the topic does not grow."""
    return (murmur2(key) & 0x7FFFFFFF) % count


class StickyChoice:
    """Records without a key stay with one partition until its batch leaves, then move to the next that has a leader."""

    def __init__(self, start: int) -> None:
        self._current = start

    def current(self, available: Sequence[int]) -> int:
        """The partition of now; `available` is in order and not empty."""
        return available[self._current % len(available)]

    def move(self) -> None:
        """A batch left."""
        self._current += 1
