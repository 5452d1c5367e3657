"""Lookups of copies that only mirrors write: their ends and true jumps, and which batch was appended."""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final

from isthmus_client.clock import monotonic_ms
from isthmus_client.errors import ClientError
from isthmus_copying.edge.leaders import Leaders

from isthmus_mirror.core.limits import END_CHECK_SECONDS
from isthmus_mirror.core.partition import Stage
from isthmus_mirror.core.progress import Ambiguous, Behind, Kind, NeedsChecksum, settle, still_needed
from isthmus_mirror.core.sequenced import Placed, SequencedCopy, Tail
from isthmus_mirror.edge.destination_reads import batch_at, crc_at, extents
from isthmus_mirror.edge.lookups import claim, failed
from isthmus_mirror.edge.progress_log import ProgressLog
from isthmus_mirror.edge.targets import Route, Target

logger = logging.getLogger(__name__)

_READS_AT_ONCE: Final = 16


class SequencedLookups:
    """The lookups of a flow's copies in the target; `completed` is called after each."""

    def __init__(self, route: Route, log: ProgressLog, completed: Callable[[], None]) -> None:
        self._route = route
        self._log = log
        self._completed = completed
        self._reads = asyncio.Semaphore(_READS_AT_ONCE)

    def start(
        self, group: asyncio.TaskGroup, targets: Collection[Target[SequencedCopy]], leads_target: Leaders
    ) -> None:
        """Start one lookup per leader, so that an unresponsive leader does not delay the others."""
        for claimed in claim(targets, Stage.PLACE, lambda one: leads_target.get(one.assignment.target)):
            group.create_task(self._place(claimed))
        for claimed in claim(targets, Stage.CHECK, lambda one: one.assignment.target):
            group.create_task(self._check(*claimed))

    async def watch_ends(self, targets: Callable[[], Collection[Target[SequencedCopy]]]) -> None:
        """Check periodically that the ends of caught-up copies are unchanged; runs until cancelled."""
        while True:
            await asyncio.sleep(END_CHECK_SECONDS)
            idle = {target.assignment.target: target for target in targets() if target.copy.has_all}
            try:
                ranges = await extents(self._route.target, list(idle)) if idle else {}
            except ClientError as error:
                logger.debug("%s: cannot look up the ends of copies in the target: %s", self._route.name, error)
                continue
            for partition, (_, end) in ranges.items():
                idle[partition].copy.check_end(end, monotonic_ms())
            self._completed()

    async def _place(self, targets: Sequence[Target[SequencedCopy]]) -> None:
        """Look up the ends first and the jumps after them: each batch in a copy had its jump before."""
        try:
            ranges = await extents(self._route.target, [target.assignment.target for target in targets])
            await self._log.read_to_end()
        except ClientError as error:
            logger.warning("%s: cannot look up the ends of copies in the target: %s", self._route.name, error)
            failed(targets)
            return
        await asyncio.gather(*(self._settle(target, ranges.get(target.assignment.target)) for target in targets))
        self._completed()

    async def _settle(self, target: Target[SequencedCopy], extent: tuple[int, int] | None) -> None:
        try:
            async with self._reads:
                if extent is None:
                    target.copy.lookup_failed(monotonic_ms())
                else:
                    await self._settle_within(target, *extent)
        except ClientError as error:
            logger.debug("%s: reading %s: %s", self._route.name, target.assignment.target, error)
            target.copy.lookup_failed(monotonic_ms())
        finally:
            target.is_looking_up = False

    async def _settle_within(self, target: Target[SequencedCopy], start: int, end: int) -> None:
        partition, copy = target.assignment.target, target.assignment.as_copy
        checksums: dict[int, int | None] = {}
        while isinstance(settled := settle(self._log.jumps(copy), start, end, checksums), NeedsChecksum):
            checksums[settled.base] = await crc_at(self._route.target, partition, settled.base)
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
                self._route.name, partition, end, settled.base,
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

    async def _tail(self, target: Target[SequencedCopy], start: int, end: int) -> Tail | None:
        """The copy's last batch, if it ends at `end`."""
        last = await batch_at(self._route.target, target.assignment.target, end - 1) if end > start else None
        if last is None or last.last_offset != end - 1:
            return None
        return Tail(last.producer_id, last.last_sequence, last.crc)

    async def _check(self, target: Target[SequencedCopy]) -> None:
        sent = target.copy.to_check
        try:
            if sent is not None:
                crc = await crc_at(self._route.target, target.assignment.target, sent.base)
                target.copy.checked(sent, crc, monotonic_ms())
        except ClientError as error:
            logger.debug("%s: reading %s: %s", self._route.name, target.assignment.target, error)
            target.copy.lookup_failed(monotonic_ms())
        finally:
            target.is_looking_up = False
            self._completed()
