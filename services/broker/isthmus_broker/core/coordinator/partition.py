"""The partition of a coordinator's topic to which a group or a transactional id belongs."""

from typing import Final

_INT_MIN: Final = -(2**31)


def java_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 units, in 32 bits with sign."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def coordinator_partition(key: str, partitions: int) -> int:
    """The partition of `key` among `partitions`; the one hash without a positive counterpart counts as 0."""
    value = java_hash(key)
    return (0 if value == _INT_MIN else abs(value)) % partitions
