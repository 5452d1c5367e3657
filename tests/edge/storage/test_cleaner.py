"""Compaction on real files: keeps the newest record of every key and all offsets; a crash during the swap loses nothing."""

import asyncio
import random
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from isthmus_broker.core.log.compaction import (
    KEY_OVERHEAD,
    CleaningRound,
    CleaningRules,
    NewestOffsets,
    ProducersAt,
    Transactions,
)
from isthmus_broker.core.log.producer_state import Producer, ProducerState, RecentBatch
from isthmus_broker.edge.observe.metrics import cleaner_metrics
from isthmus_broker.edge.storage.cleaner import Cleaner, CleanerLimits
from isthmus_broker.edge.storage.files import FilePool
from isthmus_broker.edge.storage.filesystem import SYSTEM, FileSystem, SystemFiles
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.log_dir import LogDir
from isthmus_broker.edge.storage.log_manager import LogManager
from isthmus_client.clock import CLOCKS
from isthmus_model.clocks import Clocks, MonotonicMs, WallMs
from isthmus_wire.markers import Marker, ProducerId, build_marker
from isthmus_wire.records import (
    DELETE_HORIZON_BIT,
    TRANSACTIONAL_BIT,
    NewRecord,
    build_batch,
    checksum_matches,
    header_at,
    iterate_records,
)

from tests.edge.storage.logs import NOW, NoFailures, append_batch, config, reopened, room_for

Content = list[tuple[int, bytes | None, bytes | None]]


def content(log: Log) -> Content:
    records: Content = []
    for segment, placed in log.placed_batches(log.log_start_offset):
        data = segment.read(placed.position, placed.header.size)
        assert checksum_matches(data, placed.header)
        if not placed.header.is_control:
            records += [(record.offset, record.key, record.value) for record in iterate_records(data)]
    return records


def survivors(records: Content, end: int) -> Content:
    newest = {key: offset for offset, key, _ in records if offset < end}
    return [entry for entry in records if entry[0] >= end or newest[entry[1]] == entry[0]]


def compacted(
    directory: Path, files: FileSystem = SYSTEM, clocks: Clocks = CLOCKS, **overrides: Any
) -> tuple[LogManager, Log]:
    """An empty compacted log that is cleaned in every round."""
    fields = {"segment_bytes": 900, "index_interval_bytes": 200} | overrides
    settings = config(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0, **fields)
    manager = LogManager([LogDir(files, directory)], FilePool(files), lambda _topic: settings, NoFailures(), clocks)
    return manager, manager.create("t", 0, UUID(int=9))


def write(log: Log, *records: tuple[str, str | None], **fields: Any) -> None:
    """Append and commit one batch."""
    new = [NewRecord(key.encode(), None if value is None else value.encode(), NOW) for key, value in records]
    append_batch(log, bytearray(build_batch(new, **fields)), 0, MonotonicMs(NOW))
    log.high_watermark = log.end_offset


def end_transaction(log: Log, producer_id: int, *, committed: bool) -> None:
    """Append and commit a marker."""
    marker = Marker(ProducerId(producer_id, 0), committed, 0)
    append_batch(log, bytearray(build_marker(marker, WallMs(NOW))), 0, MonotonicMs(NOW))
    log.high_watermark = log.end_offset


def in_transaction(producer_id: int, sequence: int) -> dict[str, int]:
    return {
        "attributes": TRANSACTIONAL_BIT,
        "producer_id": producer_id,
        "producer_epoch": 0,
        "base_sequence": sequence,
    }


def filled(directory: Path, files: FileSystem = SYSTEM) -> tuple[LogManager, Log]:
    manager, log = compacted(directory, files)
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
    log.flush_now()
    log.high_watermark = log.end_offset
    return manager, log


async def one_round(manager: LogManager, keys_max: int = 1_000) -> None:
    await Cleaner(manager, room_for(keys_max)).run_round()


def test_the_newest_of_every_key_stays_at_its_offset(tmp_path: Path) -> None:
    async def run() -> None:
        manager, log = filled(tmp_path)
        before, end = content(log), log.active.base_offset
        size = log.size
        await one_round(manager)
        assert content(log) == survivors(before, end)
        assert log.size < size
        assert log.end_offset == before[-1][0] + 1
        for offset in range(log.end_offset):
            read = log.read(offset, 10_000, log.end_offset, at_least_one=True)
            assert read.first is not None
            assert read.first.header.last_offset >= offset
        again, recovered = reopened(log, clean=False, recovery_point=end)
        assert recovered.bytes_truncated == 0
        assert content(again) == survivors(before, end)
        manager.close(0)

    asyncio.run(run())


class Killed(Exception):
    pass


class KilledWithinRenames(SystemFiles):
    """Raises Killed after `left` renames, and for every change after that."""

    left: int | None = None

    def rename(self, source: Path, target: Path) -> None:
        if self.left == 0:
            raise Killed
        if self.left is not None:
            self.left -= 1
        super().rename(source, target)

    def remove_directory(self, path: Path) -> None:
        if self.left == 0:
            raise Killed
        super().remove_directory(path)


@pytest.mark.parametrize("steps", range(5))
def test_a_crash_during_the_swap_loses_nothing(tmp_path: Path, steps: int) -> None:
    async def run() -> None:
        files = KilledWithinRenames()
        manager, log = filled(tmp_path, files)
        before, end = content(log), log.active.base_offset
        files.left = steps
        with pytest.raises(Killed):
            await one_round(manager)
        files.left = None
        again, _ = reopened(log, clean=False, recovery_point=end)
        after = content(again)
        assert survivors(after, end) == survivors(before, end)
        assert not list(again.directory.glob("swap-*")) + list(again.directory.glob("cleaned"))

    asyncio.run(run())


def test_a_tombstone_is_removed_after_its_retention_and_an_empty_batch_keeps_a_producers_sequence() -> None:
    producer = Producer(7, 0)
    producer.batches.append(RecentBatch(3, 3, 0, 0, NOW))

    def cleaned(batch: bytes, now_ms: int, producer: Producer | None) -> bytes | None:
        rules, now_and_then = (
            CleaningRules(1000, WallMs(now_ms)),
            ProducersAt(10, {} if producer is None else {7: producer}),
        )
        cleaning = CleaningRound(NewestOffsets(100), Transactions(()), rules, 10, now_and_then)
        return cleaning.clean(batch, header_at(batch), producer)

    first = cleaned(
        build_batch([NewRecord(b"k", None, NOW)], producer_id=7, producer_epoch=0, base_sequence=3), NOW, producer
    )
    assert first is not None
    assert header_at(first).base_timestamp == NOW + 1000
    assert header_at(first).attributes & DELETE_HORIZON_BIT
    (record,) = iterate_records(first)
    assert (record.key, record.value, record.timestamp) == (b"k", None, NOW)
    assert cleaned(first, NOW + 999, None) == first
    emptied = cleaned(first, NOW + 1000, producer)
    assert emptied is not None
    header = header_at(emptied)
    assert (header.record_count, header.base_sequence, header.last_sequence, header.last_offset) == (0, 3, 3, 0)
    assert (header.attributes, header.base_timestamp, header.max_timestamp) == (0, -1, NOW)
    assert checksum_matches(emptied, header)
    assert cleaned(emptied, NOW + 1000, producer) == emptied
    assert cleaned(emptied, NOW + 1000, None) is None, "the producer has written another batch, or expired"
    assert cleaned(first, NOW + 1000, None) is None


def test_a_producers_last_batch_in_the_cleaned_part_is_kept_although_it_has_written_more(tmp_path: Path) -> None:
    """What it had written since was lost. Its earlier batch had been removed, and a copy of the log accepted a repetition of it."""

    async def run() -> None:
        manager, log = compacted(tmp_path)
        write(log, ("k", "old"), producer_id=7, producer_epoch=0, base_sequence=3)
        write(log, ("k", "new"))
        log.roll(MonotonicMs(NOW))
        write(log, ("other", "x"), producer_id=7, producer_epoch=0, base_sequence=4)
        await one_round(manager)
        assert content(log) == [(1, b"k", b"new"), (2, b"other", b"x")]
        log.truncate_to(2, MonotonicMs(NOW))
        copied = ProducerState()
        for _, placed in log.placed_batches(0):
            copied.appended(placed.header)
        assert copied.producers[7].last_sequence == 3

        write(log, ("other", "x"), producer_id=7, producer_epoch=0, base_sequence=4)
        log.roll(MonotonicMs(NOW))
        write(log, ("more", "x"))
        await one_round(manager)
        headers = [placed.header for _, placed in log.placed_batches(0)]
        assert [header.base_offset for header in headers] == [1, 2, 3], "the batch is not needed any more"

    asyncio.run(run())


def test_a_deleted_key_does_not_return_when_the_map_of_keys_fills_within_a_segment(tmp_path: Path) -> None:
    """The segment in which the map filled up was counted as clean, but not cleaned: its tombstone expired before the value was removed."""

    async def test() -> None:
        now = WallMs(NOW)
        clocks = Clocks(lambda: now, CLOCKS.monotonic)
        manager, log = compacted(tmp_path, clocks=clocks, delete_retention_ms=1_000)
        write(log, ("deleted", "value"))
        log.roll(MonotonicMs(NOW))
        for number in range(5):
            write(log, (f"k{number}", "v"))
        write(log, ("deleted", None))
        log.roll(MonotonicMs(NOW))
        cleaner = Cleaner(manager, room_for(3))
        ends = []
        for _ in range(8):
            await cleaner.run_round()
            now = WallMs(now + 1_000)
            ends.append(log.cleaned_to)
            assert (b"deleted", b"value") not in {(k, v) for _, k, v in content(log)} or b"deleted" in {
                k for _, k, v in content(log) if v is None
            }
        assert ends == [3, 6, 7, 7, 7, 7, 7, 7], "a round ends at the batch that did not fit"
        manager.close(0)

    asyncio.run(test())


def test_an_aborted_record_does_not_supersede_a_committed_one(tmp_path: Path) -> None:
    """The keys of aborted transactions were learnt, so that cleaning removed the last committed value."""

    async def test() -> None:
        now = WallMs(NOW)
        clocks = Clocks(lambda: now, CLOCKS.monotonic)
        manager, log = compacted(tmp_path, clocks=clocks, delete_retention_ms=1_000)
        write(log, ("k", "committed"))
        write(log, ("k", "aborted"), **in_transaction(7, 0))
        end_transaction(log, 7, committed=False)
        write(log, ("other", "v"), **in_transaction(7, 1))
        end_transaction(log, 7, committed=True)
        log.roll(MonotonicMs(NOW))
        write(log, ("last", "v"))
        await one_round(manager)
        assert content(log)[:2] == [(0, b"k", b"committed"), (3, b"other", b"v")]
        assert [row[1:3] for row in log.aborted_between(0, log.end_offset)] == [(1, 2)], (
            "the last batch was just removed"
        )
        for pause_ms, offsets in ((0, [0, 2, 3, 4, 5]), (999, [0, 2, 3, 4, 5]), (1, [0, 3, 4, 5])):
            now = WallMs(now + pause_ms)
            log.cleaned_to = 0
            await one_round(manager)
            assert log.aborted_between(0, log.end_offset) == []
            assert [placed.header.base_offset for _, placed in log.placed_batches(0)] == offsets
        manager.close(0)

    asyncio.run(test())


@pytest.mark.parametrize("damage", ["a record", "a header"])
def test_a_log_with_damage_is_uncleanable_and_loses_nothing(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A batch with a wrong checksum was rewritten with a right one; a header that was none ended the copy of its segment."""

    async def test() -> None:
        manager, log = filled(tmp_path)
        segment = log.segments[1]
        third = list(segment.headers())[2]
        at = third.position + (third.header.size - 1 if damage == "a record" else 16)
        with segment.path.open("r+b") as file:
            file.seek(at)
            file.write(b"\x7f")
        before = [segment.path.read_bytes() for segment in log.segments]
        cleaner = Cleaner(manager)
        for _ in range(2):
            await cleaner.run_round()
        assert [segment.path.read_bytes() for segment in log.segments] == before
        assert log.cleaned_to == 0
        assert [record.getMessage().split(":")[0] for record in caplog.records] == [
            "t-0 is uncleanable, and will not be compacted until this node restarts"
        ]
        assert not (log.directory / "cleaned").exists()
        uncleanable = cleaner.uncleanable()
        assert uncleanable == {tmp_path: (1, log.size - log.active.size)}
        assert [
            (sample.name, sample.labels, sample.value)
            for family in cleaner_metrics(uncleanable)
            for sample in family.samples
        ] == [
            (f"kafka_log_logcleanermanager_uncleanable_{name}", {"logDirectory": str(tmp_path)}, value)
            for name, value in (("partitions_count", 1), ("bytes", log.size - log.active.size))
        ]
        manager.close(0)

    asyncio.run(test())


def test_a_round_after_one_that_ended_early_writes_to_the_disk(tmp_path: Path) -> None:
    """The descriptors of an unfinished segment stayed open: the next round wrote to the removed files, and lost every record."""

    async def test() -> None:
        manager, log = filled(tmp_path)
        before, end = content(log), log.active.base_offset
        cleaner = Cleaner(manager)
        cleaner.start_round()
        while not (log.directory / "cleaned").exists():  # noqa: ASYNC110 - the round is a task of this loop
            await asyncio.sleep(0)
        log.truncate_to(log.end_offset - 1, MonotonicMs(NOW))
        before = [record for record in before if record[0] < log.end_offset]
        assert cleaner._task is not None
        await cleaner._task
        assert content(log) == before
        await cleaner.run_round()
        assert content(log) == survivors(before, end)
        manager.close(0)

    asyncio.run(test())


def test_a_throttled_cleaner_waits_for_what_it_reads_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    sleep = asyncio.sleep

    async def recorded(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    async def run() -> None:
        manager, log = compacted(tmp_path)
        for number in range(60):
            write(log, (f"key-{number % 7}", "x" * 500))
        log.high_watermark = log.end_offset
        monkeypatch.setattr(asyncio, "sleep", recorded)
        before = log.size - log.active.size
        await Cleaner(manager, lambda: CleanerLimits(bytes_per_second=1_000)).run_round()
        monkeypatch.setattr(asyncio, "sleep", sleep)
        assert log.cleaned_to > 0
        assert sum(waits) * 1_000 >= 1.9 * before, "every closed segment is read twice"
        manager.close(0)

    asyncio.run(run())


def test_large_keys_fill_the_map_sooner() -> None:
    for size, expected in ((2, 8), (KEY_OVERHEAD, 4)):
        newest, count = NewestOffsets(8 * KEY_OVERHEAD), 0
        while not newest.is_full():
            batch = build_batch([NewRecord(bytes([count]) * size, b"v", NOW)])
            newest.learn(batch, header_at(batch), 0)
            count += 1
        assert count == expected


def test_a_truncated_log_is_not_clean_where_it_is_written_again(tmp_path: Path) -> None:
    """The offset up to which it had been clean was still on record. After a kill, new records counted as clean: a deleted key returned."""

    async def test() -> None:
        manager, log = filled(tmp_path)
        await one_round(manager)
        await manager.record_offsets(log)
        assert log.cleaned_to > 5
        log.truncate_to(5, MonotonicMs(NOW))
        write(log, *((f"k{number}", "new") for number in range(20)))
        again = LogManager(
            [LogDir(SYSTEM, tmp_path)], FilePool(SYSTEM), lambda _topic: log.config, NoFailures(), CLOCKS
        )
        await again.load(1)
        assert again.logs["t", 0].end_offset == 25
        assert again.logs["t", 0].cleaned_to == log.cleaned_to <= 5

    asyncio.run(test())


def test_how_far_a_log_is_clean_survives_a_restart_and_not_a_new_topic(tmp_path: Path) -> None:
    async def test() -> None:
        manager, log = filled(tmp_path)
        await one_round(manager)
        cleaned_to = log.cleaned_to
        assert cleaned_to == log.active.base_offset
        manager.close(0)
        settings = log.config
        again = LogManager([LogDir(SYSTEM, tmp_path)], FilePool(SYSTEM), lambda _topic: settings, NoFailures(), CLOCKS)
        await again.load(1)
        cleaner = Cleaner(again)
        assert again.logs["t", 0].cleaned_to == cleaned_to
        again.delete(("t", 0))
        again.create("t", 0, UUID(int=10))
        await cleaner.run_round()
        again.close(0)
        assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n0\n"

    asyncio.run(test())


def test_what_follows_a_truncation_is_not_clean(tmp_path: Path) -> None:
    """A tombstone below the offset up to which the log had been clean was never learnt: it expired, and the key returned."""

    async def test() -> None:
        manager, log = compacted(tmp_path, delete_retention_ms=0)
        write(log, ("deleted", "value"))
        log.roll(MonotonicMs(NOW))
        for number in range(3):
            write(log, (f"k{number}", "v"))
        log.roll(MonotonicMs(NOW))
        cleaner = Cleaner(manager)
        await cleaner.run_round()
        assert log.cleaned_to == 4
        log.truncate_to(1, MonotonicMs(NOW))
        write(log, ("deleted", None))
        for number in range(3):
            write(log, (f"n{number}", "v"))
            log.roll(MonotonicMs(NOW))
            await cleaner.run_round()
        assert b"deleted" not in {key for _, key, value in content(log) if value is not None}
        manager.close(0)

    asyncio.run(test())
