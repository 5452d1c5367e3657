"""Which segments a leader copies next, and how it describes them."""

from uuid import UUID

import pytest
from isthmus_broker.core.log.retention import SegmentFacts
from isthmus_broker.core.tier.copying import Copied, closed, describe, epochs_below, next_to_copy
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


def due(
    *copied: RemoteSegment,
    epochs: list[EpochStart] | None = None,
    log_start: int = 0,
    last_stable: int = 400,
    local: list[SegmentFacts] = LOCAL,
) -> list[int]:
    tier = Copied(copies_of(*copied), epochs or chain((0, 0)), 400)
    chosen = next_to_copy(local, tier, log_start, last_stable)
    return [one.base_offset for one in chosen]


def test_closed_segments_that_are_not_in_the_tier_are_copied() -> None:
    assert due() == [0, 100, 200]
    assert due(segment_of(1, 0, 99)) == [100, 200]
    assert due(segment_of(1, 0, 149)) == [100, 200], "a part was copied by an earlier leader: it is copied whole"
    assert due(segment_of(1, 0, 149), segment_of(2, 120, 299)) == []
    assert due(segment_of(1, 100, 199)) == [0, 200], "a hole is filled"


def test_nothing_below_the_log_start_is_copied() -> None:
    assert due(log_start=150) == [100, 200]
    assert due(log_start=200) == [200]


@pytest.mark.parametrize(("last_stable", "bases"), [(299, [0, 100]), (200, [0, 100]), (199, [0]), (0, [])])
def test_segments_with_an_open_transaction_and_later_ones_wait(last_stable: int, bases: list[int]) -> None:
    assert due(last_stable=last_stable) == bases


def test_a_segment_ends_where_the_next_begins() -> None:
    gap = [SegmentFacts(0, 90, 1000, 5), SegmentFacts(100, 100, 0, -1)]
    assert [one.next_offset for one in closed(gap)] == [100]
    assert due(segment_of(1, 0, 89), local=gap) == [0]
    assert due(segment_of(1, 0, 99), local=gap) == []


def test_a_segment_without_batches_is_not_copied() -> None:
    assert due(local=[SegmentFacts(0, 100, 0, -1), *LOCAL[1:]]) == [100, 200]


def test_what_a_deposed_leader_copied_of_its_own_does_not_count() -> None:
    copied = [segment_of(1, 0, 99), segment_of(2, 100, 199)]
    assert due(*copied) == [200]
    assert due(*copied, epochs=chain((0, 0), (1, 150))) == [100, 200]
    assert due(*copied, segment_of(3, 100, 149), epochs=chain((0, 0), (1, 150)), last_stable=200) == [100]
    recopied = segment_of(3, 100, 199, (0, 100), (1, 150))
    assert due(*copied, recopied, epochs=chain((0, 0), (1, 150))) == [200]
    assert due(*copied, epochs=chain((0, 0), (1, 200))) == [200]
    assert due(*copied, epochs=chain((3, 0))) == [0, 100, 200]


def test_a_description_has_the_epochs_of_its_records() -> None:
    epochs = chain((0, 0), (1, 150), (2, 150), (4, 199), (5, 200))
    segment = describe(PLACE, UUID(int=7), LOCAL[1], epochs, 3, WallMs(11), has_aborted=False)
    assert segment.epochs == tuple(chain((0, 100), (2, 150), (4, 199)))
    assert (segment.start_offset, segment.end_offset, segment.size, segment.largest_timestamp) == (100, 199, 1000, 5)
    assert (segment.state, segment.broker_id, segment.changed_ms) == (State.COPY_STARTED, 3, 11)
    assert epochs_below(epochs, 200) == epochs[:-1]
