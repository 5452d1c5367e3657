"""Lookups of copies: their ends and true jumps, the source's offsets, and which batch was appended."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from isthmus_client.client import Client
from isthmus_client.clock import monotonic_ms
from isthmus_client.errors import ClientError
from isthmus_copying.edge.leaders import Leaders

from isthmus_mirror.core.limits import END_CHECK_SECONDS
from isthmus_mirror.core.partition import Placed, SourceRange, Stage, Tail
from isthmus_mirror.core.progress import Ambiguous, Behind, Kind, NeedsChecksum, settle, still_needed
from isthmus_mirror.edge.destination_reads import batch_at, crc_at, extents
from isthmus_mirror.edge.progress_log import ProgressLog
from isthmus_mirror.edge.targets import Target, is_same_source

logger = logging.getLogger(__name__)

_READS_AT_ONCE: Final = 16


class Lookups:
    """The lookups of one flow; `answered` is called after each completed lookup."""

    def __init__(
        self,
        name: str,
        source: Client,
        target: Client,
        log: ProgressLog,
        completed: Callable[[], None],
        *,
        read_committed: bool,
        begin_at_end: bool,
    ) -> None:
        self._name = name
        self._source = source
        self._target = target
        self._log = log
        self._completed = completed
        self._read_committed = read_committed
        self._begin_at_end = begin_at_end
        self._reads = asyncio.Semaphore(_READS_AT_ONCE)

    def are_pending(self, targets: Iterable[Target]) -> bool:
        """Whether any copy needs a lookup."""
        claimed = (Stage.PLACE, Stage.LOOK_UP_SOURCE, Stage.CHECK)
        return any(target.copy.stage in claimed for target in targets)

    def start(
        self, group: asyncio.TaskGroup, targets: Collection[Target], leads_source: Leaders, leads_target: Leaders
    ) -> None:
        """Start one lookup per leader, so that an unresponsive leader does not delay the others."""
        for claimed in _claim(targets, Stage.PLACE, lambda one: leads_target.get(one.assignment.target)):
            group.create_task(self._place(claimed))
        for claimed in _claim(targets, Stage.LOOK_UP_SOURCE, lambda one: leads_source.get(one.assignment.source)):
            group.create_task(self._look_up_source(claimed))
        for claimed in _claim(targets, Stage.CHECK, lambda one: one.assignment.target):
            group.create_task(self._check(*claimed))

    async def watch_ends(self, targets: Callable[[], Collection[Target]]) -> None:
        """Check periodically that the ends of caught-up copies are unchanged; runs until cancelled."""
        while True:
            await asyncio.sleep(END_CHECK_SECONDS)
            idle = {target.assignment.target: target for target in targets() if target.copy.has_all}
            try:
                ranges = await extents(self._target, list(idle)) if idle else {}
            except ClientError as error:
                logger.debug("%s: cannot look up the ends of copies in the target: %s", self._name, error)
                continue
            for partition, (_, end) in ranges.items():
                idle[partition].copy.check_end(end, monotonic_ms())
            self._completed()

    async def _place(self, targets: Sequence[Target]) -> None:
        """Look up the ends first and the jumps after them: each batch in a copy had its jump before."""
        try:
            ranges = await extents(self._target, [target.assignment.target for target in targets])
            await self._log.read_to_end()
        except ClientError as error:
            logger.warning("%s: cannot look up the ends of copies in the target: %s", self._name, error)
            _failed(targets)
            return
        await asyncio.gather(*(self._settle(target, ranges.get(target.assignment.target)) for target in targets))
        self._completed()

    async def _settle(self, target: Target, extent: tuple[int, int] | None) -> None:
        try:
            async with self._reads:
                if extent is None:
                    target.copy.lookup_failed(monotonic_ms())
                else:
                    await self._settle_within(target, *extent)
        except ClientError as error:
            logger.debug("%s: reading %s: %s", self._name, target.assignment.target, error)
            target.copy.lookup_failed(monotonic_ms())
        finally:
            target.is_looking_up = False

    async def _settle_within(self, target: Target, start: int, end: int) -> None:
        partition, copy = target.assignment.target, target.assignment.as_copy
        checksums: dict[int, int | None] = {}
        while isinstance(settled := settle(self._log.jumps(copy), start, end, checksums), NeedsChecksum):
            checksums[settled.base] = await crc_at(self._target, partition, settled.base)
            # Jumps that became certain meanwhile may be of batches that were compacted since.
            await self._log.read_to_end()
        if isinstance(settled, Ambiguous):
            marks = ", ".join(str(jump.mark.base) for jump in settled.jumps)
            target.copy.fail(
                f"retention removed the batches that would verify the progress (offsets {marks} of the copy)"
            )
            return
        if isinstance(settled, Behind):
            logger.warning(
                "%s: %s ends at offset %d, but progress is recorded at %d: retrying; it may have lost records",
                self._name, partition, end, settled.base,
            )  # fmt: skip
            target.copy.lookup_failed(monotonic_ms())
            return
        tail = await self._tail(target, start, end)
        if tail is None and end > start:
            target.copy.lookup_failed(monotonic_ms())  # it has grown meanwhile
            return
        await self._log.confirm([(copy, jump) for jump in settled.proven])
        await self._log.delete([(copy, jump) for jump in settled.void], Kind.PROPOSED)
        needed = still_needed(settled.jumps, start)
        outlived = settled.jumps[: len(settled.jumps) - len(needed)]
        await self._log.delete([(copy, jump) for jump in outlived], Kind.CERTAIN)
        target.copy.placed(Placed(start, end, needed, tail))

    async def _tail(self, target: Target, start: int, end: int) -> Tail | None:
        """The copy's last batch, if it ends at `end`."""
        last = await batch_at(self._target, target.assignment.target, end - 1) if end > start else None
        if last is None or last.last_offset != end - 1:
            return None
        return Tail(last.producer_id, last.last_sequence, last.crc)

    async def _look_up_source(self, targets: Sequence[Target]) -> None:
        try:
            partitions = [target.assignment.source for target in targets]
            ranges = await extents(self._source, partitions, read_committed=self._read_committed)
        except ClientError as error:
            logger.warning("%s: cannot look up the offsets of the source: %s", self._name, error)
            _failed(targets)
            return
        now = monotonic_ms()
        for target in targets:
            target.is_looking_up = False
            extent = ranges.get(target.assignment.source)
            if extent is None or not is_same_source(self._source, target.assignment):
                target.copy.lookup_failed(now)
                continue
            lost = target.copy.counters.gap_offsets
            begin = extent[1] if self._begin_at_end else extent[0]
            target.copy.source_has(SourceRange(extent[0], begin, extent[1]), now)
            lost = target.copy.counters.gap_offsets - lost
            if lost:
                logger.warning(
                    "%s: partition %s continues at offset %d: the source's retention removed %d offsets before they were copied",
                    self._name, target.assignment.source, extent[0], lost,
                )  # fmt: skip
        self._completed()

    async def _check(self, target: Target) -> None:
        sent = target.copy.to_check
        try:
            if sent is not None:
                crc = await crc_at(self._target, target.assignment.target, sent.base)
                target.copy.checked(sent, crc, monotonic_ms())
        except ClientError as error:
            logger.debug("%s: reading %s: %s", self._name, target.assignment.target, error)
            target.copy.lookup_failed(monotonic_ms())
        finally:
            target.is_looking_up = False
            self._completed()


def _claim(targets: Iterable[Target], stage: Stage, key: Callable[[Target], object]) -> Iterable[list[Target]]:
    """The partitions that need a lookup now, grouped by key."""
    now = monotonic_ms()
    claimed: dict[object, list[Target]] = {}
    for target in targets:
        if not target.is_looking_up and target.copy.needs_lookup(stage, now):
            target.is_looking_up = True
            claimed.setdefault(key(target), []).append(target)
    return claimed.values()


def _failed(targets: Sequence[Target]) -> None:
    for target in targets:
        target.is_looking_up = False
        target.copy.lookup_failed(monotonic_ms())
