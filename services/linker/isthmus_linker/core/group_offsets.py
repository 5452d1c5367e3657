"""Choose the committed offsets of the source's groups to write at the destination.

They are clamped to the destination's log, so that a group never starts beyond the copied records, and a sync never moves them back.
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
    """The offsets of one group, by the destination's partitions; a partition of unknown extent waits for the next sync."""
    writes: dict[P, Position] = {}
    for partition, position in sorted(source.items()):
        extent = extents.get(partition)
        if extent is None:
            continue
        clamped = _clamped(position, extent)
        current = destination.get(partition)
        if current is None or current.offset < clamped.offset:
            writes[partition] = clamped
    return writes


def is_drained(source: Extent, copied_to: int) -> bool:
    """Whether nothing is left to copy, also when the source's retention removed everything after the copy's end."""
    return copied_to >= source.end or (source.start == source.end and copied_to > 0)


def _clamped(position: Position, extent: Extent) -> Position:
    """Clamp an offset. The leader epoch belongs to the record before the offset, so it is dropped when the offset moves."""
    offset = max(extent.start, min(position.offset, extent.end))
    return position if offset == position.offset else Position(offset, -1, position.metadata)
