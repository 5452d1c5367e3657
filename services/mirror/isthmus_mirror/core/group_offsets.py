"""What a group's committed offset in the source is in the copy, and whether to write it there."""

from collections.abc import Mapping
from typing import NamedTuple

from isthmus_mirror.core.offset_map import OffsetMap
from isthmus_mirror.core.progress import Place
from isthmus_mirror.core.records import Checkpoint


class Committed(NamedTuple):
    """A group's offset in the source."""

    offset: int
    metadata: str | None


def translated(committed: Committed, known: OffsetMap) -> Checkpoint:
    """Exactly: the copy's first record that the group has not read. One that is ahead of the copy waits at its end, and skips nothing."""
    return Checkpoint(committed.offset, known.to_downstream(committed.offset), committed.metadata or "")


def offsets_to_write(
    checkpoints: Mapping[Place, Checkpoint], target: Mapping[Place, int], starts: Mapping[Place, int]
) -> dict[Place, Checkpoint]:
    """Of a group without members, by partitions of the copy: never backwards, and never before what the copy still has."""
    wanted: dict[Place, Checkpoint] = {}
    for place, checkpoint in sorted(checkpoints.items()):
        if place not in starts:
            continue
        offset = max(checkpoint.downstream, starts[place])
        known = target.get(place)
        if known is None or known < offset:
            wanted[place] = checkpoint._replace(downstream=offset)
    return wanted
