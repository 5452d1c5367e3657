"""Compaction on real files: keeps the newest record of every key and all offsets; a crash during the swap loses nothing."""

import asyncio
import random
from pathlib import Path
from uuid import UUID

import pytest
from isthmus_broker.core.log.compaction import CleaningRules, NewestOffsets, clean_batch
from isthmus_broker.edge.storage.cleaner import Cleaner
from isthmus_broker.edge.storage.files import FilePool
from isthmus_broker.edge.storage.filesystem import SYSTEM, FileSystem, SystemFiles
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.log_dir import LogDir
from isthmus_broker.edge.storage.log_manager import LogManager
from isthmus_client.clock import CLOCKS
from isthmus_model.clocks import MonotonicMs, WallMs
from isthmus_wire.records import NewRecord, build_batch, checksum_matches, header_at, iterate_records, records_to_keep

from tests.edge.storage.logs import NOW, NoFailures, append_batch, config, reopened


def content(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    found = []
    for segment, placed in log.placed_batches(log.log_start_offset):
        data = segment.read(placed.position, placed.header.size)
        assert checksum_matches(data, placed.header)
        found += [(record.offset, record.key, record.value) for record in iterate_records(data)]
    return found


def survivors(
    records: list[tuple[int, bytes | None, bytes | None]], end: int
) -> list[tuple[int, bytes | None, bytes | None]]:
    newest = {key: offset for offset, key, _ in records if offset < end}
    return [entry for entry in records if entry[0] >= end or newest[entry[1]] == entry[0]]


def filled(directory: Path, files: FileSystem = SYSTEM) -> tuple[LogManager, Log]:
    settings = config(
        cleanup_policy=("compact",), segment_bytes=900, min_cleanable_dirty_ratio=0.0, index_interval_bytes=200
    )
    home = LogDir(files, directory)
    manager = LogManager([home], FilePool(files), lambda _topic: settings, NoFailures(), CLOCKS)
    log = manager.create("t", 0, UUID(int=9))
    rng = random.Random(5)
    for number in range(120):
        compression = rng.randrange(5)
        records = [
            NewRecord(
                b"k%d" % rng.randrange(12), None if rng.random() < 0.1 else b"v%d-%d" % (number, part), NOW + number
            )
            for part in range(rng.randrange(1, 4))
        ]
        batch = bytearray(build_batch(records, compression=compression))
        append_batch(log, batch, number // 40, MonotonicMs(NOW))
    log.high_watermark = log.end_offset
    return manager, log


async def one_round(manager: LogManager) -> None:
    await Cleaner(manager)._round()


def test_the_newest_of_every_key_stays_at_its_offset(tmp_path: Path) -> None:
    async def run() -> None:
        manager, log = filled(tmp_path)
        before, end = content(log), log.active.base_offset
        size = log.size
        await one_round(manager)
        assert content(log) == survivors(before, end)
        assert log.size < size
        assert log.end_offset == before[-1][0] + 1
        for wanted in range(log.end_offset):
            found = log.read(wanted, 10_000, log.end_offset, at_least_one=True)
            assert found.first is not None
            assert found.first.header.last_offset >= wanted
        again, recovered = reopened(log, clean=False, recovery_point=end)
        assert recovered.bytes_truncated == 0
        assert content(again) == survivors(before, end)
        manager.close(0)

    asyncio.run(run())


class Killed(Exception):
    pass


class KilledWithinRenames(SystemFiles):
    """Raises Killed after `left` renames."""

    left: int | None = None

    def rename(self, source: Path, target: Path) -> None:
        if self.left == 0:
            raise Killed
        if self.left is not None:
            self.left -= 1
        super().rename(source, target)


@pytest.mark.parametrize("steps", range(5))
def test_a_crash_during_the_swap_loses_nothing(tmp_path: Path, steps: int) -> None:
    async def run() -> None:
        files = KilledWithinRenames()
        manager, log = filled(tmp_path, files)
        before, end = content(log), log.active.base_offset
        files.left = steps
        with pytest.raises(Killed):
            await one_round(manager)
        again, _ = reopened(log, clean=False, recovery_point=end)
        after = content(again)
        assert survivors(after, end) == survivors(before, end)
        assert not list(again.directory.glob("swap-*")) + list(again.directory.glob("cleaned"))

    asyncio.run(run())


def test_a_tombstone_is_removed_after_its_retention_and_an_empty_batch_keeps_a_producers_sequence() -> None:
    newest = NewestOffsets(100)
    data = build_batch([NewRecord(b"k", None, NOW)], producer_id=7, producer_epoch=0, base_sequence=3)
    header = header_at(data)
    first = clean_batch(
        header, records_to_keep(data), newest, CleaningRules(1000, WallMs(NOW)), data, last_of_producer=True
    )
    assert first.batch is not None
    again = header_at(first.batch)
    assert again.base_timestamp == NOW + 1000
    (record,) = iterate_records(first.batch)
    assert (record.key, record.value, record.timestamp) == (b"k", None, NOW)
    later = CleaningRules(1000, WallMs(NOW + 1001))
    emptied = clean_batch(again, records_to_keep(first.batch), newest, later, first.batch, last_of_producer=True)
    assert emptied.batch is not None
    kept = header_at(emptied.batch)
    assert (kept.record_count, kept.base_sequence, kept.last_sequence, kept.last_offset) == (0, 3, 3, 0)
    assert checksum_matches(emptied.batch, kept)
    gone = clean_batch(again, records_to_keep(first.batch), newest, later, first.batch, last_of_producer=False)
    assert gone.batch is None
