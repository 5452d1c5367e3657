"""The log cleaner: rewrites the closed segments of compacted logs, a slice at a time, while the logs are in use.

A round selects the log with the highest dirty ratio, reads the newest offset of every key in its dirty part, and writes each group of old
segments into one new segment in a separate directory. The new segment replaces the old ones in one step of the event loop, see
`replacement`. Deletion, truncation or retention of the log ends the round. A log with a batch that cannot be read is uncleanable
until the node restarts, as in Kafka.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

from isthmus_model.clocks import WallMs
from isthmus_wire.errors import CorruptBatch
from isthmus_wire.records import header_at

from isthmus_broker.core.log.compaction import (
    UNKNOWN_PRODUCERS,
    CleaningRound,
    CleaningRules,
    NewestOffsets,
    ProducersAt,
    Transactions,
    learn,
)
from isthmus_broker.edge.storage.checkpoints import TopicPartition, newest_producers
from isthmus_broker.edge.storage.files import DiskFailure
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.log_manager import LogManager
from isthmus_broker.edge.storage.log_scan import scan, whole_batches
from isthmus_broker.edge.storage.replacement import CLEANED_DIRECTORY, replace_segments
from isthmus_broker.edge.storage.segment import Segment

logger = logging.getLogger(__name__)

SLICE_BATCHES: Final = 8
"""Batches handled before the event loop serves other requests."""


class CleanerLimits(NamedTuple):
    """What cleaning may cost."""

    map_bytes: int = 128 * 1024 * 1024
    """The memory for the keys of one round; a dirty part with more keys takes several rounds."""
    bytes_per_second: float = inf
    """Bytes read and written."""


class Uncleanable(NamedTuple):
    """The logs of a directory that cannot be cleaned."""

    partitions: int = 0
    dirty_bytes: int = 0


class _Changed(Exception):
    """The log has changed since the round began."""


class Cleaner:
    """Cleans all logs of the node, one round at a time."""

    def __init__(self, logs: LogManager, limits: Callable[[], CleanerLimits] = CleanerLimits) -> None:
        self._logs = logs
        self._limits = limits
        self._uncleanable: set[Log] = set()
        self._task: asyncio.Task[None] | None = None

    def start_round(self) -> None:
        """Start a round unless one is under way."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self.run_round())

    def stop(self) -> None:
        """Stop cleaning; an unfinished round is repeated after the next start."""
        if self._task is not None:
            self._task.cancel()

    async def run_round(self) -> None:
        """Clean the log with the highest dirty ratio, if any needs it."""
        dirtiest = max(self._dirty_logs(), default=None)
        if dirtiest is not None:
            await self._clean(dirtiest[1])
            self._logs.checkpoint_cleaned()

    async def _clean(self, key: TopicPartition) -> None:
        log = self._logs.logs[key]
        try:
            await _LogCleaning(self._logs, log, self._limits).run()
        except _Changed:
            logger.debug("%s-%d changed while it was cleaned: cleaning it again later", *key)
        except CorruptBatch as error:
            self._uncleanable.add(log)
            logger.error("%s-%d is uncleanable, and will not be compacted until this node restarts: %s", *key, error)
        except OSError as error:
            if self._logs.logs.get(key) is log:  # otherwise it was deleted or moved meanwhile
                self._logs.fail_log(key, error if isinstance(error, DiskFailure) else DiskFailure(log.directory, error))

    def uncleanable(self) -> dict[Path, Uncleanable]:
        """The logs that cannot be cleaned, by directory."""
        now = self._logs.clocks.wall()
        counts = {directory: Uncleanable() for directory in self._logs.directories}
        for key, log in self._logs.logs.items():
            if log in self._uncleanable:
                _, dirty = cleanable_segments(log, now)
                logs, size = counts[self._logs.home[key]]
                counts[self._logs.home[key]] = Uncleanable(logs + 1, size + sum(segment.size for segment in dirty))
        return {directory.path: count for directory, count in counts.items()}

    def _dirty_logs(self) -> list[tuple[float, TopicPartition]]:
        """Logs that need cleaning, with their dirty ratios."""
        self._uncleanable.intersection_update(self._logs.logs.values())
        dirty_logs: list[tuple[float, TopicPartition]] = []
        now = self._logs.clocks.wall()
        for key, log in self._logs.logs.items():
            if not log.config.compacts or log in self._uncleanable:
                continue
            cleanable, dirty = cleanable_segments(log, now)
            ratio = sum(segment.size for segment in dirty) / max(sum(segment.size for segment in cleanable), 1)
            oldest = next((segment.first_timestamp for segment in dirty if segment.first_timestamp is not None), now)
            if ratio > 0 and (
                ratio >= log.config.min_cleanable_dirty_ratio or now - oldest > log.config.max_compaction_lag_ms
            ):
                dirty_logs.append((ratio, key))
        return dirty_logs


class _LogCleaning:
    """One round over one log. Raises _Changed if the log changes, CorruptBatch if a batch cannot be read."""

    def __init__(self, logs: LogManager, log: Log, limits: Callable[[], CleanerLimits]) -> None:
        self._logs = logs
        self._log = log
        self._limits = limits
        self._newest = NewestOffsets(limits().map_bytes)
        self._truncations = log.truncations
        self._batches = 0
        self._bytes = 0
        """Read and written since the last pause."""

    async def run(self) -> None:
        log, now, before = self._log, self._logs.clocks.wall(), self._log.size
        cleanable = min(await self._make_durable(), cleanable_end(log, now))
        end = await self._read_newest(max(log.cleaned_to, log.log_start_offset), cleanable)
        rules = CleaningRules(log.config.delete_retention_ms, now)
        cleaning = CleaningRound(self._newest, self._transactions(), rules, end, producers_below(log, end))
        for group in groups(log, end):
            await self._rewrite(group, cleaning)
        # A checkpoint that survives a power loss without the new segments would hide records that were never cleaned.
        await self._logs.sync([log.directory])
        self._check_unchanged(())
        log.cleaned_to = end
        logger.info(
            "cleaned %s-%d up to offset %d: %d bytes became %d", log.topic, log.partition, end, before, log.size
        )

    async def _make_durable(self) -> int:
        """Make the closed segments durable, and then their recovery point; returns that.

        A record must not be lost after the older one was removed that it replaces, and recovery takes a gap above the recovery point for
        damage.
        """
        unsynced = self._log.unsynced(self._log.segments[:-1])
        await self._logs.sync(unsynced.files)
        self._log.synced(unsynced)
        await self._logs.record_offsets(self._log)
        self._check_unchanged(())
        return unsynced.recovery_point

    def _transactions(self) -> Transactions:
        return Transactions(self._log.aborted_between(0, self._log.end_offset))

    async def _read_newest(self, start: int, end: int) -> int:
        """Learn the keys from `start` on; returns the offset up to which they are known."""
        transactions = self._transactions()
        for header, batch in scan(self._log, start):
            if header.base_offset >= end:
                break
            if self._newest.is_full():
                return header.base_offset
            learn(self._newest, transactions, batch, header, start)
            await self._pause((), len(batch))
        return end

    async def _rewrite(self, old: Sequence[Segment], cleaning: CleaningRound) -> None:
        """Replace adjacent segments by one with the batches that survive."""
        log = self._log
        directory = log.directory / CLEANED_DIRECTORY
        log.pool.files.make_directory(directory, exist_ok=True)
        cleaned = Segment(log.pool, directory, old[0].base_offset, created_ms=old[0].created_ms)
        log.pool.descriptor(str(cleaned.path))  # a segment without batches has a file as well
        try:
            for segment in old:
                await self._copy(segment, old, cleaned, cleaning)
            cleaned.seal()
            await self._logs.sync(cleaned.files())
            self._check_unchanged(old)
            replace_segments(log, old, cleaned)
        finally:
            cleaned.close()
            with suppress(OSError):  # it was renamed, or the log was deleted
                log.pool.files.remove_directory(directory)

    async def _copy(self, segment: Segment, old: Sequence[Segment], cleaned: Segment, cleaning: CleaningRound) -> None:
        log = self._log
        for position, header in whole_batches(segment):
            batch = cleaning.clean(
                segment.read(position, header.size), header, log.producers.producers.get(header.producer_id)
            )
            if batch is not None:
                cleaned.append(batch, header_at(batch), log.config.index_interval_bytes)
            for row in cleaning.aborted:
                cleaned.aborted.add(row)
            cleaning.aborted.clear()
            await self._pause(old, header.size + len(batch or b""))

    async def _pause(self, segments: Sequence[Segment], size: int) -> None:
        """After every few batches, let the event loop serve other requests, for as long as the throttle says."""
        self._batches += 1
        self._bytes += size
        if self._batches % SLICE_BATCHES == 0:
            await asyncio.sleep(self._bytes / self._limits().bytes_per_second)
            self._bytes = 0
            self._check_unchanged(segments)

    def _check_unchanged(self, segments: Sequence[Segment]) -> None:
        log = self._log
        is_open = self._logs.logs.get((log.topic, log.partition)) is log
        if not is_open or log.truncations != self._truncations or not set(segments) <= set(log.segments):
            raise _Changed


def cleanable_segments(log: Log, now: WallMs) -> tuple[list[Segment], list[Segment]]:
    """The segments that may be cleaned, and those of them that were not cleaned yet."""
    start = max(log.cleaned_to, log.log_start_offset)
    end = cleanable_end(log, now)
    cleanable = [segment for segment in log.segments if segment.base_offset < end]
    return cleanable, [segment for segment in cleanable if segment.next_offset > start]


def cleanable_end(log: Log, now: WallMs) -> int:
    """The end of the part that may be cleaned: closed segments, without open transactions or records within min.compaction.lag.ms."""
    end = min(log.active.base_offset, log.last_stable_offset)
    lag = log.config.min_compaction_lag_ms
    if lag > 0:
        youngest = next((s for s in log.segments[:-1] if s.largest_timestamp > now - lag), None)
        if youngest is not None:
            end = min(end, youngest.base_offset)
    return max((s.base_offset for s in log.segments if s.base_offset <= end), default=0)


def producers_below(log: Log, end: int) -> ProducersAt:
    """The producers at the last segment boundary that is not above `end`, as their snapshot has them."""
    boundary = max(segment.base_offset for segment in log.segments if segment.base_offset <= end)
    snapshot = newest_producers(log.pool.files, log.directory, boundary, boundary)
    if snapshot is None:
        return UNKNOWN_PRODUCERS
    return ProducersAt(boundary, {producer.producer_id: producer for producer in snapshot[1]})


def groups(log: Log, end: int) -> list[list[Segment]]:
    """Adjacent segments below `end` that fit into one segment together, so that a cleaned log does not consist of many small ones.

    `end` may lie within the last one: its batches from there on are copied unchanged.
    """
    together: list[list[Segment]] = []
    size = 0
    for segment in log.segments:
        if segment.base_offset >= end:
            break
        room = size + segment.size <= log.config.segment_size
        if together and room and segment.next_offset - together[-1][0].base_offset < 2**31:
            together[-1].append(segment)
            size += segment.size
        else:
            together.append([segment])
            size = segment.size
    return together
