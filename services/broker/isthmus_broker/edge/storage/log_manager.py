"""All logs of a node in all its log directories: creation, opening, deletion, flushing, retention, checkpoints.

When a directory fails, only its own logs go offline. At start, threads of each directory open its logs, see `loading`. Later, a worker
thread syncs closed segments and removes files, which would block the event loop; everything else runs on the loop and needs no locks.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from errno import EIO
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from uuid import UUID, uuid4

from isthmus_model.clocks import Clocks

from isthmus_broker.core.config.topic_config import TopicConfig
from isthmus_broker.edge.storage.checkpoints import (
    CLEANED,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    Offsets,
    TopicPartition,
)
from isthmus_broker.edge.storage.files import (
    DiskFailure,
    FilePool,
    failures_at,
    remove_all,
    sync_existing,
    sync_path,
)
from isthmus_broker.edge.storage.loading import DirectoryLoad, Loaded, TopicIdOf, align_copy, open_moved, worth
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.log_dir import DELETE_SUFFIX, FUTURE_SUFFIX, LogDir
from isthmus_broker.edge.storage.recovery import create_log

logger = logging.getLogger(__name__)


class NoDirectoryLeft(OSError):
    """Every log directory has failed: the broker stops."""


CHECKPOINT_INTERVAL_MS: Final = 60_000
"""The interval between checkpoints of offsets, the default of Kafka's log.flush.offset.checkpoint.interval.ms."""


class DirectoryFailures(Protocol):
    """Called when log directories fail."""

    def directory_failed(self, lost: Sequence[TopicPartition]) -> None:
        """A directory went offline with the logs of these partitions."""
        ...

    def all_directories_failed(self, error: NoDirectoryLeft) -> None:
        """Every directory has failed."""
        ...


class Copy(NamedTuple):
    """A log on its way to another directory, which is not complete yet."""

    directory: LogDir
    log: Log


class LogManager:
    """Logs by topic and partition."""

    def __init__(
        self,
        directories: Iterable[LogDir],
        pool: FilePool,
        config_of: Callable[[str], TopicConfig],
        failures: DirectoryFailures,
        clocks: Clocks,
    ) -> None:
        self.directories = list(directories)
        self.logs: dict[TopicPartition, Log] = {}
        self.home: dict[TopicPartition, LogDir] = {}
        self._versions = count()  # of the checkpoints
        self._forgetting: dict[LogDir, int] = {}
        """Directories where logs were deleted: only checkpoints newer than this version are without their offsets."""
        self.copies: dict[TopicPartition, Copy] = {}
        """Copies of logs that move to another directory; each has its log."""
        self._failures = failures
        self.clocks = clocks
        self._pool = pool
        self._config_of = config_of
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="disk")

    # -- start and stop ------------------------------------------------------------------------------------------------------

    async def load(self, threads: int, topic_id_of: TopicIdOf = lambda _topic: None) -> None:
        """Open every log, with this many threads for each directory; a directory that fails goes offline. Raises NoDirectoryLeft."""
        online = [directory for directory in self.directories if directory.online]
        loaded = await asyncio.gather(*(self._load_directory(directory, threads) for directory in online))
        for directory, (logs, _) in zip(online, loaded, strict=True):
            try:
                for log in logs:
                    self._add_loaded(directory, log, topic_id_of(log.topic))
            except DiskFailure as failure:
                self.fail(directory, failure)
        for directory, (_, copies) in zip(online, loaded, strict=True):
            for copy in copies:
                self._add_loaded_copy(directory, copy)
        for directory in online:
            if directory.online:
                directory.is_loaded = True
                # A log that is created later must not use the offsets of one that is gone, and recovery needs to know which logs are new.
                with suppress(DiskFailure):
                    await self._checkpoint_later(directory)
        if not self._is_any_online():
            raise NoDirectoryLeft("every log directory has failed; the log lines above name the errors")

    async def _load_directory(self, directory: LogDir, threads: int) -> Loaded:
        try:
            return await DirectoryLoad(directory, self._config_of, self, self.clocks).run(threads)
        except DiskFailure as failure:
            self.fail(directory, failure)
            return Loaded([], [])

    def _add_loaded(self, directory: LogDir, log: Log, topic_id: UUID | None) -> None:
        """Add a log; of two of the same partition the better one is kept, and the other does not return, even if that directory fails."""
        log.use_pool(self._pool)
        key = (log.topic, log.partition)
        other = self.logs.get(key)
        if other is not None and worth(other, topic_id) >= worth(log, topic_id):
            self._remove(log)
            sync_path(directory.files, directory.path)
            return
        if other is not None:
            self._retire(key)
        self._adopt(directory, key, log)

    def _retire(self, key: TopicPartition) -> None:
        """Delete the older of two logs durably; its directory fails if that is not possible."""
        home = self.home[key]
        try:
            self.delete(key)
            sync_path(home.files, home.path)
        except DiskFailure as failure:
            self.fail(home, failure)

    def _add_loaded_copy(self, directory: LogDir, copy: Log) -> None:
        """Add the copy of an interrupted move, without what its log does not have; the log may have been created again."""
        if not directory.online:
            return
        copy.use_pool(self._pool)
        key = (copy.topic, copy.partition)
        self.discard_copy(key)
        self.copies[key] = Copy(directory, copy)
        log = self.logs.get(key)
        if log is None or log.topic_id != copy.topic_id:
            self.discard_copy(key)
            return
        try:
            align_copy(copy, log, self.clocks.monotonic())
        except DiskFailure as failure:
            self.fail(directory, failure)

    def _is_any_online(self) -> bool:
        return any(directory.online for directory in self.directories)

    def _adopt(self, directory: LogDir, key: TopicPartition, log: Log) -> None:
        self.logs[key] = log
        self.home[key] = directory

    def close(self, broker_epoch: int) -> None:
        """Sync and close everything, and record the clean shutdown, so that the next start needs no recovery.

        A directory whose logs were not loaded stays as it is: its checkpoints name logs that this process does not know.
        """
        self._worker.shutdown(wait=True)
        for directory in self.directories:
            if directory.online and directory.is_loaded:
                try:
                    for log in self._logs_in(directory).values():
                        log.close(self.clocks.monotonic())
                    self._checkpoint_now(directory)
                    directory.write_clean_marker(broker_epoch)
                except DiskFailure as failure:
                    logger.error("log directory %s failed while closing: %s", directory.path, failure)
            directory.release()
        self._pool.close_all()

    # -- creation and deletion -----------------------------------------------------------------------------------------------

    def create(self, topic: str, partition: int, topic_id: UUID, directory_id: UUID | None = None) -> Log:
        """Create a log in the directory with that id, or else in the one with the fewest logs; raises DiskFailure."""
        self._forget_now()
        directory, key = self._choose(directory_id), (topic, partition)
        try:
            log = self._create_at(directory.path / f"{topic}-{partition}", key, topic_id)
        except DiskFailure as failure:
            self.fail(directory, failure)
            raise
        self._adopt(directory, key, log)
        return log

    def create_copy(self, key: TopicPartition, target: LogDir) -> Copy:
        """Create an empty copy of a log in another directory; raises DiskFailure."""
        if target in self._forgetting:
            self._checkpoint_now(target)
        log, (topic, partition) = self.logs[key], key
        path = target.path / f"{topic}-{partition}.{uuid4().hex}{FUTURE_SUFFIX}"
        copy = self.copies[key] = Copy(target, self._create_at(path, key, log.topic_id))
        copy.log.restart_at(log.log_start_offset, self.clocks.monotonic())
        return copy

    def discard_copy(self, key: TopicPartition) -> None:
        """Remove the copy of a log, if there is one; no start finds it again."""
        copy = self.copies.pop(key, None)
        if copy is None or not copy.directory.online:
            return
        try:
            self._remove(copy.log)
            sync_path(self._pool.files, copy.directory.path)
        except DiskFailure as failure:
            self.fail(copy.directory, failure)
        else:
            self._forget_offsets(copy.directory)

    def _create_at(self, path: Path, key: TopicPartition, topic_id: UUID | None) -> Log:
        config = self._config_of(key[0])
        return create_log(self._pool, path, *key, config, topic_id, now_ms=self.clocks.monotonic(), owner=self)

    def replace(self, key: TopicPartition) -> Log:
        """Replace a log by its complete copy in another directory; raises DiskFailure.

        The copy has its offsets on record and its final name before the log loses its own. A start that finds both keeps the longer one.
        """
        old, (target, copy) = self.logs[key], self.copies[key]
        copy.close(self.clocks.monotonic())
        path = target.path / f"{key[0]}-{key[1]}"
        with failures_at(path):
            self._checkpoint_now(target)
            target.files.rename(copy.directory, path)
            sync_path(target.files, target.path)
        del self.copies[key]
        self._retire(key)
        log = open_moved(path, old, self.clocks.monotonic(), self)
        self._adopt(target, key, log)
        return log

    def _choose(self, directory_id: UUID | None) -> LogDir:
        online = [one for one in self.directories if one.online]
        if not online:  # the node is about to stop
            raise DiskFailure(self.directories[0].path, OSError(EIO, "every log directory has failed"))
        named = [one for one in online if one.directory_id == directory_id]
        return min(named or online, key=lambda one: len(self.keys_in(one)))

    def delete(self, key: TopicPartition) -> None:
        """Delete a log, and its copy; its files are removed after the topic's file.delete.delay.ms. Raises DiskFailure."""
        self.discard_copy(key)
        log = self.logs.pop(key)
        self._forget_offsets(self.home.pop(key))
        self._remove(log)

    def _remove(self, log: Log) -> None:
        """Rename a log's directory, and remove it later."""
        for segment in log.segments:
            segment.close()
        doomed = log.directory.with_name(f"{log.topic}-{log.partition}.{uuid4().hex}{DELETE_SUFFIX}")
        with failures_at(log.directory):
            self._pool.files.rename(log.directory, doomed)
        self._remove_later([doomed], log.config.file_delete_delay_ms)

    def keys_in(self, directory: LogDir) -> list[TopicPartition]:
        """The partitions whose logs are in that directory."""
        return [key for key, home in self.home.items() if home is directory]

    def _logs_in(self, directory: LogDir) -> dict[TopicPartition, Log]:
        """The logs in that directory, and the copies of logs of others."""
        logs = {key: self.logs[key] for key in self.keys_in(directory)}
        return logs | {key: copy.log for key, copy in self.copies.items() if copy.directory is directory}

    # -- failure -------------------------------------------------------------------------------------------------------------

    def fail(self, directory: LogDir, failure: DiskFailure) -> None:
        """Take a directory offline; the node continues with the others."""
        if not directory.online:
            return
        directory.online = False
        lost = self.keys_in(directory)
        logger.error(
            "log directory %s failed: taking its %d partitions offline: %s", directory.path, len(lost), failure
        )
        for key in lost:
            for segment in self.logs.pop(key).segments:
                segment.close()
            del self.home[key]
        for key, copy in list(self.copies.items()):
            if copy.directory is directory or key in lost:
                self.discard_copy(key)
        self._failures.directory_failed(lost)
        if not self._is_any_online():
            self._failures.all_directories_failed(
                NoDirectoryLeft(f"every log directory has failed; the last one: {failure}")
            )

    def fail_log(self, key: TopicPartition, failure: DiskFailure) -> None:
        """Take the directory of that log offline."""
        directory = self.home.get(key)
        if directory is not None:
            self.fail(directory, failure)

    # -- maintenance ---------------------------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write all checkpoints of every directory, in the worker thread."""
        for directory in self.directories:
            if directory.online:
                self._checkpoint_later(directory)

    def checkpoint_watermarks(self) -> None:
        """Write only the high watermarks, from which a follower or a new leader continues, and which change more often than the rest."""
        self._checkpoint_only(HIGH_WATERMARKS)

    def checkpoint_starts(self) -> None:
        """Write only the log start offsets, which DeleteRecords raises."""
        self._checkpoint_only(LOG_STARTS)

    def checkpoint_cleaned(self) -> None:
        """Write only the offsets up to which logs are clean."""
        self._checkpoint_only(CLEANED)

    def _checkpoint_only(self, name: str) -> None:
        for directory in self.directories:
            if directory.online:
                offsets = {name: self._offsets(directory)[name]}
                self._in_worker(directory, directory.write_checkpoints, next(self._versions), offsets)

    async def record_offsets(self, log: Log) -> None:
        """Write the checkpoints of the log's directory durably; raises DiskFailure."""
        home = self.home.get((log.topic, log.partition))
        if home is not None:
            await asyncio.shield(self._checkpoint_later(home))

    def _checkpoint_later(
        self, directory: LogDir, then: Callable[[LogDir, Offsets], None] = lambda _directory, _starts: None
    ) -> asyncio.Future[None]:
        """Write checkpoints in the worker thread, and then call `then` with the log start offsets that are on disk."""
        version, offsets = next(self._versions), self._offsets(directory)

        def written(directory: LogDir) -> None:
            self._written(directory, version)
            then(directory, offsets[LOG_STARTS])

        return self._in_worker(directory, directory.write_checkpoints, version, offsets, then=written)

    def _checkpoint_now(self, directory: LogDir) -> None:
        version = next(self._versions)
        directory.write_checkpoints(version, self._offsets(directory))
        self._written(directory, version)

    def _written(self, directory: LogDir, version: int) -> None:
        if self._forgetting.get(directory, version) < version:
            del self._forgetting[directory]

    def offsets_lowered(self, log: Log) -> None:
        """Record the offsets of a log whose records are about to be removed."""
        directory = self._directory_of(log)
        if directory is not None:
            self._checkpoint_now(directory)

    def _directory_of(self, log: Log) -> LogDir | None:
        """The directory of a log or a copy; None if it is neither yet, or no longer."""
        key = (log.topic, log.partition)
        copy = self.copies.get(key)
        if copy is not None and copy.log is log:
            return copy.directory
        return self.home[key] if self.logs.get(key) is log else None

    async def sync(self, paths: list[Path]) -> None:
        """Make files and directories durable, in the worker thread; raises DiskFailure."""
        await asyncio.get_running_loop().run_in_executor(self._worker, sync_existing, self._pool.files, paths)

    def _forget_offsets(self, directory: LogDir) -> None:
        """Write checkpoints without the logs that were just deleted: a topic that is created again must not use their offsets."""
        version = self._forgetting[directory] = next(self._versions)
        asyncio.get_running_loop().call_soon(self._forget_later, directory, version)

    def _forget_later(self, directory: LogDir, version: int) -> None:
        if self._forgetting.get(directory) == version and directory.online:
            self._checkpoint_later(directory)

    def _forget_now(self) -> None:
        """Forget deleted logs durably, with their offsets, before a log is created that may have their name."""
        for directory in list(self._forgetting):
            try:
                if directory.online:
                    self._checkpoint_now(directory)
            except DiskFailure as failure:
                self.fail(directory, failure)

    def _offsets(self, directory: LogDir) -> dict[str, dict[TopicPartition, int]]:
        """The checkpoint files of a directory, by name."""
        logs = self._logs_in(directory)
        return {
            # The log starts first: without them, records before a log that was restarted would seem to be lost.
            LOG_STARTS: {key: log.log_start_offset for key, log in logs.items() if log.log_start_offset > 0},
            RECOVERY_POINTS: {key: log.recovery_point for key, log in logs.items()},
            HIGH_WATERMARKS: {key: log.high_watermark for key, log in logs.items()},
            CLEANED: {key: log.cleaned_to for key, log in logs.items() if log.cleaned_to > 0},
        }

    def _in_worker(
        self,
        directory: LogDir,
        work: Callable[..., None],
        *arguments: object,
        then: Callable[[LogDir], None] = lambda _directory: None,
    ) -> asyncio.Future[None]:
        """Run disk work in the worker thread, and then `then` on the event loop; a failure takes the directory offline."""
        done = asyncio.get_running_loop().run_in_executor(self._worker, work, *arguments)

        def finished(future: asyncio.Future[None]) -> None:
            error = future.exception()
            if isinstance(error, DiskFailure):
                self.fail(directory, error)
            elif error is not None:
                raise error
            elif directory.online:
                then(directory)

        done.add_done_callback(finished)
        return done

    def delete_expired(self) -> None:
        """Apply retention to all logs: first their log start offsets are recorded, then the segments below those are deleted."""
        directories: dict[LogDir, None] = {}
        for key, log in list(self.logs.items()):
            try:
                reason = log.raise_start_by_retention(self.clocks.now())
            except DiskFailure as failure:
                self.fail_log(key, failure)
                continue
            if reason:
                logger.info("deleting segments of %s-%d below offset %d: %s", *key, log.log_start_offset, reason)
                directories[self.home[key]] = None
        for directory in directories:
            if directory.online:
                self._checkpoint_later(directory, self._delete_below)

    def _delete_below(self, directory: LogDir, starts: Offsets) -> None:
        """Delete the segments below the log start offsets that are on disk; the logs' own may have been raised since."""
        for key in self.keys_in(directory):
            log = self.logs[key]
            try:
                marked = log.delete_below(min(starts.get(key, 0), log.log_start_offset), self.clocks.monotonic())
            except DiskFailure as failure:
                self.fail_log(key, failure)
                return
            if marked:
                self._remove_later(marked, log.config.file_delete_delay_ms)

    def flush_due(self) -> None:
        """Sync the logs whose flush.ms has passed."""
        now = self.clocks.monotonic()
        for key, log in list(self.logs.items()):
            if log.recovery_point < log.end_offset and now - log.flushed_ms >= log.config.flush_ms:
                try:
                    log.flush(now)
                except DiskFailure as failure:
                    self.fail_log(key, failure)

    def expire_producers(self, expiration_ms: int) -> None:
        """Remove producer ids that have not written for `expiration_ms`."""
        for log in self.logs.values():
            log.producers.expire(self.clocks.wall(), expiration_ms)

    def segment_closed(self, log: Log) -> None:
        """Sync the closed segments in the worker thread."""
        unsynced = log.unsynced(log.segments[:-1])
        done = asyncio.get_running_loop().run_in_executor(self._worker, sync_existing, self._pool.files, unsynced.files)

        def finished(future: asyncio.Future[None]) -> None:
            error = future.exception()
            if error is None:
                log.synced(unsynced)
            elif not isinstance(error, DiskFailure):
                raise error
            elif (directory := self._directory_of(log)) is not None:
                self.fail(directory, error)

        done.add_done_callback(finished)

    def _remove_later(self, paths: list[Path], delay_ms: int) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(
            delay_ms / 1000, lambda: loop.run_in_executor(self._worker, remove_all, self._pool.files, paths)
        )
