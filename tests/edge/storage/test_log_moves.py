"""A move between log directories that a stop interrupts: the next start continues the copy, as far as it agrees with the log."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
from isthmus_broker.edge.storage.files import FilePool
from isthmus_broker.edge.storage.filesystem import SYSTEM
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.log_dir import LogDir, MetaProperties, write_meta
from isthmus_broker.edge.storage.log_manager import LogManager
from isthmus_broker.edge.storage.log_mover import SLICE, LogMover
from isthmus_client.clock import CLOCKS

from tests.edge.storage.logs import NoFailures, append, batch_at, config

KEY: Final = ("t", 0)
TOPIC: Final = UUID(int=9)
BATCHES: Final = 60
VALUE: Final = bytes(100_000)
UNLIMITED: Final = 2.0**63
SECONDS: Final = 60


class Node:
    """The logs of one life of a node, and their mover."""

    def __init__(self, directory: Path, bytes_per_second: float, **overrides: Any) -> None:
        self.directories = [LogDir(SYSTEM, directory / name) for name in ("one", "two")]
        for one in self.directories:
            one.remove_clean_marker()
        settings = config(**overrides)
        self.logs = LogManager(self.directories, FilePool(SYSTEM, 100), lambda _topic: settings, NoFailures(), CLOCKS)
        self.moved: list[Log] = []
        self.mover = LogMover(self.logs, lambda: bytes_per_second, lambda _key, log: self.moved.append(log))

    @classmethod
    async def started(cls, directory: Path, bytes_per_second: float = UNLIMITED) -> "Node":
        node = cls(directory, bytes_per_second)
        await node.logs.load(1)
        return node

    @property
    def copy(self) -> Log:
        return self.logs.copies[KEY].log

    def stop(self) -> None:
        self.mover.stop()
        self.logs.close(1)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while True:
                if condition():
                    return
                await asyncio.sleep(0.001)


def interrupted(directory: Path, *, clean: bool) -> int:
    """A node stops, or dies, after the first slice of a move; returns the end of the copy."""
    for number, name in enumerate(("one", "two")):
        (directory / name).mkdir()
        write_meta(SYSTEM, directory / name, MetaProperties("cluster", 1, UUID(int=number + 1)))

    async def life() -> int:
        node = await Node.started(directory, 1.0)
        log = node.logs.create(*KEY, TOPIC, node.directories[0].directory_id)
        for _ in range(BATCHES):
            append(log, [VALUE], epoch=3)
        log.high_watermark = log.end_offset
        log.flush_now()
        node.logs.checkpoint()
        other = next(each for each in node.directories if each is not node.logs.home[KEY])
        node.mover.move(KEY, other)
        await node.until(lambda: node.copy.end_offset > 0)
        end = node.copy.end_offset
        assert end * len(VALUE) < 2 * SLICE
        if clean:
            node.stop()
        return end

    return asyncio.run(life())


def restarted(directory: Path, act: Callable[[Node], None]) -> None:
    """The next life of the node."""

    async def life() -> None:
        node = await Node.started(directory)
        act(node)
        node.mover.resume()
        await node.until(lambda: not node.logs.copies)
        node.stop()

    asyncio.run(life())


@pytest.mark.parametrize("clean", [True, False])
def test_the_copy_is_continued_and_not_made_again(tmp_path: Path, clean: bool) -> None:
    """A start removed the copy: a move of a large log never ended on a node that was restarted often."""
    end = interrupted(tmp_path, clean=clean)

    def check(node: Node) -> None:
        assert node.copy.end_offset == end
        assert node.copy.topic_id == TOPIC
        home = node.logs.home[KEY]
        assert node.logs.copies[KEY].directory is not home

    restarted(tmp_path, check)

    async def last() -> None:
        node = await Node.started(tmp_path)
        assert not node.logs.copies
        assert node.logs.logs[KEY].end_offset == BATCHES
        assert len([path for name in ("one", "two") for path in (tmp_path / name).glob("t-0")]) == 1
        node.stop()

    asyncio.run(last())


def test_records_that_the_log_lost_are_removed_from_the_copy(tmp_path: Path) -> None:
    """The log was truncated while it was its leader's follower, and has other records there."""
    end = interrupted(tmp_path, clean=True)

    async def diverges() -> None:
        node = await Node.started(tmp_path)
        del node.logs.copies[KEY]  # a power failure took back the truncation of the copy
        log = node.logs.logs[KEY]
        log.truncate_to(end - 3, CLOCKS.monotonic())
        for _ in range(10):
            append(log, [b"other"], epoch=4)
        node.stop()

    asyncio.run(diverges())

    def check(node: Node) -> None:
        assert node.copy.end_offset == end - 3

    restarted(tmp_path, check)

    async def last() -> None:
        node = await Node.started(tmp_path)
        log = node.logs.logs[KEY]
        assert (log.end_offset, list(log.epochs.entries)) == (end + 7, [(3, 0), (4, end - 3)])
        node.stop()

    asyncio.run(last())


def test_a_copy_of_another_topic_of_the_same_name_is_removed(tmp_path: Path) -> None:
    interrupted(tmp_path, clean=True)

    async def created_again() -> None:
        node = await Node.started(tmp_path)
        del node.logs.copies[KEY]
        node.logs.delete(KEY)
        append(node.logs.create(*KEY, UUID(int=10)), [b"new"], epoch=9)
        node.stop()

    asyncio.run(created_again())

    async def last() -> None:
        node = await Node.started(tmp_path)
        assert not node.logs.copies
        assert node.logs.logs[KEY].end_offset == 1
        node.stop()

    asyncio.run(last())


def test_a_move_elsewhere_and_back_leaves_no_copy(tmp_path: Path) -> None:
    interrupted(tmp_path, clean=True)

    async def cancelled() -> None:
        node = await Node.started(tmp_path, 1.0)
        node.mover.resume()
        node.mover.move(KEY, node.logs.home[KEY])
        assert not node.logs.copies
        await node.until(lambda: not [p for name in ("one", "two") for p in (tmp_path / name).glob("*-future")])
        node.stop()

    asyncio.run(cancelled())


def test_a_copy_beside_its_log_does_not_replace_the_logs_offsets(tmp_path: Path) -> None:
    """Seed 221 of the storage world: the recovery point of the copy took the place of that of the log in the same directory's file."""
    interrupted(tmp_path, clean=False)
    (copy,) = (path for name in ("one", "two") for path in (tmp_path / name).glob("*-future"))
    (log,) = (path for name in ("one", "two") for path in (tmp_path / name).glob("t-0"))
    copy.rename(log.parent / copy.name)

    async def life() -> None:
        node = await Node.started(tmp_path)
        assert not node.logs.copies
        assert not list(log.parent.glob("*-future"))

    asyncio.run(life())
    assert f"t 0 {BATCHES}" in (log.parent / "recovery-point-offset-checkpoint").read_text()


def test_a_start_that_rose_after_the_last_slice_is_recorded_with_the_move(tmp_path: Path) -> None:
    """Seed 20051031 of the storage world: a kill right after a move brought back records that DeleteRecords had deleted."""
    interrupted(tmp_path, clean=True)

    async def moved() -> None:
        node = await Node.started(tmp_path)
        log = node.logs.logs[KEY]
        node.copy.append_as_given(
            log.read(node.copy.end_offset, log.size, BATCHES, at_least_one=True).records(), CLOCKS.monotonic()
        )
        log.raise_start(10)
        node.mover.resume()
        await node.until(lambda: bool(node.moved))

    asyncio.run(moved())

    async def last() -> None:
        node = await Node.started(tmp_path)
        log = node.logs.logs[KEY]
        assert (log.log_start_offset, log.high_watermark, log.end_offset) == (10, BATCHES, BATCHES)
        node.stop()

    asyncio.run(last())


def test_a_log_that_ends_in_a_gap_ends_there_after_the_move(tmp_path: Path) -> None:
    """Seed 83015497 of the storage world: it ended at its last record, and its start was raised above that."""

    async def life() -> None:
        node = Node(tmp_path, UNLIMITED, cleanup_policy=("compact",))
        log = node.logs.create(*KEY, TOPIC, node.directories[0].directory_id)
        append(log, [b"x"])
        log.append_as_follower(batch_at(5, [b"y"]), 0, CLOCKS.monotonic())
        log.truncate_to(4, CLOCKS.monotonic())
        node.mover.move(KEY, node.directories[1])
        await node.until(lambda: bool(node.moved))
        (moved,) = node.moved
        assert moved.end_offset == 4
        moved.raise_start(4)
        node.mover.move(KEY, node.directories[0])
        await node.until(lambda: len(node.moved) == 2)
        assert (node.moved[1].log_start_offset, node.moved[1].end_offset) == (4, 4)
        node.stop()

    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_meta(SYSTEM, tmp_path / name, MetaProperties("cluster", 1, uuid4()))
    asyncio.run(life())
