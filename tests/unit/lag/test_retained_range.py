"""What a topic lost, as people are told."""

import pytest
from isthmus_lag.offsets import Position
from isthmus_lag.retained_range import Extent, Held, SamplesLost, check_held, check_same

HELD = Held("new", {0: Extent(10, 30), 1: Extent(0, 5)})


@pytest.mark.parametrize(
    ("partition", "wanted", "message"),
    [
        (0, (4, 20), "partition 0 lost offsets 4 to 9, for it begins at 10 now"),
        (0, (4, 8), "partition 0 lost offsets 4 to 7, for it begins at 10 now"),
        (0, (12, 33), "partition 0 lost offsets 30 to 32, for it ends at 30 now"),
        (1, (8, 8), "partition 1 was to be read from offset 8 on, and ends at 5 now"),
        (2, (3, 9), "partition 2 is not there, of which offset 3 was next"),
    ],
)
def test_which_partition_lost_what_is_told(partition: int, wanted: tuple[int, int], message: str) -> None:
    with pytest.raises(SamplesLost) as lost:
        check_held("t", {partition: wanted}, HELD)
    assert message in str(lost.value)
    assert "--no-fail-on-data-loss" in str(lost.value)


def test_all_losses_are_told_at_once() -> None:
    with pytest.raises(SamplesLost, match=r"partition 0 lost .*; partition 1 lost offsets 5 to 6"):
        check_held("t", {1: (0, 7), 0: (0, 11)}, HELD)


def test_what_is_there_and_what_is_empty_is_no_loss() -> None:
    check_held("t", {0: (10, 30), 1: (5, 5)}, HELD)
    check_held("t", {0: (3, 3)}, HELD)


def test_a_topic_that_was_made_anew_is_told() -> None:
    with pytest.raises(
        SamplesLost, match=r"t was deleted and made anew: .*id old.* from offset 7 of partition 0 on .* id new"
    ):
        check_same("t", Position("old", {0: 7}), "new")
    check_same("t", Position("new", {0: 7}), "new")
