"""Moving a log to another directory while it is in use (AlterReplicaLogDirs).

The log is copied batch by batch into a directory with the suffix `-future`. A complete copy replaces the log in one step of the event
loop, so readers and writers always have a log. A node that stops during a move restarts the copy at its next start.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final
from uuid import uuid4

from isthmus_broker.edge.storage.checkpoints import TopicPartition
from isthmus_broker.edge.storage.files import DiskFailure
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.log_dir import FUTURE_SUFFIX, LogDir
from isthmus_broker.edge.storage.log_manager import LogManager

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
        self._moves: dict[TopicPartition, tuple[LogDir, Log, asyncio.Task[None]]] = {}

    def moves(self) -> list[tuple[TopicPartition, LogDir, Log]]:
        """The partitions that are moving, their new directories, and the incomplete copies."""
        return [(key, target, copy) for key, (target, copy, _) in self._moves.items()]

    def resume(self) -> None:
        """Restart the moves that the last stop interrupted; a directory that fails goes offline."""
        for key, directory in self._logs.unfinished_moves:
            if key in self._logs.logs and directory.online:
                try:
                    self.move(key, directory)
                except DiskFailure as failure:
                    self._logs.fail(directory, failure)
        self._logs.unfinished_moves.clear()

    def move(self, key: TopicPartition, target: LogDir) -> None:
        """Move a log. This replaces a move under way; a move to its current directory only cancels that. Raises DiskFailure."""
        under_way = self._moves.get(key)
        if under_way is not None and under_way[0] is target:
            return
        self.cancel(key)
        if self._logs.home[key] is target:
            return
        topic, partition = key
        copy = self._logs.create_at(
            target.path / f"{topic}-{partition}.{uuid4().hex}{FUTURE_SUFFIX}", key, self._logs.logs[key].topic_id
        )
        copy.restart_at(self._logs.logs[key].log_start_offset, self._logs.clocks.monotonic())
        task = asyncio.get_running_loop().create_task(self._run(key, target, copy))
        self._moves[key] = (target, copy, task)

    def truncated(self, key: TopicPartition, end_offset: int) -> None:
        """Truncate the copy of a log that was truncated: its next records will be different."""
        under_way = self._moves.get(key)
        if under_way is not None:
            under_way[1].truncate_to(end_offset, self._logs.clocks.monotonic())

    def cancel(self, key: TopicPartition) -> None:
        """Cancel a move and remove the copy."""
        move = self._moves.pop(key, None)
        if move is not None:
            move[2].cancel()
            self._logs.discard(move[1])

    def stop(self) -> None:
        """Stop the moves but keep the copies, so that the next start resumes them."""
        for _, _, task in self._moves.values():
            task.cancel()

    async def _run(self, key: TopicPartition, target: LogDir, copy: Log) -> None:
        try:
            while True:
                source = self._logs.logs.get(key)
                if source is None:
                    self.cancel(key)
                    return
                copied = self._copy_slice(source, copy)
                if copied == 0:
                    break
                limit = self._bytes_per_second()
                await asyncio.sleep(copied / limit if limit < _UPPER else 0)
            del self._moves[key]
            self._moved(key, self._logs.replace(key, target, copy))
            logger.info("moved %s-%d to %s", *key, target.path)
        except DiskFailure as failure:
            self._moves.pop(key, None)
            self._logs.fail(target if target.path in failure.path.parents else self._logs.home[key], failure)

    def _copy_slice(self, source: Log, copy: Log) -> int:
        """Copy the next batches; returns their size, 0 if the copy is complete."""
        now_ms = self._logs.clocks.monotonic()
        if copy.end_offset < source.log_start_offset:
            copy.restart_at(source.log_start_offset, now_ms)
        piece = source.read(copy.end_offset, SLICE, source.end_offset, at_least_one=True)
        if piece.first is None or piece.size == 0:
            return 0
        if piece.first.header.base_offset < copy.end_offset:  # DeleteRecords moved the log start inside a batch
            copy.restart_at(piece.first.header.base_offset, now_ms)
        copy.append_as_given(piece.records(), now_ms)
        copy.raise_start(source.log_start_offset)
        return piece.size
