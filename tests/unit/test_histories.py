"""Each predicate of the history checker finds its violation, and a correct history has none."""

import pytest

from tests.histories import (
    UNKNOWN,
    Acknowledged,
    CommitConfirmed,
    CommitRead,
    CommitRequested,
    Ending,
    Event,
    FinalRead,
    Polled,
    Positioned,
    Refused,
    Sent,
    StillOpen,
    Trimmed,
    violations,
)

P = ("t", 0)


def sent(*values: bytes, producer: str = "p", key: bytes | None = None, transaction: str | None = None) -> list[Event]:
    return [Sent(producer, P, value, key, transaction) for value in values]


def polled(*records: tuple[int, bytes], committed: bool = False) -> list[Event]:
    return [Polled("c", P, offset, value, committed) for offset, value in records]


def final(*values: bytes, start: int = 0, end: int | None = None, committed: bool = False) -> FinalRead:
    records = dict(enumerate(values, start))
    return FinalRead(P, start, start + len(values) if end is None else end, records, read_committed=committed)


def test_a_correct_history_has_no_violation() -> None:
    history = [
        *sent(b"1", b"2", b"3"),
        Acknowledged(P, b"1", 0),
        Acknowledged(P, b"2", UNKNOWN),
        Positioned("c", P, 0),
        *polled((0, b"1"), (1, b"2"), (2, b"3")),
        CommitRequested("g", P, 3),
        CommitConfirmed("g", P, 3),
        CommitRead("g", P, 3),
        final(b"1", b"2", b"3"),
    ]
    assert violations(history) == []


def test_records_sent_again_under_another_producer_epoch_are_counted() -> None:
    read = final(b"1", b"2", b"1", b"2")
    resent = read._replace(writers={0: (7, 0), 1: (7, 0), 2: (7, 1), 3: (7, 1)})
    assert violations([*sent(b"1", b"2"), resent]) == []
    assert resent.resent() == 2
    for first, second in (((7, 0), (7, 0)), ((7, 1), (7, 0)), ((7, 0), (8, 1))):
        writers = {0: first, 1: first, 2: second, 3: second}
        assert len(violations([*sent(b"1", b"2"), read._replace(writers=writers)])) == 2
    for writers in ({}, {0: (7, 0), 1: (7, 0)}):
        assert len(violations([*sent(b"1", b"2"), read._replace(writers=writers)])) == 2


@pytest.mark.parametrize(
    ("name", "history"),
    [
        ("lost-write", [*sent(b"1", b"2"), Acknowledged(P, b"1", 0), FinalRead(P, 0, 2, {1: b"2"})]),
        ("lost-write", [*sent(b"1", b"2"), final(b"2", start=1)]),
        ("unseen", [*sent(b"1", b"2"), Acknowledged(P, b"2", 1), final(b"1")]),
        ("duplicate", [*sent(b"1"), final(b"1", b"1")]),
        ("inconsistent-offsets", [*sent(b"1", b"2"), *polled((0, b"1")), final(b"2")]),
        ("inconsistent-offsets", [*sent(b"1", b"2"), Acknowledged(P, b"1", 0), *polled((0, b"2"))]),
        ("unsent", [final(b"1")]),
        ("aborted-read", [*sent(b"1"), Refused(P, b"1"), final(b"1")]),
        ("nonmonotonic-send", [*sent(b"1", b"2"), Acknowledged(P, b"1", 1), Acknowledged(P, b"2", 0)]),
        ("nonmonotonic-poll", [*sent(b"1", b"2"), Positioned("c", P, 1), *polled((1, b"2"), (0, b"1"))]),
        ("poll-skip", [*sent(b"1", b"2"), Positioned("c", P, 0), *polled((1, b"2")), final(b"1", b"2")]),
        (
            "aborted-read",
            [*sent(b"1", transaction="x"), Ending("x", commits=False), *polled((0, b"1"), committed=True)],
        ),
        ("precommitted-read", [*sent(b"1", transaction="x"), *polled((0, b"1"), committed=True)]),
        ("aborted-read", [*sent(b"1", transaction="x"), Ending("x", commits=False), final(b"1", committed=True)]),
        ("precommitted-read", [*sent(b"1", transaction="x"), final(b"1", committed=True)]),
        (
            "poll-skip",
            [
                *sent(b"1", b"2", transaction="x"),
                Ending("x", commits=True),
                Positioned("c", P, 0),
                *polled((1, b"2"), committed=True),
                final(b"1", b"2", committed=True),
            ],
        ),
        ("lost-write", [*sent(b"1", b"2"), *polled((0, b"1"), committed=True), FinalRead(P, 0, 2, {1: b"2"})]),
        ("unseen", [*sent(b"1"), *polled((0, b"1"), committed=True), FinalRead(P, 0, 0, {})]),
        (
            "nonmonotonic-send",
            [*sent(b"1", b"2"), *(Acknowledged(P, value, UNKNOWN) for value in (b"1", b"2")), final(b"2", b"1")],
        ),
        ("hanging-transaction", [StillOpen("t-0")]),
        ("lost-commit", [CommitRequested("g", P, 3), CommitConfirmed("g", P, 3), CommitRead("g", P, UNKNOWN)]),
        (
            "lost-commit",
            [
                CommitRequested("g", P, 3),
                CommitConfirmed("g", P, 3),
                CommitRequested("g", P, 4),
                CommitConfirmed("g", P, 4),
                CommitRead("g", P, 3),
            ],
        ),
    ],
)
def test_a_violation_is_named(name: str, history: list[Event]) -> None:
    found = violations(history)
    assert found
    assert all(problem.startswith(f"{name}: ") for problem in found)


def test_consumers_of_committed_records_pass_over_aborted_ones() -> None:
    history = [
        *sent(b"1", transaction="aborted"),
        *sent(b"2", transaction="committed"),
        Ending("aborted", commits=False),
        Ending("committed", commits=True),
        Positioned("c", P, 0),
        *polled((2, b"2"), committed=True),
        *(Polled("of all", P, offset, value) for offset, value in ((0, b"1"), (2, b"2"))),
        FinalRead(P, 0, 4, {2: b"2"}, read_committed=True),
    ]
    assert violations(history) == []


def test_records_that_were_to_be_deleted_are_not_lost() -> None:
    history = [*sent(b"1", b"2"), Acknowledged(P, b"1", 0), Trimmed(P, 1), final(b"2", start=1)]
    assert violations(history) == []


def test_compaction_keeps_the_last_value_of_each_key() -> None:
    history = [
        *sent(b"1", b"2", key=b"k"),
        Acknowledged(P, b"1", 0),
        Acknowledged(P, b"2", 1),
        FinalRead(P, 0, 2, {1: b"2"}),
    ]
    assert violations(history, ["t"]) == []
    assert [problem.split(":")[0] for problem in violations(history)] == ["lost-write"]
    history[-1] = FinalRead(P, 0, 2, {0: b"1"})
    assert [problem.split(":")[0] for problem in violations(history, ["t"])] == ["lost-write"]


def test_a_commit_that_was_not_confirmed_may_take_effect_later() -> None:
    commits: list[Event] = [CommitRequested("g", P, 3), CommitRequested("g", P, 4), CommitConfirmed("g", P, 4)]
    assert violations([*commits, CommitRead("g", P, 3)]) == []
