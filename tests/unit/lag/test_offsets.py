"""Options of the data source, and the ranges they come to."""

import pytest
from isthmus_lag.offsets import EARLIEST, LATEST, Bound, Kind, OffsetRange, limited, parse_bounds, split
from isthmus_lag.source import parse_options


@pytest.mark.parametrize(
    ("options", "partition", "bound"),
    [
        ({}, 3, Bound(Kind.OFFSET, EARLIEST)),
        ({"startingOffsets": "Latest"}, 3, Bound(Kind.OFFSET, LATEST)),
        ({"startingOffsets": '{"t": {"0": 23, "1": -2}}'}, 0, Bound(Kind.OFFSET, 23)),
        ({"startingOffsets": '{"t": {"0": 23, "1": -2}}'}, 1, Bound(Kind.OFFSET, EARLIEST)),
        ({"startingTimestamp": "170"}, 0, Bound(Kind.TIME, 170)),
        ({"startingOffsetsByTimestamp": '{"t": {"2": 9}}'}, 2, Bound(Kind.TIME, 9)),
    ],
)
def test_bounds(options: dict[str, str], partition: int, bound: Bound) -> None:
    assert parse_bounds(options, "starting", "t", EARLIEST).of(partition) == bound


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "soon"}, "wants earliest, latest or JSON"),
        ({"startingOffsets": '{"other": {}}'}, "wants earliest, latest or JSON"),
        ({"startingOffsets": '{"t": {"0": -3}}'}, "a number below -2"),
        ({"startingOffsetsByTimestamp": '{"t": {"0": -1}}'}, "a number below 0"),
        ({"startingTimestamp": "noon"}, "wants milliseconds"),
        ({"startingTimestamp": "1", "startingOffsets": "earliest"}, "not both"),
    ],
)
def test_wrong_bounds_are_told(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_bounds(options, "starting", "t", EARLIEST)


def test_a_partition_that_is_left_out_is_told() -> None:
    bounds = parse_bounds({"startingOffsets": '{"t": {"0": 1}}'}, "starting", "t", EARLIEST)
    with pytest.raises(ValueError, match="not partition 1"):
        bounds.of(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "bootstrap is missing"),
        ({"bootstrap": "nowhere:x"}, "no address"),
        ({"bootstrap": "a:1", "maxRecordsPerPartition": "0"}, "wants a positive number"),
        ({"bootstrap": "a:1", "failOnDataLoss": "maybe"}, "wants true or false"),
        ({"bootstrap": "a:1", "endingOffsets": "latest"}, "a stream has no end"),
    ],
)
def test_wrong_options_are_told(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_options(options, streaming=True)


def test_a_range_is_split() -> None:
    assert [(one.start, one.end) for one in split(OffsetRange(0, 5, 12), 3)] == [(5, 8), (8, 11), (11, 12)]
    assert list(split(OffsetRange(0, 5, 5), 3)) == []


def test_a_limit_is_shared_by_who_is_behind_and_never_exceeded() -> None:
    start = {0: 0, 1: 10, 2: 0}
    assert limited(start, {0: 90, 1: 20, 2: 0}, 10) == {0: 9, 1: 11, 2: 0}
    assert limited(start, {0: 90, 1: 20, 2: 0}, 100) == {0: 90, 1: 20, 2: 0}
    assert limited({0: 0, 1: 0, 2: 0}, {0: 5, 1: 5, 2: 5}, 2) == {0: 1, 1: 1, 2: 0}
