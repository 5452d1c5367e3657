"""The default sweep of logs on a disk that fails and loses power, and a crash at every step of a move between directories."""

import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from isthmus_broker.core.raft.types import QuorumState, ReplicaKey
from isthmus_broker.edge.quorum.metadata_log import DIRECTORY, MetadataLogStore
from isthmus_broker.edge.quorum.quorum_state import write_quorum_state
from isthmus_broker.edge.quorum.raft_storage import RaftStorage
from isthmus_broker.edge.storage.checkpoints import LOG_STARTS, newest_producers
from isthmus_broker.edge.storage.files import FilePool
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.log_dir import LogDir, MetaProperties, write_meta
from isthmus_broker.edge.storage.log_manager import LogManager
from isthmus_broker.edge.storage.log_mover import LogMover
from isthmus_broker.edge.storage.recovery import create_log, open_log
from isthmus_model.clocks import Clocks, MonotonicMs, WallMs

from tests.edge.storage.logs import NOW, NoFailures, append, batch_at, config
from tests.sim.power.disk import SimDisk
from tests.sim.power.errors import ProcessDied
from tests.sim.power.files import SimFiles
from tests.sim.storage.canaries import CANARIES
from tests.sim.storage.loop import SimLoop
from tests.sim.storage.metadata import CONFIG, HOME
from tests.sim.storage.reading import content_of
from tests.sim.sweep import KINDS, sweep

SEEDS = 1_000
CHUNK = 50
"""Several chunks, so that parallel workers share the sweep."""
CANARY_SEEDS = 300
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


@pytest.mark.parametrize("canary", CANARIES)
def test_a_planted_defect_causes_its_violation(canary: str) -> None:
    assert sweep(range(CANARY_SEEDS), KINDS["storage"][canary]) is not None


def test_a_directory_that_fails_a_resumed_move_goes_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node did not start."""
    disk, loop, lost = SimDisk(Random(0)), SimLoop(), []  # type: ignore[abstract]
    files = disk.start()
    for path in (HERE, THERE):
        files.make_directory(path, exist_ok=True)
    manager = opened(files, loop)
    monkeypatch.setattr(NoFailures, "directory_failed", lambda _self, keys: lost.append(keys))
    with loop.running():
        append(manager.create(*KEY, UUID(int=9), manager.directories[0].directory_id), [b"x"])
        manager.create_copy(KEY, manager.directories[1])
        disk.fail("write", under=THERE, times=None)
        LogMover(manager, lambda: 2.0**63, lambda _key, _log: None).resume()
    loop.settle()
    assert [directory.online for directory in manager.directories] == [True, False]
    assert (list(manager.logs), lost, manager.copies) == ([KEY], [[]], {})


@pytest.mark.parametrize("dies_at", range(1, 8))
def test_a_vote_that_a_start_has_read_is_durable(dies_at: int) -> None:
    """The last process was killed before its vote was durable. A power loss after the start took it back, and the node voted again."""
    for seed in range(10):
        disk = SimDisk(Random(seed))
        files = disk.start()
        files.make_directory(HOME, exist_ok=True)
        files.sync_path(Path("/"))
        MetadataLogStore(FilePool(files), HOME, CONFIG, CLOCKS)
        disk.act_at(dies_at, disk.kill)
        with suppress(ProcessDied):
            write_quorum_state(files, HOME / DIRECTORY, QuorumState(5, None, ReplicaKey(2, UUID(int=2))), None)
        states = []
        for _ in range(2):
            files = disk.start()
            log = MetadataLogStore(FilePool(files), HOME, CONFIG, CLOCKS)
            states.append(RaftStorage(files, HOME / DIRECTORY, log).recover().quorum)
            disk.cut_power()
        assert states[0] == states[1]


def test_a_log_that_restarted_has_its_topic_id_after_a_power_loss() -> None:
    """Its recovery point was recorded before the id was durable. Without an id, its records could return in the next topic of its name."""
    for seed in range(50):
        disk, loop = SimDisk(Random(seed)), SimLoop()  # type: ignore[abstract]
        files = disk.start()
        for path in (HERE, THERE):
            files.make_directory(path, exist_ok=True)
        files.sync_path(Path("/"))
        manager = opened(files, loop)
        with loop.running():
            log = manager.create(KEY[0], KEY[1], UUID(int=9), manager.directories[0].directory_id)
            log.restart_at(4, MonotonicMs(0))
        disk.cut_power()
        again = opened(disk.start(), SimLoop()).logs[KEY]  # type: ignore[abstract]
        assert (again.topic_id, again.end_offset) == (UUID(int=9), 4)


def test_the_epochs_of_a_log_before_it_restarted_do_not_return() -> None:
    """Their checkpoint was replaced after the directory was synced. A power loss took that back: an old epoch began at the new start."""
    path, now = Path("/t-0"), MonotonicMs(NOW)
    for seed in range(50):
        disk = SimDisk(Random(seed))
        files = disk.start()
        log = create_log(FilePool(files), path, *KEY, config(cleanup_policy=("compact",)), UUID(int=9), now_ms=now)
        append(log, [b"x"], epoch=3)
        log.flush_now()
        files.sync_path(Path("/"))
        log.restart_at(5, now)
        log.append_as_follower(batch_at(8, [b"y"], epoch=4), 4, now)  # compaction has removed the records between
        files.sync_path(log.active.path)  # the system writes pages back when it likes
        disk.cut_power()
        again, _ = open_log(
            FilePool(disk.start()),
            path,
            *KEY,
            log.config,
            now_ms=now,
            clean=False,
            recovery_point=5,
            log_start_offset=5,
        )
        assert list(again.epochs.entries) in ([], [(4, 8)]), f"seed {seed}"


class SyncsLater:
    """An owner whose worker thread has not run yet."""

    def segment_closed(self, log: Log) -> None:
        pass

    def offsets_lowered(self, log: Log) -> None:
        pass


def test_a_durable_snapshot_of_producers_survives_the_next_roll() -> None:
    """The roll replaced it by a new one, which was not durable. The cleaner may have removed the batches that it was made from."""
    path, now = Path("/t-0"), MonotonicMs(NOW)
    for seed in range(50):
        disk = SimDisk(Random(seed))
        files = disk.start()
        log = create_log(FilePool(files), path, *KEY, config(segment_bytes=100), UUID(int=9), now_ms=now)
        append(log, [b"x"], producer_id=1, producer_epoch=0, base_sequence=0)
        log.close(now)
        files.sync_path(Path("/"))
        log, _ = open_log(
            FilePool(files), path, *KEY, log.config, now_ms=now, clean=True, recovery_point=1, owner=SyncsLater()
        )
        append(log, [b"y"], producer_id=1, producer_epoch=0, base_sequence=1)
        disk.cut_power()
        found = newest_producers(disk.start(), path, 0, 1)
        assert found is not None, f"seed {seed}"
        assert found[0] == 1


def test_a_damaged_snapshot_of_producers_is_written_again() -> None:
    """It was passed over at each start, until the cleaner removed the batches that a start read instead."""
    files, path, now = SimDisk(Random(0)).start(), Path("/t-0"), MonotonicMs(NOW)
    log = create_log(FilePool(files), path, *KEY, config(segment_bytes=100), UUID(int=9), now_ms=now)
    for sequence in range(3):
        append(log, [b"x"], producer_id=1, producer_epoch=0, base_sequence=sequence)
    log.flush_now()
    files.write_file(path / f"{2:020}.snapshot", b"", sync=False)
    open_log(FilePool(files), path, *KEY, log.config, now_ms=now, clean=False, recovery_point=3)
    found = newest_producers(files, path, 0, 2)
    assert found is not None
    assert (found[0], [producer.last_sequence for producer in found[1]]) == (2, [1])


def test_a_truncated_batch_does_not_return_before_new_ones() -> None:
    """The truncation was not durable, and a batch after it in the next segment was. Recovery cannot detect that."""
    path, now = Path("/t-0"), MonotonicMs(NOW)
    for seed in range(200):
        disk = SimDisk(Random(seed))
        files = disk.start()
        log = create_log(
            FilePool(files), path, *KEY, config(segment_bytes=500), UUID(int=9), now_ms=now, owner=SyncsLater()
        )
        for _ in range(5):
            append(log, [b"x" * 30], epoch=1)
        files.sync_path(log.active.path)  # the system writes pages back when it likes
        log.truncate_to(4, now)
        for _ in range(4):
            append(log, [b"y" * 30], epoch=2)
        files.sync_path(path)
        files.sync_path(Path("/"))
        disk.cut_power()
        again, _ = open_log(FilePool(disk.start()), path, *KEY, log.config, now_ms=now, clean=False, recovery_point=0)
        epochs = [batch.header.leader_epoch for batch in content_of(again).batches]
        assert 2 not in epochs[5:] or epochs[4] == 2, f"seed {seed}: {epochs}"


def opened(files: SimFiles, loop: SimLoop) -> LogManager:
    manager = LogManager(
        [LogDir(files, path) for path in (HERE, THERE)], FilePool(files), lambda _topic: config(), NoFailures(), CLOCKS
    )
    with loop.running():
        load = loop.create_task(manager.load(1))
    loop.settle()
    load.result()
    return manager


def test_an_older_copy_of_a_log_does_not_return_when_the_other_directory_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that found both removed it, but not durably: a checkpoint made it so, which failed here. After a power loss it was back."""
    monkeypatch.setattr(NoFailures, "directory_failed", lambda _self, _lost: None)
    for seed in range(50):
        disk, now = SimDisk(Random(seed)), MonotonicMs(NOW)
        files = disk.start()
        for path, records in ((HERE, 2), (THERE, 1)):
            log = create_log(FilePool(files), path / "t-0", *KEY, config(), UUID(int=9), now_ms=now)
            append(log, [b"x"] * records)
            log.flush_now()
            files.sync_path(path)
        files.sync_path(Path("/"))
        disk.fail("write", under=THERE / f"{LOG_STARTS}.tmp", times=None)
        manager = opened(files, SimLoop())  # type: ignore[abstract]
        assert manager.home[KEY].path == HERE
        append(manager.logs[KEY], [b"written since"])
        manager.logs[KEY].flush_now()
        disk.cut_power()
        assert not disk.start().exists(THERE / "t-0"), f"seed {seed}"


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
    loop = SimLoop()  # type: ignore[abstract]
    again = opened(disk.start(), loop)
    assert content_of(again.logs[KEY]) == before
    with loop.running():
        LogMover(again, lambda: 2.0**63, lambda _key, _log: None).resume()
    loop.settle()
    assert not again.copies
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
