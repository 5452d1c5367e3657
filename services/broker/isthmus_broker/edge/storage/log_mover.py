"""Moving a log to another directory while it is in use (AlterReplicaLogDirs).

The log is copied batch by batch into a directory with the suffix `-future`. A complete copy replaces the log in one step of the event
loop, so readers and writers always have a log. A node that stops during a move continues the copy after its next start.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from isthmus_broker.edge.storage.checkpoints import TopicPartition
from isthmus_broker.edge.storage.files import DiskFailure
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.log_dir import LogDir
from isthmus_broker.edge.storage.log_manager import Copy, LogManager

logger = logging.getLogger(__name__)

SLICE: Final = 1024 * 1024
"""Bytes copied before the event loop serves other requests."""
_UPPER: Final = 2**63 - 1


class LogMover:
    """The moves under way."""

    def __init__(
        self, logs: LogManager, bytes_per_second: Callable[[], float], moved: Callable[[TopicPartition, Log], None]
    ) -> None:
        self._logs = logs
        self._bytes_per_second = bytes_per_second
        self._moved = moved
        self._tasks: set[asyncio.Task[None]] = set()

    def resume(self) -> None:
        """Continue the moves that the last stop interrupted."""
        for key, copy in self._logs.copies.items():
            logger.info(
                "continuing to move %s-%d to %s, from offset %d", *key, copy.directory.path, copy.log.end_offset
            )
            self._start(key, copy)

    def move(self, key: TopicPartition, target: LogDir) -> None:
        """Move a log. This replaces a move under way; a move to its current directory only cancels that. Raises DiskFailure."""
        under_way = self._logs.copies.get(key)
        if under_way is not None and under_way.directory is target:
            return
        self._logs.discard_copy(key)
        if self._logs.home[key] is not target:
            self._start(key, self._logs.create_copy(key, target))

    def truncated(self, key: TopicPartition, end_offset: int) -> None:
        """Truncate the copy of a log that was truncated: its next records will be different."""
        under_way = self._logs.copies.get(key)
        if under_way is not None:
            under_way.log.truncate_to(end_offset, self._logs.clocks.monotonic())

    def stop(self) -> None:
        """Stop the moves but keep the copies, so that the next start continues them."""
        for task in self._tasks:
            task.cancel()

    def _start(self, key: TopicPartition, copy: Copy) -> None:
        task = asyncio.get_running_loop().create_task(self._run(key, copy))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, key: TopicPartition, copy: Copy) -> None:
        """Copy until the copy is complete, or discarded: with its log, its directory, or for another move."""
        try:
            while self._logs.copies.get(key) is copy:
                copied = self._copy_slice(self._logs.logs[key], copy.log)
                if copied == 0:
                    self._moved(key, self._logs.replace(key))
                    logger.info("moved %s-%d to %s", *key, copy.directory.path)
                    return
                limit = self._bytes_per_second()
                await asyncio.sleep(copied / limit if limit < _UPPER else 0)
        except DiskFailure as failure:
            if copy.directory.path in failure.path.parents:
                self._logs.fail(copy.directory, failure)
            else:
                self._logs.fail_log(key, failure)

    def _copy_slice(self, source: Log, copy: Log) -> int:
        """Copy the next batches; returns their size, 0 if the copy is complete."""
        now_ms = self._logs.clocks.monotonic()
        if copy.end_offset < source.log_start_offset:
            copy.restart_at(source.log_start_offset, now_ms)
        piece = source.read(copy.end_offset, SLICE, source.end_offset, at_least_one=True)
        if piece.first is None or piece.size == 0:
            # They may have risen since the last slice, and the checkpoints that the copy takes with it must not lower them.
            copy.raise_start(source.log_start_offset)
            copy.high_watermark = source.high_watermark
            return 0
        if piece.first.header.base_offset < copy.end_offset:  # DeleteRecords moved the log start inside a batch
            copy.restart_at(piece.first.header.base_offset, now_ms)
        copy.append_as_given(piece.records(), now_ms)
        copy.raise_start(source.log_start_offset)
        return piece.size
