"""Logs are opened at start in threads of their directory, while the event loop serves the quorum."""

import asyncio
import errno
import logging
import os
import shutil
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest
from isthmus_broker.core.config.topic_config import TopicConfig
from isthmus_broker.edge.storage.checkpoints import TopicPartition, write_topic_id
from isthmus_broker.edge.storage.files import FilePool
from isthmus_broker.edge.storage.filesystem import SYSTEM, FileSystem, SystemFiles
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.log_dir import CLEAN_SHUTDOWN, LogDir
from isthmus_broker.edge.storage.log_manager import LogManager, NoDirectoryLeft
from isthmus_client.clock import CLOCKS
from isthmus_wire.records import NewRecord, build_batch

from tests.edge.storage.logs import NOW, append, config

TOPIC_ID = UUID(int=1)
WAIT_SECONDS = 60.0


class Failures:
    """Remembers the failures."""

    def __init__(self) -> None:
        self.count = 0

    def directory_failed(self, lost: Sequence[TopicPartition]) -> None:
        self.count += 1

    def all_directories_failed(self, error: NoDirectoryLeft) -> None:
        raise error


class GatedFiles(SystemFiles):
    """Reads wait until the gate is open."""

    def __init__(self, readers: int = 1) -> None:
        self.gate = threading.Event()
        self.readers = threading.Semaphore(0)
        """Released by every read that begins."""

    def read(self, descriptor: int, size: int, position: int, /) -> bytes:
        self.readers.release()
        assert self.gate.wait(WAIT_SECONDS)
        return os.pread(descriptor, size, position)


class UnreadableFiles(SystemFiles):
    """Below a directory, nothing can be read."""

    def __init__(self, under: Path) -> None:
        self.under = under

    def open(self, path: str, *, create: bool) -> int:
        if Path(path).is_relative_to(self.under):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().open(path, create=create)


def manager_of(
    directories: Sequence[Path], files: FileSystem = SYSTEM, settings: TopicConfig | None = None
) -> tuple[LogManager, Failures]:
    for directory in directories:
        directory.mkdir(exist_ok=True)
    settings, failures = settings or config(), Failures()
    opened = [LogDir(files, directory) for directory in directories]
    return LogManager(opened, FilePool(files), lambda _topic: settings, failures, CLOCKS), failures


def crashed(directory: Path, *names: str, batches: int = 1, segment_bytes: int = 2**30) -> list[Log]:
    """Logs with unsynced records, left by a process that was killed."""

    async def write() -> list[Log]:
        manager, _ = manager_of([directory], settings=config(segment_bytes=segment_bytes))
        logs = [manager.create(name, 0, TOPIC_ID) for name in names]
        for log in logs:
            for _ in range(batches):
                append(log, [b"x" * 100])
        manager._pool.close_all()
        return logs

    return asyncio.run(write())


def test_the_event_loop_runs_and_logs_are_recovered_in_parallel(tmp_path: Path) -> None:
    """One thread for both logs of a directory, or the event loop itself, would wait forever for the second reader."""
    here, there = tmp_path / "here", tmp_path / "there"
    crashed(here, "a", "b")
    crashed(there, "c", "d")
    files = GatedFiles()

    async def test() -> None:
        manager, _ = manager_of([here, there], files)
        load = asyncio.get_running_loop().create_task(manager.load(2))
        for _ in range(4):
            assert await asyncio.to_thread(files.readers.acquire, timeout=WAIT_SECONDS)
        assert not load.done()
        assert manager.logs == {}
        files.gate.set()
        await load
        assert {topic: log.end_offset for (topic, _), log in manager.logs.items()} == dict.fromkeys("abcd", 1)
        append(manager.logs["a", 0], [b"y"])

    asyncio.run(test())


def test_recovery_does_not_stall_the_event_loop(tmp_path: Path) -> None:
    """A node that recovered a large log on its event loop lost its place in the quorum meanwhile."""
    count = 150_000
    (log,) = crashed(tmp_path, "t")
    batch = build_batch([NewRecord(None, b"x", NOW)])
    with log.active.path.open("wb") as file:
        for offset in range(count):
            file.write(offset.to_bytes(8) + batch[8:])

    async def test() -> None:
        manager, _ = manager_of([tmp_path])
        everywhere, here = time.process_time(), time.thread_time()
        await manager.load(2)
        everywhere, here = time.process_time() - everywhere, time.thread_time() - here
        assert manager.logs["t", 0].end_offset == count
        assert here < everywhere / 10, "recovery computes in the event loop's thread"

    asyncio.run(test())


def test_a_directory_that_fails_during_recovery_goes_offline_alone(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    crashed(here, "a", "b")
    crashed(there, "c", "d")

    async def test() -> None:
        manager, failures = manager_of([here, there], UnreadableFiles(there))
        await manager.load(2)
        assert failures.count == 1
        assert [directory.online for directory in manager.directories] == [True, False]
        assert sorted(manager.logs) == [("a", 0), ("b", 0)]
        manager.close(7)

    asyncio.run(test())
    assert (here / CLEAN_SHUTDOWN).exists()
    assert not (there / CLEAN_SHUTDOWN).exists()


def test_no_directory_left(tmp_path: Path) -> None:
    crashed(tmp_path, "a")

    async def test() -> None:
        manager, _ = manager_of([tmp_path], UnreadableFiles(tmp_path))
        with pytest.raises(NoDirectoryLeft):
            await manager.load(1)

    asyncio.run(test())


def test_a_stop_ends_recovery_after_the_current_segment(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Python waits for the threads, with all their work, before a process ends."""
    caplog.set_level(logging.INFO)
    crashed(tmp_path, "a", "b", batches=40, segment_bytes=400)
    files = GatedFiles()

    async def test() -> None:
        manager, _ = manager_of([tmp_path], files, config(segment_bytes=400))
        load = asyncio.get_running_loop().create_task(manager.load(1))
        assert await asyncio.to_thread(files.readers.acquire, timeout=WAIT_SECONDS)
        load.cancel()
        with pytest.raises(asyncio.CancelledError):
            await load
        files.gate.set()
        async with asyncio.timeout(WAIT_SECONDS):
            while any(thread.name.startswith("recovery") for thread in threading.enumerate()):  # noqa: ASYNC110 - no callback when a thread ends
                await asyncio.sleep(0.001)
        manager.close(7)

    asyncio.run(test())
    begun = [record for record in caplog.records if record.getMessage().startswith("recovering segment")]
    assert len(begun) <= 1
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()


def test_a_stop_before_the_logs_are_loaded_is_not_a_clean_shutdown(tmp_path: Path) -> None:
    """It was recorded as one, with checkpoints that named no log: the next start trusted torn batches."""
    (log,) = crashed(tmp_path, "a")

    async def test() -> None:
        manager, _ = manager_of([tmp_path])
        manager.close(7)

    asyncio.run(test())
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()
    assert log.active.path.exists()


def test_of_two_logs_of_a_partition_the_one_of_the_current_topic_is_kept(tmp_path: Path) -> None:
    """The longer one is of a deleted topic of the same name: its directory was offline while the topic was created again."""
    old, new = tmp_path / "old", tmp_path / "new"
    crashed(old, "t", batches=3)
    crashed(new, "t")
    current = UUID(int=77)
    write_topic_id(SYSTEM, new / "t-0", current)

    async def kept(topic_id: UUID | None) -> int:
        for directory in (old, new):
            shutil.copytree(directory, tmp_path / f"{topic_id}" / directory.name)
        manager, _ = manager_of([tmp_path / f"{topic_id}" / directory.name for directory in (old, new)])
        await manager.load(1, lambda _topic: topic_id)
        return manager.logs["t", 0].end_offset

    assert asyncio.run(kept(current)) == 1
    assert asyncio.run(kept(TOPIC_ID)) == 3
