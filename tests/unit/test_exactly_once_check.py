"""The check of exactly-once names what is wrong with an output, and finds nothing in a correct one."""

from collections.abc import Callable

import pytest

from tests.exactly_once.check import Outcome, exactly_once_violations
from tests.exactly_once.reader import Contents, Record
from tests.exactly_once.workload import Kind, Workload
from tests.histories import Ending

IN, OUT = ("copy-input", 0), ("copy-output", 0)
INPUT = Contents(IN, 0, 3, [Record(IN, number, b"0", b"%d" % number) for number in range(3)])
VALUES = (b"1 0:0 a", b"4 0:1 a", b"7 0:2 b")
ENDINGS = (Ending("a", commits=True), Ending("b", commits=True), Ending("c", commits=False))


def workload(kind: Kind = "transform") -> Workload:
    return Workload(bootstrap="", kind=kind, partitions=1)


def outcome(*values: bytes, offset: int = 3) -> Outcome:
    """Records at successive offsets, in a log that ends behind them; a reader got them all."""
    records = [Record(OUT, at, b"0", value) for at, value in enumerate(values)]
    output = Contents(OUT, 0, len(records) + 1, records)
    return Outcome([INPUT], [output], records, {IN: offset}, ENDINGS)


def named(found: list[str]) -> set[str]:
    return {violation.partition(":")[0] for violation in found}


def test_an_output_that_has_every_effect_once() -> None:
    assert exactly_once_violations(workload(), outcome(*VALUES)) == []


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("lost-write", VALUES[:2]),
        ("duplicate", (*VALUES, b"7 0:2 a")),
        ("nonmonotonic-send", (VALUES[1], VALUES[0], VALUES[2])),
        ("aborted-read", (*VALUES[:2], b"7 0:2 c")),
        ("precommitted-read", (*VALUES[:2], b"7 0:2 d")),
        ("unsent", (*VALUES, b"10 0:3 b")),
        ("unsent", (*VALUES[:2], b"8 0:2 b")),
    ],
)
def test_a_wrong_output(name: str, values: tuple[bytes, ...]) -> None:
    assert name in named(exactly_once_violations(workload(), outcome(*values)))


@pytest.mark.parametrize(
    ("names", "spoil"),
    [
        ({"lost-commit"}, lambda correct: correct._replace(offsets={IN: 2})),
        ({"lost-commit"}, lambda correct: correct._replace(offsets={})),
        ({"poll-skip"}, lambda correct: correct._replace(polled=[*correct.polled[:1], *correct.polled[2:]])),
        ({"nonmonotonic-poll"}, lambda correct: correct._replace(polled=[*correct.polled, correct.polled[0]])),
        (
            {"unseen", "torn-transaction"},
            lambda correct: correct._replace(polled=[*correct.polled, Record(OUT, 7, b"0", b"10 0:3 b")]),
        ),
        (
            {"inconsistent-offsets", "torn-transaction"},
            lambda correct: correct._replace(polled=[Record(OUT, 0, b"0", b"1 0:0 b")]),
        ),
    ],
)
def test_a_wrong_observation(names: set[str], spoil: Callable[[Outcome], Outcome]) -> None:
    assert named(exactly_once_violations(workload(), spoil(outcome(*VALUES)))) == names


def aggregated(*values: bytes) -> list[str]:
    """What is wrong with the counts of three input records of one group."""
    numbers = (b"0", b"8", b"16")
    source = Contents(IN, 0, 3, [Record(IN, at, b"0", number) for at, number in enumerate(numbers)])
    return exactly_once_violations(workload("aggregate"), outcome(*values)._replace(input=[source]))


def test_an_aggregation() -> None:
    assert aggregated(b"1 0:0", b"2 0:1", b"3 0:2") == []


@pytest.mark.parametrize(
    ("names", "values"),
    [
        ({"duplicate"}, (b"1 0:0", b"2 0:1", b"2 0:1", b"3 0:2")),
        ({"duplicate", "unsent"}, (b"1 0:0", b"2 0:1", b"3 0:1", b"4 0:2")),
        ({"lost-write", "duplicate"}, (b"1 0:0", b"2 0:1", b"2 0:2")),
        ({"lost-write"}, (b"1 0:0", b"2 0:1")),
        ({"nonmonotonic-send"}, (b"1 0:0", b"2 0:2", b"3 0:1")),
    ],
)
def test_a_wrong_aggregation(names: set[str], values: tuple[bytes, ...]) -> None:
    assert named(aggregated(*values)) == names
