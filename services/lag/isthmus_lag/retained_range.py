"""What the topic holds, beside what was to be read of it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from isthmus_lag.offsets import Position

_ALLOWED: Final = "With failOnDataLoss=false (isthmus lag stream --no-fail-on-data-loss)"


class SamplesLost(Exception):
    """The topic does not hold any more what was to be read."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The offsets that a partition holds."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Held:
    """The topic as it is now."""

    topic_id: str | None
    extents: Mapping[int, Extent]

    @property
    def end(self) -> Position:
        """After the last record of each partition."""
        return Position(self.topic_id, {partition: extent.end for partition, extent in self.extents.items()})


def check_held(name: str, wanted: Mapping[int, tuple[int, int]], held: Held) -> None:
    """Raises SamplesLost when a range (from, to before) is not in the topic, or not whole."""
    lost = [
        told
        for partition, (start, end) in sorted(wanted.items())
        if (told := _loss(partition, start, end, held.extents.get(partition)))
    ]
    if lost:
        raise SamplesLost(
            f"{name} does not hold any more what was to be read: {'; '.join(lost)}. Retention, a deletion of records or an unclean "
            f"election took it. {_ALLOWED} what is left is read."
        )


def _loss(partition: int, start: int, end: int, extent: Extent | None) -> str | None:
    if extent is None:
        return f"partition {partition} is not there, of which offset {start} was next"
    if start > extent.end:
        return f"partition {partition} was to be read from offset {start} on, and ends at {extent.end} now"
    if start < end and start < extent.start:
        return f"partition {partition} lost offsets {start} to {min(end, extent.start) - 1}, for it begins at {extent.start} now"
    if end > extent.end:
        return f"partition {partition} lost offsets {extent.end} to {end - 1}, for it ends at {extent.end} now"
    return None


def check_same(name: str, position: Position, topic_id: str | None) -> None:
    """Raises SamplesLost when the offsets are of a topic that is gone."""
    if not position.is_of(topic_id):
        stood = ", ".join(f"offset {offset} of partition {partition}" for partition, offset in position.offsets.items())
        raise SamplesLost(
            f"topic {name} was deleted and made anew: what the old one (id {position.topic_id}) had from {stood} on is gone, and the "
            f"new one has id {topic_id}. {_ALLOWED} the new one is read from its beginning."
        )
