"""Random lives of a partition in the tier, and planted defects that they must find."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest
from isthmus_broker.core.tier import copying, expiry
from isthmus_broker.edge.tier.partition_tier import PartitionTier
from isthmus_broker.edge.tier.segment_copy import SegmentGone, copy_segment
from isthmus_tier.core.segments import RemoteSegment, State
from isthmus_tier.edge.upload import delete

from tests.edge.tier.lives import Life, Violation

SEEDS: Final = 150
STEPS: Final = 150


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def violation_of(seed: int, directory: Path) -> Violation | None:
    """Live a seed's life."""
    try:
        asyncio.run(Life(seed, directory / str(seed)).live(STEPS))
    except Violation as violation:
        return violation
    return None


@pytest.mark.parametrize("part", range(3))
def test_the_tier_has_what_the_leader_has_and_nothing_else(part: int, tmp_path: Path) -> None:
    for seed in range(part, SEEDS, 3):
        assert violation_of(seed, tmp_path) is None, f"seed {seed}"


def confirmed_first() -> AbstractContextManager[Any]:
    """Count a segment as copied before it is."""
    original = PartitionTier._copy_one

    async def copy_one(self: PartitionTier, led: Any, segment: RemoteSegment, chain: Any) -> None:
        await self._metadata.write(segment)
        await self._metadata.write(self._to(segment, State.COPY_FINISHED))
        await original(self, led, segment, chain)

    return patch.object(PartitionTier, "_copy_one", copy_one)


def deleted_first() -> AbstractContextManager[Any]:
    """Delete the objects before the deletion is announced."""

    async def delete_segments(self: PartitionTier, doomed: list[RemoteSegment]) -> None:
        for segment in doomed:
            destination = self._destination
            await self._in_thread(delete, destination.store, destination.cluster_id, segment)
            for state in (State.DELETE_STARTED, State.DELETE_FINISHED):
                await self._metadata.write(self._to(segment, state))

    return patch.object(PartitionTier, "_delete", delete_segments)


def not_announced() -> AbstractContextManager[Any]:
    """Copy a segment before it is announced."""
    original = PartitionTier._copy_one

    async def copy_one(self: PartitionTier, led: Any, segment: RemoteSegment, chain: Any) -> None:
        log = led.log
        with suppress(SegmentGone):
            await self._in_thread(copy_segment, log.pool.files, log.directory, segment, chain, self._destination)
        await original(self, led, segment, chain)

    return patch.object(PartitionTier, "_copy_one", copy_one)


def impatient() -> AbstractContextManager[Any]:
    """Delete what another broker is still copying."""
    return patch.object(expiry, "ABANDONED_MS", -1)


def lineage_ignored() -> AbstractContextManager[Any]:
    """Count what a deposed leader has copied of its own."""
    return patch.object(copying, "belongs", lambda _segment, _chain, _end: True)


CANARIES: Final = {
    confirmed_first: "incomplete",
    deleted_first: "incomplete",
    not_announced: "orphan",
    impatient: "orphan",
    lineage_ignored: "not-copied",
}
"""Each with the violation that it must cause."""


@pytest.mark.parametrize("canary", CANARIES, ids=lambda canary: canary.__name__)
def test_planted_defects_are_detected(canary: Callable[[], AbstractContextManager[Any]], tmp_path: Path) -> None:
    with canary():
        violations = (violation_of(seed, tmp_path) for seed in range(SEEDS))
        assert any(violation is not None and violation.kind == CANARIES[canary] for violation in violations)
