"""Translate a group's committed offsets, and decide which to commit in the target."""

from collections.abc import Mapping
from typing import NamedTuple

from isthmus_mirror.core.offset_map import OffsetMap
from isthmus_mirror.core.progress import Place


class Translation(NamedTuple):
    """A group's offset in the source, and its translation."""

    upstream: int
    downstream: int
    metadata: str


class Committed(NamedTuple):
    """A group's offset in the source."""

    offset: int
    metadata: str | None


def translated(committed: Committed, offsets: OffsetMap, back: OffsetMap | None = None) -> Translation:
    """Translate an offset exactly to the copy's first record that the group has not read; the copy's end for a group ahead of it.

    If a flow copies the target's own records to the source, its map (`back`) shows which of those the group has read there: it continues at
    the first record of either origin that it has not read, and may read later ones again.
    """
    downstream = offsets.to_downstream(committed.offset)
    if back is not None:
        downstream = min(downstream, back.first_upstream(committed.offset))
    return Translation(committed.offset, downstream, committed.metadata or "")


def offsets_to_write(
    translations: Mapping[Place, Translation], target: Mapping[Place, int], starts: Mapping[Place, int]
) -> dict[Place, Translation]:
    """The commits for a group without members, by partition of the copy: never backwards, never below the copy's log start."""
    writes: dict[Place, Translation] = {}
    for place, translation in sorted(translations.items()):
        if place not in starts:
            continue
        offset = max(translation.downstream, starts[place])
        committed = target.get(place)
        if committed is None or committed < offset:
            writes[place] = translation._replace(downstream=offset)
    return writes
