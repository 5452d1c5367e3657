"""Opens the logs of a directory at start, in worker threads: the event loop serves the quorum while logs are recovered.

A log is opened through a pool of descriptors of its own, which no other thread uses; the log manager then gives it the node's pool.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from isthmus_model.clocks import Clocks, MonotonicMs

from isthmus_broker.core.config.topic_config import TopicConfig
from isthmus_broker.edge.storage.checkpoints import (
    CLEANED,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    TopicPartition,
    read_offsets,
    read_topic_id,
)
from isthmus_broker.edge.storage.durability import LogOwner
from isthmus_broker.edge.storage.files import FilePool, failures_at
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.log_dir import DELETE_SUFFIX, FUTURE_SUFFIX, LogDir, PartitionDirectory
from isthmus_broker.edge.storage.recovery import open_log

logger = logging.getLogger(__name__)

TopicIdOf = Callable[[str], UUID | None]
"""The id of the topic that has this name now, if there is one."""
OPEN_FILES_MAX: Final = 64
"""Descriptors kept open while one log is recovered."""


class LoadStopped(Exception):
    """The node stops, or another log of the directory could not be opened."""


class Loaded(NamedTuple):
    """The logs of a directory, and the copies of logs that were being moved to it."""

    logs: list[Log]
    copies: list[Log]


class DirectoryLoad:
    """The load of one directory: `run` opens its logs."""

    def __init__(
        self, directory: LogDir, config_of: Callable[[str], TopicConfig], owner: LogOwner[Log], clocks: Clocks
    ) -> None:
        self._directory = directory
        self._config_of = config_of
        self._owner = owner
        self._clocks = clocks
        self._is_stopped = False
        self._log_count = 0
        self._opened = count(1)
        self._recovery_points: dict[TopicPartition, int] | None = None
        self._log_starts: dict[TopicPartition, int] = {}
        self._watermarks: dict[TopicPartition, int] = {}
        self._cleaned: dict[TopicPartition, int] = {}

    async def run(self, threads: int) -> Loaded:
        """Open every log, with this many threads; raises DiskFailure if one cannot be opened."""
        executor = ThreadPoolExecutor(threads, thread_name_prefix="recovery")
        run = partial(asyncio.get_running_loop().run_in_executor, executor)
        try:
            entries = await run(self._prepare)
            opened = await asyncio.gather(*(run(self._open, entry) for entry in entries))
            loaded = Loaded([], [])
            for entry, log in zip(entries, opened, strict=True):
                if log is not None:
                    (loaded.copies if entry.suffix else loaded.logs).append(log)
            return loaded
        finally:
            self._is_stopped = True
            executor.shutdown(wait=False, cancel_futures=True)

    def _prepare(self) -> list[PartitionDirectory]:
        """Read the checkpoints and remove what was deleted; returns the directories of logs, and of copies of logs of other directories."""
        directory = self._directory
        with failures_at(directory.path):
            self._recovery_points = read_offsets(directory.files, directory.path / RECOVERY_POINTS)
            self._log_starts = read_offsets(directory.files, directory.path / LOG_STARTS) or {}
            self._watermarks = read_offsets(directory.files, directory.path / HIGH_WATERMARKS) or {}
            self._cleaned = read_offsets(directory.files, directory.path / CLEANED) or {}
            entries = list(directory.partitions())
            present = {(entry.topic, entry.partition) for entry in entries if not entry.suffix}
            logs = []
            for entry in entries:
                is_useless = entry.suffix == FUTURE_SUFFIX and (entry.topic, entry.partition) in present
                if entry.suffix == DELETE_SUFFIX or is_useless:
                    directory.files.remove_directory(entry.path)
                elif entry.suffix in ("", FUTURE_SUFFIX):
                    logs.append(entry)
        self._log_count = len(logs)
        if logs and directory.was_clean:
            logger.info("loading %d logs in %s without recovery: clean shutdown", len(logs), directory.path)
        elif logs:
            logger.info("recovering %d logs in %s: no clean shutdown", len(logs), directory.path)
        return logs

    def _open(self, entry: PartitionDirectory) -> Log | None:
        """Open a log; None if it was removed."""
        directory, key = self._directory, (entry.topic, entry.partition)
        recovery_point = None if self._recovery_points is None else self._recovery_points.get(key, 0)
        with failures_at(entry.path):
            if not directory.was_clean and recovery_point == 0 and read_topic_id(directory.files, entry.path) is None:
                # The id is synced with the first records. Without it the log may be that of a deleted topic of the same name.
                logger.warning("removing %s: no record of it was durable, and the power failed", entry.path)
                directory.files.remove_directory(entry.path)
                return None
        pool = FilePool(directory.files, OPEN_FILES_MAX)
        try:
            log, recovered = open_log(
                pool,
                entry.path,
                *key,
                self._config_of(entry.topic),
                now_ms=self._clocks.monotonic(),
                clean=directory.was_clean,
                recovery_point=recovery_point,
                log_start_offset=self._log_starts.get(key, 0),
                owner=self._owner,
                on_segment=partial(self._recovering, key),
            )
        finally:
            pool.close_all()
        log.high_watermark = max(log.log_start_offset, min(self._watermarks.get(key, 0), log.end_offset))
        log.cleaned_to = min(self._cleaned.get(key, 0), log.end_offset)
        number = next(self._opened)
        if recovered.bytes_checked or recovered.bytes_truncated:
            logger.info(
                "recovered %s-%d: %d bytes checked, %d truncated (%d of %d logs in %s)",
                *key, *recovered, number, self._log_count, directory.path,
            )  # fmt: skip
        return log

    def _recovering(self, key: TopicPartition, base_offset: int, number: int, segments: int) -> None:
        """Report progress before a segment is recovered; raises LoadStopped."""
        if self._is_stopped:
            raise LoadStopped
        if segments > 1:
            logger.info("recovering segment %d of %s-%d (%d of %d)", base_offset, *key, number, segments)


def worth(log: Log, topic_id: UUID | None) -> tuple[bool, int]:
    """How much a log is worth: of two of the same partition, the one that is worth more is kept.

    A deleted topic's log may be in a directory that was offline while the topic was created again. After a move that was interrupted both
    are of the same topic, and the longer one is complete.
    """
    return log.topic_id == topic_id, log.end_offset


def align_copy(copy: Log, log: Log, now_ms: MonotonicMs) -> None:
    """Remove from the copy of an interrupted move what its log does not have, as the log was truncated since; raises DiskFailure."""
    end = copy.epochs.matching_end(copy.end_offset, log.epochs, log.end_offset)
    if copy.log_start_offset > log.log_start_offset or end <= copy.log_start_offset:
        copy.restart_at(log.log_start_offset, now_ms)
    else:
        copy.truncate_to(end, now_ms)


def open_moved(directory: Path, original: Log, now_ms: MonotonicMs, owner: LogOwner[Log]) -> Log:
    """Open a log that was moved to that directory, with the offsets of the original; raises DiskFailure."""
    log, _ = open_log(
        original.pool,
        directory,
        original.topic,
        original.partition,
        original.config,
        now_ms=now_ms,
        clean=True,
        log_start_offset=original.log_start_offset,
        owner=owner,
    )
    log.active.end_at(original.end_offset)  # once truncated, it may end in a gap that compaction has left
    log.high_watermark = original.high_watermark
    return log
