"""Single operations of a disk that fail: what goes offline, and what is left for the next start."""

import logging
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final
from uuid import UUID

import pytest
from isthmus_broker.edge.storage.failed_syncs import rewrite_failed_syncs
from isthmus_broker.edge.storage.files import DiskFailure, FilePool, sync_path
from isthmus_broker.edge.storage.filesystem import FileSystem
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.log_dir import LogDir
from isthmus_broker.edge.storage.log_manager import LogManager
from isthmus_broker.edge.storage.log_mover import LogMover
from isthmus_broker.edge.storage.recovery import create_log, open_log
from isthmus_model.clocks import Clocks, MonotonicMs, WallMs

from tests.edge.storage.logs import NOW, NoFailures, append, config
from tests.sim.power.disk import SimDisk
from tests.sim.storage.loop import SimLoop
from tests.sim.storage.reading import content_of

HERE, THERE = Path("/d0"), Path("/d1")
KEY, OTHER = ("t", 0), ("u", 0)
CONFIG: Final = config(segment_bytes=600, index_interval_bytes=100)
CLOCKS: Final = Clocks(lambda: WallMs(NOW), lambda: MonotonicMs(0))


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def created(files: FileSystem) -> Log:
    """A log with a durable directory."""
    log = create_log(FilePool(files), HERE / "t-0", *KEY, CONFIG, UUID(int=9), now_ms=MonotonicMs(NOW))
    log.flush_now()
    files.sync_path(Path("/"))
    return log


def opened(files: FileSystem, recovery_point: int) -> Log:
    log, _ = open_log(
        FilePool(files),
        HERE / "t-0",
        *KEY,
        CONFIG,
        now_ms=MonotonicMs(NOW),
        clean=False,
        recovery_point=recovery_point,
    )
    return log


class Offline(NoFailures):
    """Directories may fail."""

    def __init__(self) -> None:
        self.lost: list[list[tuple[str, int]]] = []

    def directory_failed(self, lost: object) -> None:
        self.lost.append(list(lost))  # type: ignore[call-overload]


class Node:
    """The logs of a node with two directories on a disk."""

    def __init__(self, disk: SimDisk) -> None:
        self.loop = SimLoop()  # type: ignore[abstract]
        files = disk.start()
        for path in (HERE, THERE):
            files.make_directory(path, exist_ok=True)
        files.sync_path(Path("/"))
        self.failures = Offline()
        directories = [LogDir(files, path) for path in (HERE, THERE)]
        for number, directory in enumerate(directories):
            directory.directory_id = UUID(int=number + 1)
        self.logs = LogManager(directories, FilePool(files), lambda _topic: CONFIG, self.failures, CLOCKS)
        self.moved: list[Log] = []
        self.mover = LogMover(self.logs, lambda: 2.0**63, lambda _key, log: self.moved.append(log))
        self.here, self.there = self.logs.directories
        with self.loop.running():
            load = self.loop.create_task(self.logs.load(1))
        self.loop.settle()
        load.result()


def test_a_producer_snapshot_that_cannot_be_removed_fails_the_directory() -> None:
    """The error was not that of a directory: it ended the node."""
    disk = SimDisk(Random(1))
    log = created(disk.start())
    append(log, [b"x"])
    append(log, [b"y"])
    log.snapshot_producers()
    disk.fail("entry", under=HERE / "t-0" / "00000000000000000002.snapshot")
    with pytest.raises(DiskFailure):
        log.truncate_to(1, MonotonicMs(NOW))


def test_a_move_does_not_depend_on_the_other_checkpoints_of_the_logs_directory() -> None:
    """Beginning a move wrote the checkpoints of every directory that had lost a log, and a failure there left no log to move."""
    disk = SimDisk(Random(1))
    node = Node(disk)
    with node.loop.running():
        append(node.logs.create(*KEY, UUID(int=9), node.here.directory_id), [b"x"])
        node.logs.create(*OTHER, UUID(int=8), node.here.directory_id)
        node.logs.delete(OTHER)
        disk.fail("sync", under=HERE)
        node.mover.move(KEY, node.there)
    node.loop.settle()
    assert [log.directory for log in node.moved] == [THERE / "t-0"]
    assert (node.here.online, node.there.online, node.logs.home[KEY]) == (False, True, node.there)


def test_a_log_whose_old_directory_fails_at_the_end_of_a_move_is_at_its_new_place() -> None:
    """The log was nowhere: neither in the new directory nor among those that were lost with the old one."""
    disk = SimDisk(Random(1))
    node = Node(disk)
    with node.loop.running():
        append(node.logs.create(*KEY, UUID(int=9), node.here.directory_id), [b"x"])
        node.mover.move(KEY, node.there)
        disk.fail("entry", under=HERE)
    node.loop.settle()
    assert node.logs.logs[KEY].directory == THERE / "t-0"
    assert (node.here.online, node.there.online, node.failures.lost) == (False, True, [[]])


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
def test_records_whose_sync_failed_survive_a_restart_and_then_a_power_loss(suffix: str) -> None:
    """The system had marked the pages clean: the next process read them, counted them as durable, and a power loss left a hole."""
    for seed in range(60):
        disk = SimDisk(Random(seed))
        log = created(disk.start())
        for number in range(20):
            append(log, [b"%d" % number * 20], epoch=number // 6)
        before, end = content_of(log), log.end_offset
        disk.fail("sync", under=log.active.path.with_suffix(suffix))
        with pytest.raises(DiskFailure):
            log.flush_now()
        disk.kill()
        again = opened(disk.start(), 0)
        again.flush_now()
        assert (content_of(again), again.recovery_point) == (before, end)
        disk.cut_power()
        last = opened(disk.start(), end)
        assert content_of(last) == before
        assert all(last.read(offset, 1, end, at_least_one=True).size for offset in range(end))


def test_a_file_whose_sync_failed_is_written_again_until_a_sync_succeeds() -> None:
    content, path = Random(1).randbytes(2_500_000), HERE / "t-0" / "leader-epoch-checkpoint"
    outcomes = set()
    for seed in range(10):
        disk = SimDisk(Random(seed))
        files = disk.start()
        files.make_directory(path.parent, exist_ok=True)
        files.write_file(path, content + b"truncated", sync=True)
        for directory in (path.parent, HERE, Path("/")):
            files.sync_path(directory)
        files.write_file(path, content, sync=False)
        disk.fail("sync", under=path, times=2)
        with pytest.raises(DiskFailure):
            sync_path(files, path)
        files = disk.start()
        with pytest.raises(OSError, match="Input/output"):
            rewrite_failed_syncs(files, path.parent)
        assert len(files.list(path.parent)) == 2
        files = disk.start()
        rewrite_failed_syncs(files, path.parent)
        assert files.list(path.parent) == [path]
        disk.cut_power()
        files = disk.start()
        outcomes.add(files.read_file(path) == content)
        rewrite_failed_syncs(files, path.parent)  # the removal of the record was not synced
    assert outcomes == {True}


def test_a_failed_sync_of_a_file_that_was_deleted_since_is_forgotten() -> None:
    disk = SimDisk(Random(1))
    log = created(disk.start())
    append(log, [b"x"])
    disk.fail("sync", under=log.active.path)
    with pytest.raises(DiskFailure):
        log.flush_now()
    files = disk.start()
    files.remove(log.active.path)
    assert opened(files, 0).end_offset == 0
    assert not [path for path in files.list(log.directory) if path.suffix == ".failed-sync"]
