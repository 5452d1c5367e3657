"""Random lives of a compacted log, and planted defects that they must find."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final
from unittest.mock import patch

import pytest
from isthmus_broker.core.log import compaction
from isthmus_broker.core.log.compaction import CleaningRules, NewestOffsets, Transactions
from isthmus_broker.edge.storage import cleaner
from isthmus_broker.edge.storage.cleaner import _LogCleaning
from isthmus_wire.records import BatchHeader

from tests.edge.storage.cleaning import Violation, World

SEEDS: Final = 120
STEPS: Final = 120


def violation_of(seed: int) -> Violation | None:
    """Live a seed's life."""
    try:
        asyncio.run(World(seed).live(STEPS))
    except Violation as violation:
        return violation
    return None


@pytest.mark.parametrize("part", range(4))
def test_a_cleaned_log_reads_like_one_that_was_never_cleaned(part: int) -> None:
    for seed in range(part, SEEDS, 4):
        assert violation_of(seed) is None, f"seed {seed}"


@pytest.mark.parametrize("seed", [236, 282, 285, 523, 2149])
def test_a_transaction_that_ended_below_the_log_start_is_not_open_after_a_truncation(seed: int) -> None:
    """The producers' state was read from a snapshot and from the log start on, without the markers in between."""
    assert violation_of(seed) is None


def half_learnt() -> AbstractContextManager[Any]:
    """Count the part of the log that did not fit into the map of keys as clean."""

    async def read_newest(self: _LogCleaning, start: int, end: int) -> int:
        await original(self, start, end)
        return end

    original = _LogCleaning._read_newest
    return patch.object(_LogCleaning, "_read_newest", read_newest)


def aborted_learnt() -> AbstractContextManager[Any]:
    """Learn the keys of aborted transactions."""

    def learn(newest: NewestOffsets, transactions: Transactions, batch: bytes, header: BatchHeader, start: int) -> None:
        if not header.is_control:
            newest.learn(batch, header, start)

    return patch.object(cleaner, "learn", learn)


def markers_removed() -> AbstractContextManager[Any]:
    """Remove markers of transactions that still have batches, once a delete horizon has passed."""
    return patch.object(Transactions, "pass_marker", lambda self, header, *, committed: (True, None))


def tombstones_removed() -> AbstractContextManager[Any]:
    """Ignore delete.retention.ms."""
    return patch.object(cleaner, "CleaningRules", lambda _retention, now: CleaningRules(0, now))


def aborted_kept() -> AbstractContextManager[Any]:
    """Keep the batches of aborted transactions."""
    return patch.object(Transactions, "pass_batch", lambda self, header: False)


def sequences_forgotten() -> AbstractContextManager[Any]:
    """Remove the last batch of a producer."""
    return patch.object(compaction, "is_last_of", lambda producer, header: False)


CANARIES: Final = {
    half_learnt: "resurrected",
    aborted_learnt: "lost",
    markers_removed: "marker-missing",
    tombstones_removed: "tombstone-early",
    aborted_kept: "resurrected",
    sequences_forgotten: "sequence",
}
"""Each with the violation that it must cause."""


@pytest.mark.parametrize("canary", CANARIES, ids=lambda canary: canary.__name__)
def test_planted_defects_are_detected(canary: Callable[[], AbstractContextManager[Any]]) -> None:
    with canary():
        violations = (violation_of(seed) for seed in range(SEEDS))
        assert any(violation is not None and violation.kind == CANARIES[canary] for violation in violations)
