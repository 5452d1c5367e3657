"""What copies have to know before they can go on: where they end and what is true of them, what the source has, which batch really came."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from isthmus_client.client import Client
from isthmus_client.clock import monotonic_ms
from isthmus_client.errors import ClientError
from isthmus_copying.edge.leaders import Leaders

from isthmus_mirror.core.limits import LOOK_SECONDS
from isthmus_mirror.core.partition import Placed, SourceRange, Stage, Tail
from isthmus_mirror.core.progress import Ambiguous, Ask, Behind, Kind, settle, still_needed
from isthmus_mirror.edge.destination_reads import batch_at, crc_at, extents
from isthmus_mirror.edge.progress_log import ProgressLog
from isthmus_mirror.edge.targets import Target, is_same_source

logger = logging.getLogger(__name__)

_LOOKS_AT_ONCE: Final = 16


class Questions:
    """Of one flow; `answered` is called when a copy knows more than before."""

    def __init__(
        self,
        name: str,
        source: Client,
        target: Client,
        log: ProgressLog,
        answered: Callable[[], None],
        *,
        read_committed: bool,
        begin_at_end: bool,
    ) -> None:
        self._name = name
        self._source = source
        self._target = target
        self._log = log
        self._answered = answered
        self._read_committed = read_committed
        self._begin_at_end = begin_at_end
        self._looks = asyncio.Semaphore(_LOOKS_AT_ONCE)

    def are_open(self, targets: Iterable[Target]) -> bool:
        """Whether any copy waits for an answer."""
        asking = (Stage.PLACE, Stage.LOOK_UP_SOURCE, Stage.CHECK)
        return any(target.copy.stage in asking for target in targets)

    def start(
        self, group: asyncio.TaskGroup, targets: Collection[Target], leads_source: Leaders, leads_target: Leaders
    ) -> None:
        """Each for the partitions of one leader that have it now, so that one without an answer holds up nobody else."""
        for asking in _claim(targets, Stage.PLACE, lambda one: leads_target.get(one.wanted.target)):
            group.create_task(self._place(asking))
        for asking in _claim(targets, Stage.LOOK_UP_SOURCE, lambda one: leads_source.get(one.wanted.source)):
            group.create_task(self._look_up_source(asking))
        for asking in _claim(targets, Stage.CHECK, lambda one: one.wanted.target):
            group.create_task(self._check(*asking))

    async def keep_looking(self, targets: Callable[[], Collection[Target]]) -> None:
        """Whether copies that have everything are still as this mirror left them; until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            idle = {target.wanted.target: target for target in targets() if target.copy.has_all}
            try:
                found = await extents(self._target, list(idle)) if idle else {}
            except ClientError as error:
                logger.debug("%s: the target does not say where copies end: %s", self._name, error)
                continue
            for partition, (_, end) in found.items():
                idle[partition].copy.found_end(end, monotonic_ms())
            self._answered()

    async def _place(self, targets: Sequence[Target]) -> None:
        """The ends first and the jumps after them: what is in a copy had its jump before."""
        try:
            found = await extents(self._target, [target.wanted.target for target in targets])
            await self._log.read_to_end()
        except ClientError as error:
            logger.warning("%s: the target does not say where copies end: %s", self._name, error)
            _failed(targets)
            return
        await asyncio.gather(*(self._settle(target, found.get(target.wanted.target)) for target in targets))
        self._answered()

    async def _settle(self, target: Target, extent: tuple[int, int] | None) -> None:
        try:
            async with self._looks:
                if extent is None:
                    target.copy.lookup_failed(monotonic_ms())
                else:
                    await self._settle_within(target, *extent)
        except ClientError as error:
            logger.debug("%s: looking at %s: %s", self._name, target.wanted.target, error)
            target.copy.lookup_failed(monotonic_ms())
        finally:
            target.is_looking_up = False

    async def _settle_within(self, target: Target, start: int, end: int) -> None:
        partition, copy = target.wanted.target, target.wanted.as_copy
        seen: dict[int, int | None] = {}
        while isinstance(settled := settle(self._log.jumps(copy), start, end, seen), Ask):
            seen[settled.base] = await crc_at(self._target, partition, settled.base)
            # What became certain meanwhile may have been compacted since, and look like another batch.
            await self._log.read_to_end()
        if isinstance(settled, Ambiguous):
            marks = ", ".join(str(jump.mark.base) for jump in settled.jumps)
            target.copy.fail(f"retention took what would tell which progress is true (offsets {marks} of the copy)")
            return
        if isinstance(settled, Behind):
            told = "%s: %s ends at %d, and progress tells of a record at %d: it is asked again, or has lost records"
            logger.warning(told, self._name, partition, end, settled.base)
            target.copy.lookup_failed(monotonic_ms())
            return
        tail = await self._tail(target, start, end)
        if tail is None and end > start:
            target.copy.lookup_failed(monotonic_ms())  # it has grown since
            return
        await self._log.confirm([(copy, jump) for jump in settled.proven])
        await self._log.delete([(copy, jump) for jump in settled.void], Kind.PROPOSED)
        needed = still_needed(settled.jumps, start)
        outlived = settled.jumps[: len(settled.jumps) - len(needed)]
        await self._log.delete([(copy, jump) for jump in outlived], Kind.CERTAIN)
        target.copy.placed(Placed(start, end, needed, tail))

    async def _tail(self, target: Target, start: int, end: int) -> Tail | None:
        """The copy's last batch, if it has one that ends there."""
        last = await batch_at(self._target, target.wanted.target, end - 1) if end > start else None
        if last is None or last.last_offset != end - 1:
            return None
        return Tail(last.producer_id, last.last_sequence, last.crc)

    async def _look_up_source(self, targets: Sequence[Target]) -> None:
        try:
            partitions = [target.wanted.source for target in targets]
            found = await extents(self._source, partitions, read_committed=self._read_committed)
        except ClientError as error:
            logger.warning("%s: the source does not say what it has: %s", self._name, error)
            _failed(targets)
            return
        now = monotonic_ms()
        for target in targets:
            target.is_looking_up = False
            extent = found.get(target.wanted.source)
            if extent is None or not is_same_source(self._source, target.wanted):
                target.copy.lookup_failed(now)
                continue
            lost = target.copy.counters.gap_offsets
            begin = extent[1] if self._begin_at_end else extent[0]
            target.copy.source_has(SourceRange(extent[0], begin, extent[1]), now)
            lost = target.copy.counters.gap_offsets - lost
            if lost:
                logger.warning(
                    "%s: partition %s goes on at offset %d: the source's retention took %d offsets before they were copied",
                    self._name, target.wanted.source, extent[0], lost,
                )  # fmt: skip
        self._answered()

    async def _check(self, target: Target) -> None:
        sent = target.copy.to_check
        try:
            if sent is not None:
                crc = await crc_at(self._target, target.wanted.target, sent.base)
                target.copy.checked(sent, crc, monotonic_ms())
        except ClientError as error:
            logger.debug("%s: looking at %s: %s", self._name, target.wanted.target, error)
            target.copy.lookup_failed(monotonic_ms())
        finally:
            target.is_looking_up = False
            self._answered()


def _claim(targets: Iterable[Target], stage: Stage, key: Callable[[Target], object]) -> Iterable[list[Target]]:
    """Those that have a question now, together by their key."""
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
