"""The retained offsets of the topic, compared with the offsets to read. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from isthmus_lag.offsets import Position

_ALLOWED: Final = "With failOnDataLoss=false (isthmus lag stream --no-fail-on-data-loss)"


class SamplesLost(Exception):
    """The topic no longer contains the offsets to read."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The retained offsets of a partition."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class RetainedTopic:
    """The current id and retained offsets of the topic."""

    topic_id: str | None
    extents: Mapping[int, Extent]

    @property
    def end(self) -> Position:
        """The end offset of each partition."""
        return Position(self.topic_id, {partition: extent.end for partition, extent in self.extents.items()})


def check_retained(name: str, ranges: Mapping[int, tuple[int, int]], retained: RetainedTopic) -> None:
    """Raises SamplesLost if the topic does not contain the whole of each range (start, exclusive end)."""
    lost = [
        message
        for partition, (start, end) in sorted(ranges.items())
        if (message := _loss(partition, start, end, retained.extents.get(partition)))
    ]
    if lost:
        raise SamplesLost(
            f"topic {name} no longer contains the offsets to read: {'; '.join(lost)}. They were removed by retention, a deletion of "
            f"records or an unclean election. {_ALLOWED} the remaining records are read."
        )


def _loss(partition: int, start: int, end: int, extent: Extent | None) -> str | None:
    if extent is None:
        return f"partition {partition} no longer exists (next offset {start})"
    if start > extent.end:
        return f"partition {partition} ends at offset {extent.end}, before the next offset {start}"
    if start < end and start < extent.start:
        return f"partition {partition} lost offsets {start} to {min(end, extent.start) - 1} because it now begins at {extent.start}"
    if end > extent.end:
        return f"partition {partition} lost offsets {extent.end} to {end - 1} because it now ends at {extent.end}"
    return None


def check_same(name: str, position: Position, topic_id: str | None) -> None:
    """Raises SamplesLost if the topic was recreated since the offsets were stored."""
    if not position.is_of(topic_id):
        offsets = ", ".join(
            f"offset {offset} of partition {partition}" for partition, offset in position.offsets.items()
        )
        raise SamplesLost(
            f"topic {name} was deleted and recreated: the records of the old topic (id {position.topic_id}) from {offsets} are lost; the "
            f"new topic has id {topic_id}. {_ALLOWED} the new topic is read from its beginning."
        )
