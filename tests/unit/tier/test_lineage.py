"""Which segments belong to the history of a log."""

import pytest
from isthmus_tier.core.lineage import belongs, with_records
from isthmus_tier.core.segments import EpochStart

from tests.unit.tier.segments import segment_of


def chain(*entries: tuple[int, int]) -> list[EpochStart]:
    return [EpochStart(*one) for one in entries]


def test_of_epochs_that_begin_at_one_offset_the_last_has_the_records() -> None:
    assert with_records([]) == []
    assert with_records(chain((0, 0), (1, 10), (2, 10), (3, 10), (5, 12))) == chain((0, 0), (3, 10), (5, 12))


@pytest.mark.parametrize(
    ("epochs", "log", "expected"),
    [
        ([(0, 0)], [(0, 0)], True),
        ([(0, 10)], [(0, 0), (1, 100)], True),
        # The epoch ends before the segment does: a leader that was deposed has written the rest.
        ([(0, 10)], [(0, 0), (1, 40)], False),
        # An epoch that the log does not have.
        ([(0, 10), (1, 20)], [(0, 0), (2, 20)], False),
        ([(3, 10)], [(0, 0), (2, 20)], False),
        # An epoch of the log that the segment does not have.
        ([(0, 10), (2, 30)], [(0, 0), (1, 20), (2, 30)], False),
        # The log was cut at its start: what is before is not compared.
        ([(5, 14), (7, 15), (9, 40)], [(7, 20), (9, 40)], True),
        ([(5, 14), (7, 15), (9, 41)], [(7, 20), (9, 40)], False),
        ([(5, 14)], [(7, 20), (9, 40)], False),
        # The segment begins with an epoch before the log does.
        ([(1, 10), (2, 30)], [(0, 0), (1, 20), (2, 30)], False),
        # Epochs without records are not compared.
        ([(1, 10), (2, 30), (3, 30)], [(1, 10), (3, 30)], True),
        ([(0, 0)], [], False),
    ],
)
def test_a_segment_belongs_to_the_log_whose_epochs_it_has(
    epochs: list[tuple[int, int]], log: list[tuple[int, int]], *, expected: bool
) -> None:
    assert belongs(segment_of(1, epochs[0][1], 50, *epochs), chain(*log), log_end=100) is expected


@pytest.mark.parametrize(("log_end", "expected"), [(50, False), (51, True)])
def test_a_segment_beyond_the_end_of_the_log_does_not_belong_to_it(log_end: int, *, expected: bool) -> None:
    assert belongs(segment_of(1, 0, 50), chain((0, 0)), log_end) is expected
