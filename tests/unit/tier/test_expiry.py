"""Which segments a leader deletes from the tier."""

from dataclasses import replace
from typing import Any

import pytest
from isthmus_broker.core.tier.expiry import ABANDONED_MS, Expiry, Limits, LogFacts, expire
from isthmus_model.clocks import WallMs
from isthmus_tier.core.segments import EpochStart, RemoteSegment, State

from tests.unit.tier.segments import segment_of

NOW = WallMs(1_700_000_100_000)
AGES = (90_000, 80_000, 70_000)
KEEP = Limits(-1, -1)
LOG = LogFacts(broker_id=1, chain=[EpochStart(0, 0)], log_start=0, log_end=400, only_local=500)


def copied(number: int, start: int, end: int, *epochs: tuple[int, int], **fields: Any) -> RemoteSegment:
    segment = segment_of(number, start, end, *epochs, state=State.COPY_FINISHED)
    return replace(segment, largest_timestamp=NOW - AGES[number - 1], **fields)


THREE = [copied(1, 0, 99), copied(2, 100, 199), copied(3, 200, 299)]


def run(limits: Limits, log: LogFacts = LOG, segments: list[RemoteSegment] = THREE) -> tuple[list[int], int]:
    result: Expiry = expire(segments, log, limits, NOW)
    assert sum(result.reasons.values()) == len(result.doomed)
    return [one.id.int for one in result.doomed], result.log_start


def test_nothing_expires_without_limits() -> None:
    assert run(KEEP) == ([], 0)


@pytest.mark.parametrize(
    ("retention_ms", "doomed", "log_start"),
    [(80_000, [1], 100), (79_999, [1, 2], 200), (90_000, [], 0), (89_999, [1], 100), (0, [1, 2, 3], 300)],
)
def test_segments_that_are_older_than_the_limit_expire(retention_ms: int, doomed: list[int], log_start: int) -> None:
    assert run(Limits(retention_ms, -1)) == (doomed, log_start)


@pytest.mark.parametrize(
    ("retention_bytes", "doomed"), [(3500, []), (2501, []), (2500, [1]), (1500, [1, 2]), (0, [1, 2, 3])]
)
def test_segments_that_fit_into_the_excess_expire(retention_bytes: int, doomed: list[int]) -> None:
    assert run(Limits(-1, retention_bytes))[0] == doomed


def test_the_first_segment_to_keep_ends_the_walk() -> None:
    newer = [replace(THREE[0], largest_timestamp=NOW), *THREE[1:]]
    assert run(Limits(1, -1), segments=newer) == ([], 0)


def test_segments_below_the_log_start_expire() -> None:
    assert run(KEEP, replace(LOG, log_start=200)) == ([1, 2], 200)
    assert run(KEEP, replace(LOG, log_start=199)) == ([1], 199)


def test_what_an_interruption_left_is_deleted() -> None:
    ours = segment_of(4, 300, 399, state=State.COPY_STARTED)
    assert run(KEEP, segments=[*THREE, ours]) == ([4], 0)
    theirs = replace(ours, broker_id=2, changed_ms=NOW - ABANDONED_MS)
    assert run(KEEP, segments=[*THREE, theirs]) == ([], 0)
    assert run(KEEP, segments=[*THREE, replace(theirs, changed_ms=NOW - ABANDONED_MS - 1)]) == ([4], 0)
    half = replace(THREE[1], state=State.DELETE_STARTED)
    assert run(KEEP, segments=[THREE[0], half, THREE[2]]) == ([2], 0)


@pytest.mark.parametrize("limits", [KEEP, Limits(0, 0)])
def test_what_another_broker_may_still_be_copying_is_left_alone(limits: Limits) -> None:
    """Objects that it sends after the deletion would stay for good."""
    theirs = replace(THREE[0], state=State.COPY_STARTED, broker_id=2, changed_ms=NOW - ABANDONED_MS)
    cut = replace(LOG, log_start=200, chain=[EpochStart(3, 200)])
    assert run(limits, segments=[theirs])[0] == []
    assert run(limits, cut, [theirs])[0] == []


class TestAfterAnUncleanElection:
    """A led epoch 0 up to 199 and copied that; B, which ended at 150, led epoch 1 from there."""

    first = copied(1, 0, 99)
    divergent = copied(2, 100, 199)
    second = copied(3, 120, 249, (0, 120), (1, 150))
    segments = (first, divergent, second)
    log = replace(LOG, chain=[EpochStart(0, 0), EpochStart(1, 150)])

    def run(self, limits: Limits, log: LogFacts) -> tuple[list[int], int]:
        return run(limits, log, list(self.segments))

    def test_a_segment_that_diverges_does_not_expire_by_age(self) -> None:
        assert self.run(Limits(75_000, -1), self.log) == ([1], 100)
        assert self.run(Limits(0, -1), self.log) == ([1, 3], 250)

    def test_it_does_not_count_as_size(self) -> None:
        assert self.run(Limits(-1, 2500), self.log) == ([], 0)
        assert self.run(Limits(-1, 1500), self.log) == ([1], 100)

    def test_it_expires_when_the_log_start_passes_it_or_its_epochs(self) -> None:
        cut = replace(self.log, chain=[EpochStart(1, 160)], log_start=160)
        assert self.run(KEEP, cut) == ([1, 2], 160)


def test_a_log_without_epochs_deletes_nothing() -> None:
    assert run(Limits(0, 0), replace(LOG, chain=[], log_start=300)) == ([], 300)
