"""What a group's committed offset in the source is in the copy, and whether to write it there."""

from collections.abc import Mapping
from typing import NamedTuple

from isthmus_mirror.core.offset_map import OffsetMap
from isthmus_mirror.core.progress import Place


class Translation(NamedTuple):
    """A group's offset in the source, and what it is in the copy."""

    upstream: int
    downstream: int
    metadata: str


class Committed(NamedTuple):
    """A group's offset in the source."""

    offset: int
    metadata: str | None


def translated(committed: Committed, offsets: OffsetMap) -> Translation:
    """The copy's first record that the group has not read, exactly. A group ahead of the copy gets the copy's end, and skips nothing."""
    return Translation(committed.offset, offsets.to_downstream(committed.offset), committed.metadata or "")


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
