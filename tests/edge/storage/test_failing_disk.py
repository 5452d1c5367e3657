"""Single operations of a disk that fail: what goes offline, and what is left for the next start."""

import logging
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final
from uuid import UUID

import pytest
from isthmus_broker.edge.storage.files import DiskFailure, FilePool
from isthmus_broker.edge.storage.filesystem import FileSystem
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.log_dir import LogDir
from isthmus_broker.edge.storage.log_manager import LogManager
from isthmus_broker.edge.storage.log_mover import LogMover
from isthmus_broker.edge.storage.recovery import create_log
from isthmus_model.clocks import Clocks, MonotonicMs, WallMs

from tests.edge.storage.logs import NOW, NoFailures, append, config
from tests.sim.power.disk import SimDisk
from tests.sim.storage.loop import SimLoop

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
