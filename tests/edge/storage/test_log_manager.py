"""The logs of a node's directories: a topic created again does not use the offsets of a deleted one."""

import asyncio
from pathlib import Path
from uuid import UUID

import pytest
from isthmus_broker.core.config.topic_config import TopicConfig
from isthmus_broker.edge.storage.checkpoints import LOG_STARTS, RECOVERY_POINTS, read_offsets
from isthmus_broker.edge.storage.files import DiskFailure, FilePool
from isthmus_broker.edge.storage.filesystem import SYSTEM
from isthmus_broker.edge.storage.log_dir import LogDir, MetaProperties, write_meta
from isthmus_broker.edge.storage.log_manager import LogManager
from isthmus_client.clock import CLOCKS
from isthmus_model.clocks import MonotonicMs

from tests.edge.storage.logs import NoFailures, append, config, new_log
from tests.sim.storage.loop import SimLoop

KEY = ("t", 0)


async def opened(directory: Path) -> LogManager:
    settings: TopicConfig = config(segment_bytes=250, retention_ms=-1)
    manager = LogManager(
        [LogDir(SYSTEM, directory)], FilePool(SYSTEM, 100), lambda _topic: settings, NoFailures(), CLOCKS
    )
    await manager.load(1)
    return manager


def simulated(directory: Path) -> tuple[SimLoop, LogManager]:
    """The logs on a loop whose worker thread runs when the test says so."""
    loop = SimLoop()  # type: ignore[abstract]
    with loop.running():
        load = loop.create_task(opened(directory))
    while not load.done():
        loop.settle()
    return loop, load.result()


async def written(directory: Path, name: str, present: bool) -> None:
    """Wait until a checkpoint contains the partition, or no longer does."""
    line = f"{KEY[0]} {KEY[1]} "
    async with asyncio.timeout(60):
        while (directory / name).exists() is False or (line in (directory / name).read_text()) is not present:  # noqa: ASYNC110 - another thread writes it
            await asyncio.sleep(0.001)


def test_a_log_created_again_does_not_use_the_offsets_of_the_deleted_one(tmp_path: Path) -> None:
    write_meta(SYSTEM, tmp_path, MetaProperties("cluster", 1, UUID(int=5)))
    names = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")

    async def test() -> None:
        logs = await opened(tmp_path)
        log = logs.create(*KEY, UUID(int=1), None)
        append(log, [b"old"] * 10)
        log.flush_now()
        log.high_watermark = 10
        logs.checkpoint()
        for name in names:
            await written(tmp_path, name, present=True)
        logs.delete(KEY)
        for name in names:
            await written(tmp_path, name, present=False)
        append(logs.create(*KEY, UUID(int=2), None), [b"new"] * 20)

    asyncio.run(test())
    crashed = asyncio.run(opened(tmp_path)).logs[KEY]
    assert (crashed.topic_id, crashed.end_offset, crashed.high_watermark) == (UUID(int=2), 20, 0)


def test_the_offsets_of_a_log_deleted_while_those_of_another_are_forgotten_are_forgotten_too(tmp_path: Path) -> None:
    """The checkpoint that was being written had them. A new log of that name was then damaged below its recovery point, and took its
    directory offline.
    """
    loop, manager = simulated(tmp_path)
    with loop.running():
        for topic in ("a", "b"):
            append(manager.create(topic, 0, UUID(int=9)), [b"x"] * 8)
            manager.logs[topic, 0].flush_now()
        manager.delete(("a", 0))
    loop.run()
    with loop.running():
        manager.delete(("b", 0))
    loop.run_job()
    loop.run()
    assert ("b", 0) in (read_offsets(SYSTEM, tmp_path / RECOVERY_POINTS) or {})
    with loop.running():
        manager.create("b", 0, UUID(int=10))
    assert ("b", 0) not in (read_offsets(SYSTEM, tmp_path / RECOVERY_POINTS) or {})


def test_a_start_that_is_raised_while_an_earlier_one_is_written_deletes_nothing_yet(tmp_path: Path) -> None:
    """The segments between them were deleted while only the earlier start was on disk: after a power loss the log seemed to have lost its
    beginning, and was discarded.
    """
    loop, manager = simulated(tmp_path)
    with loop.running():
        log = manager.create(*KEY, UUID(int=1))
        for _ in range(6):
            append(log, [b"x" * 50])
        log.high_watermark = log.end_offset
        bases = [segment.base_offset for segment in log.segments]
        assert len(bases) > 2
        log.raise_start(bases[1])
        manager.delete_expired()
        log.raise_start(bases[2])
    loop.settle()
    assert read_offsets(SYSTEM, tmp_path / LOG_STARTS) == {KEY: bases[1]}
    assert [segment.base_offset for segment in log.segments] == bases[1:]
    with loop.running():
        manager.delete_expired()
    loop.settle()
    assert [segment.base_offset for segment in log.segments] == bases[2:]


def test_a_start_on_disk_from_before_a_restart_deletes_nothing(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=250)
    log.restart_at(40, MonotonicMs(0))
    for _ in range(6):
        append(log, [b"x" * 50])
    bases = [segment.base_offset for segment in log.segments]
    assert log.delete_below(10, MonotonicMs(0)) == []
    assert [segment.base_offset for segment in log.segments] == bases


def test_a_log_is_not_created_after_the_last_directory_has_failed(tmp_path: Path) -> None:
    """Metadata that arrives while the node stops named a new partition, and an unexpected error ended the node instead (seed 10000183)."""

    class Failures(NoFailures):
        def directory_failed(self, lost: object) -> None:
            pass

        def all_directories_failed(self, error: OSError) -> None:
            pass

    write_meta(SYSTEM, tmp_path, MetaProperties("cluster", 1, UUID(int=5)))

    async def test() -> None:
        settings = config()
        directory = LogDir(SYSTEM, tmp_path)
        logs = LogManager([directory], FilePool(SYSTEM, 100), lambda _topic: settings, Failures(), CLOCKS)
        await logs.load(1)
        logs.fail(directory, DiskFailure(tmp_path, OSError(5, "broken")))
        with pytest.raises(DiskFailure, match="every log directory has failed"):
            logs.create(*KEY, UUID(int=1), None)

    asyncio.run(test())
