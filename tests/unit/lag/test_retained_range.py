"""Errors about lost samples."""

import pytest
from isthmus_lag.offsets import Position
from isthmus_lag.retained_range import Extent, RetainedTopic, SamplesLost, check_retained, check_same

RETAINED = RetainedTopic("new", {0: Extent(10, 30), 1: Extent(0, 5)})


@pytest.mark.parametrize(
    ("partition", "offsets", "message"),
    [
        (0, (4, 20), "partition 0 lost offsets 4 to 9 because it now begins at 10"),
        (0, (4, 8), "partition 0 lost offsets 4 to 7 because it now begins at 10"),
        (0, (12, 33), "partition 0 lost offsets 30 to 32 because it now ends at 30"),
        (1, (8, 8), "partition 1 ends at offset 5, before the next offset 8"),
        (2, (3, 9), "partition 2 no longer exists (next offset 3)"),
    ],
)
def test_the_error_names_the_partition_and_the_lost_offsets(
    partition: int, offsets: tuple[int, int], message: str
) -> None:
    with pytest.raises(SamplesLost) as lost:
        check_retained("t", {partition: offsets}, RETAINED)
    assert message in str(lost.value)
    assert "--no-fail-on-data-loss" in str(lost.value)


def test_the_error_names_all_losses() -> None:
    with pytest.raises(SamplesLost, match=r"partition 0 lost .*; partition 1 lost offsets 5 to 6"):
        check_retained("t", {1: (0, 7), 0: (0, 11)}, RETAINED)


def test_retained_and_empty_ranges_are_not_lost() -> None:
    check_retained("t", {0: (10, 30), 1: (5, 5)}, RETAINED)
    check_retained("t", {0: (3, 3)}, RETAINED)


def test_a_recreated_topic_is_an_error() -> None:
    with pytest.raises(
        SamplesLost, match=r"t was deleted and recreated: .*id old.* from offset 7 of partition 0 are lost.* id new"
    ):
        check_same("t", Position("old", {0: 7}), "new")
    check_same("t", Position("new", {0: 7}), "new")
