"""The log cleaner: rewrites the closed segments of compacted logs, a slice at a time, while the logs are in use.

A round selects the log with the highest dirty ratio, reads the newest offset of every key in its dirty part, and writes each group of old
segments into one new segment in a separate directory. The new segment replaces the old ones in one step of the event loop, see
`Log.replace_segments`. Deletion, truncation or retention of the log ends the round.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Final

from isthmus_model.clocks import WallMs
from isthmus_wire.errors import CorruptBatch
from isthmus_wire.records import BatchHeader, header_at, records_to_keep

from isthmus_broker.core.log.compaction import Cleaned, CleaningRules, NewestOffsets, clean_batch
from isthmus_broker.edge.storage.checkpoints import TopicPartition, read_offsets, write_offsets
from isthmus_broker.edge.storage.files import DiskFailure
from isthmus_broker.edge.storage.log import CLEANED_DIRECTORY, Log
from isthmus_broker.edge.storage.log_dir import LogDir
from isthmus_broker.edge.storage.log_manager import LogManager
from isthmus_broker.edge.storage.segment import Placed, Segment, SegmentDeleted

logger = logging.getLogger(__name__)

CHECKPOINT: Final = "cleaner-offset-checkpoint"
KEYS_MAX: Final = 1_000_000
"""Upper bound on the keys of one round; a dirty part with more keys takes several rounds."""
SLICE_BATCHES: Final = 8
"""Batches handled before the event loop serves other requests."""


class _Changed(Exception):
    """The log has changed since the round began."""


class Cleaner:
    """Cleans all logs of the node, one round at a time."""

    def __init__(self, logs: LogManager) -> None:
        self._logs = logs
        self._cleaned_to: dict[TopicPartition, int] | None = None
        self._task: asyncio.Task[None] | None = None

    def start_round(self) -> None:
        """Start a round unless one is under way."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._round())

    def stop(self) -> None:
        """Stop cleaning; an unfinished round is repeated after the next start."""
        if self._task is not None:
            self._task.cancel()

    async def _round(self) -> None:
        if self._cleaned_to is None:
            self._cleaned_to = self._read_checkpoints()
        dirtiest = max(self._dirty_logs(), default=None)
        if dirtiest is None:
            return
        _, key = dirtiest
        log, home = self._logs.logs[key], self._logs.home[key]
        try:
            cleaned_to = await self._clean(log, self._cleaned_to.get(key, 0))
        except (_Changed, SegmentDeleted):
            with suppress(OSError):
                log.pool.files.remove_directory(log.directory / CLEANED_DIRECTORY)
            return
        except DiskFailure as failure:
            self._logs.fail_log(key, failure)
            return
        except CorruptBatch as error:
            logger.error("%s-%d is no longer cleaned: cannot read a batch: %s", *key, error)
            cleaned_to = log.end_offset
        self._cleaned_to[key] = cleaned_to
        self._write_checkpoint(home)

    def _dirty_logs(self) -> list[tuple[float, TopicPartition]]:
        """Logs that need cleaning, with their dirty ratios."""
        dirty_logs: list[tuple[float, TopicPartition]] = []
        now = self._logs.clocks.wall()
        for key, log in self._logs.logs.items():
            if not log.config.compacts:
                continue
            start = max(self._cleaned(key), log.log_start_offset)
            end = cleanable_end(log, now)
            dirty = sum(s.size for s in log.segments if start <= s.base_offset < end)
            total = sum(s.size for s in log.segments if s.base_offset < end)
            oldest = next(
                (s for s in log.segments if start <= s.base_offset < end and s.first_timestamp is not None), None
            )
            overdue = oldest is not None and now - (oldest.first_timestamp or 0) > log.config.max_compaction_lag_ms
            if dirty and (dirty / total >= log.config.min_cleanable_dirty_ratio or overdue):
                dirty_logs.append((dirty / total, key))
        return dirty_logs

    def _cleaned(self, key: TopicPartition) -> int:
        return (self._cleaned_to or {}).get(key, 0)

    # -- one log -------------------------------------------------------------------------------------------------------------

    async def _clean(self, log: Log, cleaned_to: int) -> int:
        """Clean one log; returns the offset up to which it is clean now."""
        newest, now = NewestOffsets(KEYS_MAX), self._logs.clocks.wall()
        end = await self._read_newest(log, max(cleaned_to, log.log_start_offset), cleanable_end(log, now), newest)
        rules = CleaningRules(log.config.delete_retention_ms, now)
        before = log.size
        for group in groups(log, end):
            await self._rewrite(log, group, newest, rules)
        logger.info(
            "cleaned %s-%d up to offset %d: %d bytes became %d", log.topic, log.partition, end, before, log.size
        )
        return end

    async def _read_newest(self, log: Log, start: int, end: int, newest: NewestOffsets) -> int:
        async for segment, placed in _batches(log, start):
            if placed.header.base_offset >= end:
                break
            if newest.is_full():
                return placed.header.base_offset
            if not placed.header.is_control:
                for record in records_to_keep(segment.read(placed.position, placed.header.size)):
                    if record.key is not None and record.offset >= start:
                        newest.learn(record.key, record.offset)
        return end

    async def _rewrite(self, log: Log, old: Sequence[Segment], newest: NewestOffsets, rules: CleaningRules) -> None:
        directory = log.directory / CLEANED_DIRECTORY
        log.pool.files.make_directory(directory, exist_ok=True)
        fresh = Segment(log.pool, directory, old[0].base_offset, created_ms=old[0].created_ms)
        handled = 0
        for segment in old:
            for position, header in segment.headers():
                data = segment.read(position, header.size)
                cleaned = _clean_one(log, header, data, newest, rules)
                if cleaned.batch is not None:
                    fresh.append(cleaned.batch, header_at(cleaned.batch), log.config.index_interval_bytes)
                handled += 1
                if handled % SLICE_BATCHES == 0:
                    await asyncio.sleep(0)
                    self._check_unchanged(log, old)
            for row in segment.aborted.rows():
                fresh.aborted.add(row)
        fresh.seal()
        fresh.make_durable()
        log.replace_segments(old, fresh)

    def _check_unchanged(self, log: Log, old: Sequence[Segment]) -> None:
        if self._logs.logs.get((log.topic, log.partition)) is not log or not set(old) <= set(log.segments):
            raise _Changed

    # -- the offset up to which each log is clean ----------------------------------------------------------------------------

    def _read_checkpoints(self) -> dict[TopicPartition, int]:
        offsets: dict[TopicPartition, int] = {}
        for directory in self._logs.directories:
            if directory.online:
                offsets |= read_offsets(directory.files, directory.path / CHECKPOINT)
        return offsets

    def _write_checkpoint(self, directory: LogDir) -> None:
        here = {key: self._cleaned(key) for key in self._logs.keys_in(directory) if self._cleaned(key)}
        write_offsets(directory.files, directory.path / CHECKPOINT, here)


def _clean_one(log: Log, header: BatchHeader, data: bytes, newest: NewestOffsets, rules: CleaningRules) -> Cleaned:
    if header.is_control:
        return Cleaned(data, 1)
    producer = log.producers.producers.get(header.producer_id)
    last = producer is not None and bool(producer.batches) and producer.batches[-1].last_offset == header.last_offset
    return clean_batch(header, records_to_keep(data), newest, rules, data, last_of_producer=last)


async def _batches(log: Log, start: int) -> AsyncIterator[tuple[Segment, Placed]]:
    for number, (segment, placed) in enumerate(log.placed_batches(start)):
        if number % SLICE_BATCHES == 0:
            await asyncio.sleep(0)
        yield segment, placed


def cleanable_end(log: Log, now: WallMs) -> int:
    """The end of the part that may be cleaned: closed segments, without open transactions or records within min.compaction.lag.ms."""
    end = min(log.active.base_offset, log.last_stable_offset)
    lag = log.config.min_compaction_lag_ms
    if lag > 0:
        youngest = next((s for s in log.segments[:-1] if s.largest_timestamp > now - lag), None)
        if youngest is not None:
            end = min(end, youngest.base_offset)
    return end


def groups(log: Log, end: int) -> list[list[Segment]]:
    """Adjacent segments that fit into one segment together, so that a cleaned log does not consist of many small ones."""
    together: list[list[Segment]] = []
    size = 0
    for segment in log.segments:
        if segment.base_offset >= end or segment.next_offset > end:
            break
        room = size + segment.size <= log.config.segment_size
        if together and room and segment.next_offset - together[-1][0].base_offset < 2**31:
            together[-1].append(segment)
            size += segment.size
        else:
            together.append([segment])
            size = segment.size
    return together
