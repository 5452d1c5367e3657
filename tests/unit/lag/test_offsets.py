"""Options of the data source, and the ranges they come to."""

import pytest
from isthmus_lag.offsets import (
    EARLIEST,
    LATEST,
    STRATEGY,
    Bound,
    Kind,
    OffsetRange,
    Position,
    limited,
    parse_bounds,
    split,
)
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
    bounds = parse_bounds(options, "starting", "t", EARLIEST)
    assert bounds.over(bounds.each or range(4))[partition] == bound


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "soon"}, "must be earliest, latest or JSON"),
        ({"startingOffsets": '{"other": {}}'}, "must be earliest, latest or JSON"),
        ({"startingOffsets": '{"t": {"0": -3}}'}, "a number below -2"),
        ({"startingOffsetsByTimestamp": '{"t": {"0": -1}}'}, "a number below 0"),
        ({"startingTimestamp": "noon"}, "must be milliseconds"),
        ({"startingTimestamp": "1", "startingOffsets": "earliest"}, "not both"),
    ],
)
def test_invalid_bounds_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_bounds(options, "starting", "t", EARLIEST)


@pytest.mark.parametrize("there", [(0, 1), (1,), ()])
def test_partitions_are_named_all_or_none(there: tuple[int, ...]) -> None:
    bounds = parse_bounds({"startingOffsets": '{"t": {"0": 1}}'}, "starting", "t", EARLIEST)
    with pytest.raises(ValueError, match="name every one of them"):
        bounds.over(there)


def test_a_time_after_the_last_record_is_the_end_only_with_the_strategy_latest() -> None:
    late = {"startingTimestamp": "9"}
    assert parse_bounds(late, "starting", "t", EARLIEST).strict
    assert not parse_bounds(late | {STRATEGY: "latest"}, "starting", "t", EARLIEST).strict
    assert not parse_bounds({"endingTimestamp": "9"}, "ending", "t", LATEST).strict
    with pytest.raises(ValueError, match="must be error or latest"):
        parse_bounds(late | {STRATEGY: "soon"}, "starting", "t", EARLIEST)


def test_a_position_is_kept_with_the_id_of_its_topic() -> None:
    position = Position("a", {1: 7, 0: 5})
    assert position.to_json() == {"topic_id": "a", "offsets": {"0": 5, "1": 7}}
    assert Position.from_json(position.to_json()) == position
    assert Position.from_json({"0": 5}) == Position(None, {0: 5})
    assert position.is_of("a")
    assert position.is_of(None)
    assert not position.is_of("b")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "bootstrap is missing"),
        ({"bootstrap": "nowhere:x"}, "is not an address"),
        ({"bootstrap": "a:1", "maxRecordsPerPartition": "0"}, "must be a positive number"),
        ({"bootstrap": "a:1", "failOnDataLoss": "maybe"}, "must be true or false"),
        ({"bootstrap": "a:1", "endingOffsets": "latest"}, "a stream has no end"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, str], message: str) -> None:
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
