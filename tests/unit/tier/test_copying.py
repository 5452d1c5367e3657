"""Which segments a leader copies next, and how it describes them."""

from uuid import UUID

import pytest
from isthmus_broker.core.log.retention import SegmentFacts
from isthmus_broker.core.tier.copying import copied_to, describe, epochs_below, next_to_copy
from isthmus_model.clocks import WallMs
from isthmus_tier.core.partition_segments import PartitionSegments
from isthmus_tier.core.records import Update
from isthmus_tier.core.segments import EpochStart, RemoteSegment, State

from tests.unit.tier.segments import PLACE, segment_of

LOCAL = [SegmentFacts(start, start + 100, 1000, 5) for start in (0, 100, 200, 300)]


def copies_of(*segments: RemoteSegment) -> PartitionSegments:
    of = PartitionSegments()
    for segment in segments:
        of.apply(segment)
        of.apply(Update(PLACE, segment.id, 1, 5, State.COPY_FINISHED))
    return of


def chain(*entries: tuple[int, int]) -> list[EpochStart]:
    return [EpochStart(*one) for one in entries]


@pytest.mark.parametrize(
    ("copied", "log_start", "last_stable", "bases"),
    [
        (-1, 0, 400, [0, 100, 200]),
        (99, 0, 400, [100, 200]),
        (299, 0, 400, []),
        # A part of a segment was copied by an earlier leader: it is copied whole.
        (149, 0, 400, [100, 200]),
        # Below the log start nothing is worth a copy.
        (-1, 150, 400, [100, 200]),
        # A transaction is open: its segment and those after it wait, one that ends where it begins does not.
        (-1, 0, 299, [0, 100]),
        (-1, 0, 200, [0, 100]),
        (-1, 0, 0, []),
    ],
)
def test_closed_segments_below_the_last_stable_offset_are_copied(
    copied: int, log_start: int, last_stable: int, bases: list[int]
) -> None:
    assert [one.base_offset for one in next_to_copy(LOCAL, copied, log_start, last_stable)] == bases


def test_a_segment_ends_where_the_next_begins() -> None:
    gap = [SegmentFacts(0, 90, 1000, 5), SegmentFacts(100, 100, 0, -1)]
    assert [one.next_offset for one in next_to_copy(gap, -1, 0, 100)] == [100]


def test_a_segment_without_batches_is_not_copied() -> None:
    empty = [SegmentFacts(0, 100, 0, -1), *LOCAL[1:]]
    assert [one.base_offset for one in next_to_copy(empty, -1, 0, 400)] == [100, 200]


def test_what_a_deposed_leader_copied_of_its_own_does_not_count() -> None:
    segments = copies_of(segment_of(1, 0, 99), segment_of(2, 100, 199))
    assert copied_to(segments, chain((0, 0)), 400) == 199
    assert copied_to(segments, chain((0, 0), (1, 150)), 400) == 149
    assert copied_to(segments, chain((0, 0), (1, 150)), 150) == 149
    assert copied_to(segments, chain((3, 0)), 400) == -1
    assert copied_to(segments, [], 400) == -1


def test_a_description_has_the_epochs_of_its_records() -> None:
    epochs = chain((0, 0), (1, 150), (2, 150), (4, 199), (5, 200))
    segment = describe(PLACE, UUID(int=7), LOCAL[1], epochs, 3, WallMs(11), has_aborted=False)
    assert segment.epochs == tuple(chain((0, 100), (2, 150), (4, 199)))
    assert (segment.start_offset, segment.end_offset, segment.size, segment.largest_timestamp) == (100, 199, 1000, 5)
    assert (segment.state, segment.broker_id, segment.changed_ms) == (State.COPY_STARTED, 3, 11)
    assert epochs_below(epochs, 200) == epochs[:-1]
