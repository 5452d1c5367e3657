"""What the records of a partition make known, against a model that searches all segments."""

from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isthmus_tier.core.partition_segments import PartitionSegments
from isthmus_tier.core.records import Update
from isthmus_tier.core.segments import RemoteSegment, State

from tests.unit.tier.segments import PLACE, segment_of

FINISHED, DELETING, DELETED = State.COPY_FINISHED, State.DELETE_STARTED, State.DELETE_FINISHED


def to(segment: RemoteSegment, state: State) -> Update:
    return Update(PLACE, segment.id, 1, 5, state)


def of(*segments: RemoteSegment) -> PartitionSegments:
    known = PartitionSegments()
    for segment in segments:
        assert known.apply(segment)
        assert known.apply(to(segment, FINISHED))
    return known


def number(found: RemoteSegment | None) -> int | None:
    return None if found is None else found.id.int


def test_a_segment_is_readable_from_the_end_of_its_copy_to_the_beginning_of_its_deletion() -> None:
    segment, known = segment_of(1, 0, 99), PartitionSegments()
    seen = []
    records: list[RemoteSegment | Update] = [segment, *(to(segment, state) for state in (FINISHED, DELETING, DELETED))]
    for record in records:
        assert known.apply(record)
        seen.append((number(known.find(0, 50)), len(known)))
    assert seen == [(None, 1), (1, 1), (None, 1), (None, 0)]


def test_records_that_contradict_earlier_ones_are_counted() -> None:
    segment, known = segment_of(1, 0, 99), PartitionSegments()
    assert not known.apply(to(segment, FINISHED))
    assert not known.apply(segment_of(2, 0, 99, state=FINISHED))
    assert known.apply(segment)
    assert not known.apply(to(segment, DELETED))
    assert known.apply(to(segment, DELETING))
    assert not known.apply(to(segment, FINISHED))
    assert known.contradictions == 4


def test_two_segments_of_the_same_offsets_differ_by_their_epochs() -> None:
    known = of(segment_of(1, 100, 199), segment_of(2, 120, 249, (0, 120), (1, 150)))
    assert [number(known.find(0, offset)) for offset in (99, 110, 130, 199)] == [None, 1, 1, 1]
    assert [number(known.find(1, offset)) for offset in (149, 150, 249, 250)] == [None, 2, 2, None]


def test_what_a_deleted_segment_covered_is_readable_again() -> None:
    small, large = segment_of(1, 100, 149), segment_of(2, 100, 199)
    known = of(small, large)
    assert number(known.find(0, 120)) == 2
    assert known.apply(to(large, DELETING))
    assert number(known.find(0, 120)) == 1
    assert known.find(0, 150) is None


def test_a_segment_that_is_covered_and_deleted_does_not_return() -> None:
    small, large = segment_of(1, 120, 149), segment_of(2, 100, 199)
    known = of(large, small)
    assert known.apply(to(small, DELETING))
    assert known.apply(to(large, DELETING))
    assert known.find(0, 130) is None


def test_an_update_may_change_what_the_store_wants_to_know() -> None:
    segment, known = segment_of(1, 0, 99), PartitionSegments()
    known.apply(segment)
    known.apply(to(segment, FINISHED)._replace(custom=b"where"))
    known.apply(to(segment, FINISHED))
    assert [one.custom for one in known.all()] == [b"where"]


@st.composite
def segments(draw: st.DrawFn) -> list[RemoteSegment]:
    made = []
    for identity in range(1, draw(st.integers(1, 8)) + 1):
        start = draw(st.integers(0, 30))
        end = start + draw(st.integers(0, 12))
        second = draw(st.integers(start, end + 1))
        epochs = [(0, start)] if second > start else []
        epochs += [(1, second)] if second <= end else []
        made.append(segment_of(identity, start, end, *epochs))
    return made


@given(segments(), st.randoms(use_true_random=False))
def test_every_readable_offset_has_its_segment_whatever_the_order(made: list[RemoteSegment], random: Random) -> None:
    known = of(*made)
    left = list(made)
    random.shuffle(left)
    check(known, left)
    while left:
        assert known.apply(to(left.pop(), DELETING))
        check(known, left)


def check(known: PartitionSegments, readable: Iterable[RemoteSegment]) -> None:
    held = {one.id: one for one in readable}
    for epoch in (0, 1):
        for offset in range(45):
            holders = [one for one in held.values() if holds(one, epoch, offset)]
            found = known.find(epoch, offset)
            assert (found is not None) == bool(holders), (epoch, offset)
            assert found is None or found.id in {one.id for one in holders}


def holds(segment: RemoteSegment, epoch: int, offset: int) -> bool:
    if not segment.start_offset <= offset <= segment.end_offset:
        return False
    begun = [one.epoch for one in segment.epochs if one.offset <= offset]
    return begun[-1] == epoch


@pytest.mark.parametrize("state", list(State))
def test_only_a_description_begins_a_segment(state: State) -> None:
    known = PartitionSegments()
    assert known.apply(segment_of(1, 0, 9, state=state)) is (state is State.COPY_STARTED)
    assert len(known) == (state is State.COPY_STARTED)
