"""Remote segments for tests."""

from typing import Final
from uuid import UUID

from isthmus_tier.core.segments import EpochStart, Place, RemoteSegment, State

PLACE: Final = Place("topicA", UUID("01020304-0506-0708-1112-131415161718"), 3)


def segment_of(
    number: int, start: int, end: int, *epochs: tuple[int, int], state: State = State.COPY_STARTED, size: int = 1000
) -> RemoteSegment:
    """A segment with that number for its id; without epochs, all of it is of epoch 0."""
    return RemoteSegment(
        place=PLACE,
        id=UUID(int=number),
        start_offset=start,
        end_offset=end,
        epochs=tuple(EpochStart(*one) for one in epochs or ((0, start),)),
        size=size,
        largest_timestamp=1_700_000_000_000 + end,
        broker_id=1,
        changed_ms=number,
        state=state,
    )
