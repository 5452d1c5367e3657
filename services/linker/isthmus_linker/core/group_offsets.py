"""Which committed offsets of the source's groups to write at the destination.

They are clamped to what exists there, so that a group never starts at records that were not copied yet, and they never go back by
themselves.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar


class Position(NamedTuple):
    """A committed offset."""

    offset: int
    leader_epoch: int
    metadata: str | None


class Extent(NamedTuple):
    """The offsets that a partition of the destination has: from `start` up to before `end`."""

    start: int
    end: int


P = TypeVar("P", bound=tuple[str, int])


def offsets_to_write(
    source: Mapping[P, Position], destination: Mapping[P, Position], extents: Mapping[P, Extent]
) -> dict[P, Position]:
    """Of one group, by the destination's partitions; a partition whose extent is not known is left for the next time."""
    wanted: dict[P, Position] = {}
    for partition, position in sorted(source.items()):
        extent = extents.get(partition)
        if extent is None:
            continue
        clamped = _clamped(position, extent)
        known = destination.get(partition)
        if known is None or known.offset < clamped.offset:
            wanted[partition] = clamped
    return wanted


def is_drained(source: Extent, copied_to: int) -> bool:
    """Whether nothing is left to copy. A source whose retention took everything behind the copy's end has nothing left either."""
    return copied_to >= source.end or (source.start == source.end and copied_to > 0)


def _clamped(position: Position, extent: Extent) -> Position:
    """The leader epoch is that of the record before the offset, so it goes when the offset moves."""
    offset = max(extent.start, min(position.offset, extent.end))
    return position if offset == position.offset else Position(offset, -1, position.metadata)
