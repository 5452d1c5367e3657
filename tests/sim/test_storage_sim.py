"""The default sweep of logs on a disk that fails and loses power, and a crash at every step of a move between directories."""

import logging
from collections.abc import Iterator
from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from isthmus_broker.edge.storage.files import FilePool
from isthmus_broker.edge.storage.log_dir import LogDir, MetaProperties, write_meta
from isthmus_broker.edge.storage.log_manager import LogManager
from isthmus_broker.edge.storage.log_mover import LogMover
from isthmus_model.clocks import Clocks, MonotonicMs, WallMs

from tests.edge.storage.logs import NOW, NoFailures, append, config
from tests.sim.power.disk import SimDisk
from tests.sim.power.errors import ProcessDied
from tests.sim.power.files import SimFiles
from tests.sim.storage.life import content_of
from tests.sim.storage.loop import SimLoop
from tests.sim.sweep import KINDS, sweep

SEEDS = 1_000
CHUNK = 50
"""Several chunks, so that parallel workers share the sweep."""
STORAGE = KINDS["storage"][None]
KEY = ("t", 0)
HERE, THERE = Path("/d0"), Path("/d1")
CLOCKS = Clocks(lambda: WallMs(NOW), lambda: MonotonicMs(0))


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_no_life_breaks_an_invariant(first: int) -> None:
    assert sweep(range(first, first + CHUNK), STORAGE) is None


def opened(files: SimFiles, loop: SimLoop) -> LogManager:
    manager = LogManager(
        [LogDir(files, path) for path in (HERE, THERE)], FilePool(files), lambda _topic: config(), NoFailures(), CLOCKS
    )
    with loop.running():
        load = loop.create_task(manager.load(1))
    loop.settle()
    load.result()
    return manager


def moved(seed: int, dies_at: int, *, power: bool) -> bool:
    """Whether a move ends before that operation. If not, the process dies there, and the next one must find the log, once and whole."""
    disk, loop = SimDisk(Random(seed)), SimLoop()  # type: ignore[abstract]
    files = disk.start()
    for number, path in enumerate((HERE, THERE)):
        write_meta(files, path, MetaProperties("cluster", 1, UUID(int=number + 1)))
    files.sync_path(Path("/"))
    manager = opened(files, loop)
    with loop.running():
        log = manager.create(*KEY, UUID(int=9))
        for _ in range(3):
            append(log, [b"x", b"y", b"z"])
        log.high_watermark = log.end_offset
        log.flush_now()
        log.raise_start(4)
        manager.checkpoint()
    loop.settle()
    before = content_of(log)
    disk.act_at(dies_at, disk.cut_power if power else disk.kill)
    mover = LogMover(manager, lambda: 2.0**63, lambda _key, _log: None)
    try:
        with loop.running():
            mover.move(
                KEY, manager.directories[1] if manager.home[KEY] is manager.directories[0] else manager.directories[0]
            )
        loop.settle()
    except ProcessDied:
        pass
    has_ended = not files.is_dead
    loop.abandon()
    disk.cut_power() if power else disk.kill()
    again = opened(disk.start(), SimLoop())  # type: ignore[abstract]
    assert content_of(again.logs[KEY]) == before
    return has_ended


@pytest.mark.parametrize("power", [False, True])
def test_a_crash_during_a_move_between_directories_loses_nothing(power: bool) -> None:
    """The log was retired before its copy had its name, and a start removed both; a log that starts inside a batch was never moved."""
    for seed in range(5 if power else 1):
        dies_at = 1
        while not moved(seed, dies_at, power=power):
            dies_at += 1
        assert dies_at > 20
