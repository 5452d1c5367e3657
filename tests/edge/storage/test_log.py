"""Appends, reads, rolling, truncation and retention on real files."""

import asyncio
from pathlib import Path

from isthmus_broker.core.log.producer_state import RecentBatch, Refusal
from isthmus_broker.core.log.time_lookup import TimestampOffset
from isthmus_broker.edge.replication.batch_opener import BatchOpener
from isthmus_broker.edge.requests.api_02_list_offsets import MAX_TIMESTAMP, find_record
from isthmus_broker.edge.storage.log import Log
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.compression import Compression
from isthmus_wire.records import NewRecord, batches, build_batch, build_control_batch, header_at, iterate_records

from tests.clocks import at
from tests.edge.storage.logs import NOW, append, append_batch, new_log, reopened


def values_from(data: bytes) -> list[bytes | None]:
    return [record.value for position, _ in batches(data) for record in iterate_records(data, position)]


def test_a_read_begins_with_the_batch_that_contains_the_offset(tmp_path: Path) -> None:
    log = new_log(tmp_path, index_interval_bytes=100)
    for number in range(50):
        append(log, [b"%d" % number, b"x" * 30])
    found = log.read(41, 10_000, log.end_offset, at_least_one=True)
    assert found.first is not None
    assert found.first.header.base_offset == 40
    assert values_from(found.records())[0] == b"20"
    assert values_from(log.read(99, 10_000, 100, at_least_one=True).records()) == [b"49", b"x" * 30]


def test_a_read_ends_before_its_bound_but_returns_one_whole_batch(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for _ in range(3):
        append(log, [b"x" * 500])
    assert values_from(log.read(0, 10_000, 2, at_least_one=True).records()) == [b"x" * 500] * 2
    assert log.read(0, 10, 3, at_least_one=False).size == 0
    assert values_from(log.read(0, 10, 3, at_least_one=True).records()) == [b"x" * 500]
    assert log.read(3, 10_000, 3, at_least_one=True).size == 0


def test_segments_roll_by_size_by_time_and_by_index_size(tmp_path: Path) -> None:
    by_size = new_log(tmp_path / "size", segment_bytes=400)
    by_time = new_log(tmp_path / "time", segment_ms=1000)
    by_index = new_log(tmp_path / "index", segment_index_bytes=24, index_interval_bytes=1)
    for number in range(6):
        append(by_size, [b"x" * 100])
        append(by_time, [b"x"], timestamp=NOW + number * 600)
        append(by_index, [b"x"], timestamp=NOW + number)
    assert [segment.base_offset for segment in by_size.segments] == [0, 2, 4]
    assert [segment.base_offset for segment in by_time.segments] == [0, 2, 4]
    assert [segment.base_offset for segment in by_index.segments] == [0, 2, 4]


def at_time(log: Log, timestamp: int) -> TimestampOffset | None:
    async def run() -> TimestampOffset | None:
        return await find_record(BatchOpener(), log, timestamp)

    return asyncio.run(run())


def test_records_that_cannot_be_read_do_not_fail_a_lookup_by_time(tmp_path: Path) -> None:
    """A batch that is no gzip counts as one record, its first; so does one that decompresses to gigabytes."""
    log = new_log(tmp_path, max_message_bytes=100_000)
    append(log, [b"a"], timestamp=NOW)
    broken = build_batch([NewRecord(b"k", b"v", NOW + 10), NewRecord(b"k", b"v", NOW + 20)])
    header = bytearray(broken)
    header[22] |= Compression.GZIP
    bomb = build_batch([NewRecord(b"k", bytes(20_000_000), NOW + 30)], compression=Compression.GZIP)
    for batch in (header, bytearray(bomb)):
        append_batch(log, batch, 0, MonotonicMs(NOW))
    append(log, [b"b"], timestamp=NOW + 40)
    expected = {NOW: (NOW, 0), NOW + 1: (NOW + 20, 1), NOW + 21: (NOW + 30, 3), NOW + 31: (NOW + 40, 4)}
    for timestamp, (found_time, offset) in expected.items():
        found = at_time(log, timestamp)
        assert found is not None
        assert found[:2] == (found_time, offset)
    assert at_time(log, NOW + 41) is None


def test_a_timestamp_query_searches_all_segments(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=400, index_interval_bytes=1)
    for number in range(12):
        append(log, [b"x" * 40], timestamp=NOW + number * 10)
    assert len(log.segments) > 1
    for wanted, offset in ((NOW, 0), (NOW + 1, 1), (NOW + 65, 7), (NOW + 110, 11)):
        found = at_time(log, wanted)
        assert found is not None
        assert found.offset == offset
    assert at_time(log, NOW + 111) is None
    latest = at_time(log, MAX_TIMESTAMP)
    assert latest is not None
    assert latest.offset == 11


def test_truncation_removes_offsets_epochs_and_producers(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=300, index_interval_bytes=1)
    for number in range(10):
        append(log, [b"x" * 60], epoch=number // 4, producer_id=7, producer_epoch=0, base_sequence=number)
    log.truncate_to(5, MonotonicMs(NOW))
    assert log.end_offset == 5
    assert list(log.epochs.entries) == [(0, 0), (1, 4)]
    assert log.producers.producers[7].last_sequence == 4
    append(log, [b"new"], epoch=3)
    assert values_from(log.read(4, 10_000, 6, at_least_one=True).records()) == [b"x" * 60, b"new"]
    log.truncate_to(0, MonotonicMs(NOW))
    assert (log.end_offset, log.log_start_offset, len(log.segments)) == (0, 0, 1)


def test_retention_by_size_by_age_and_by_deleted_records(tmp_path: Path) -> None:
    by_size = new_log(tmp_path / "size", segment_bytes=250, retention_bytes=300)
    by_age = new_log(tmp_path / "age", segment_bytes=250, retention_ms=1000)
    deleted = new_log(tmp_path / "deleted", segment_bytes=250)
    for log in (by_size, by_age, deleted):
        for number in range(6):
            append(log, [b"x" * 50], timestamp=NOW + number * 1000)
        log.high_watermark = log.end_offset
    deleted.raise_start(3)
    for log, start in ((by_size, 2), (by_age, 4), (deleted, 3)):
        assert log.raise_start_by_retention(at(NOW + 5500))
        assert log.log_start_offset == start, log.directory
        marked = log.delete_below(log.log_start_offset, MonotonicMs(0))
        assert marked
        assert all(path.name.endswith(".deleted") for path in marked)
    assert by_age.raise_start_by_retention(at(NOW + 60_000))
    assert by_age.delete_below(by_age.log_start_offset, MonotonicMs(0))
    assert (by_age.log_start_offset, by_age.end_offset, by_age.size) == (6, 6, 0)
    assert by_age.raise_start_by_retention(at(NOW + 120_000)) == "", "an empty log has no file yet"
    assert by_age.delete_below(by_age.log_start_offset, MonotonicMs(0)) == []


def test_nothing_above_the_high_watermark_is_deleted(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=250, retention_ms=0)
    for _ in range(6):
        append(log, [b"x" * 50])
    log.high_watermark = 2
    log.raise_start_by_retention(at(NOW + 10_000))
    assert log.log_start_offset == 2


def test_a_repeated_batch_is_detected_and_a_gap_is_refused(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for number in range(7):
        append(log, [b"x", b"y"], producer_id=9, producer_epoch=1, base_sequence=number * 2)

    def verdict(sequence: int, epoch: int = 1) -> RecentBatch | Refusal | None:
        fields = {"producer_id": 9, "producer_epoch": epoch, "base_sequence": sequence}
        return log.producers.check(header_at(build_batch([NewRecord(None, b"x")] * 2, **fields)))

    repeated = verdict(12)
    assert isinstance(repeated, RecentBatch)
    assert repeated.base_offset == 12
    assert isinstance(verdict(4), RecentBatch)
    for sequence, epoch, error in (
        (2, 1, "out_of_order"),
        (16, 1, "out_of_order"),
        (14, 0, "invalid_producer"),
        (3, 2, "out_of_order"),
    ):
        refused = verdict(sequence, epoch)
        assert isinstance(refused, Refusal)
        assert refused.error.name.startswith(error)
    assert verdict(14) is None
    assert verdict(0, 2) is None


def test_sequences_wrap_after_the_largest_integer(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, [b"x", b"y"], producer_id=9, producer_epoch=1, base_sequence=2**31 - 2)
    following = build_batch([NewRecord(None, b"x")], producer_id=9, producer_epoch=1, base_sequence=0)
    assert log.producers.check(header_at(following)) is None


def test_open_transactions_bound_the_last_stable_offset_and_aborts_are_indexed(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, [b"plain"])
    append(log, [b"a", b"b"], producer_id=5, producer_epoch=0, base_sequence=0, attributes=0x10)
    append(log, [b"plain"])
    log.high_watermark = log.end_offset
    assert log.last_stable_offset == 1
    marker = bytearray(build_control_batch(0, bytes(6), timestamp=NOW, producer_id=5, producer_epoch=0))
    append_batch(log, marker, 0, MonotonicMs(NOW))
    log.high_watermark = log.end_offset
    assert log.last_stable_offset == 5
    assert [tuple(row) for row in log.aborted_between(0, 5)] == [(5, 1, 4, 5)]
    again, _ = reopened(log, clean=False)
    assert [tuple(row) for row in again.aborted_between(2, 5)] == [(5, 1, 4, 5)]
    assert again.producers.first_open_offset() is None


def test_a_log_truncated_below_its_start_begins_at_its_end(tmp_path: Path) -> None:
    """As after an unclean election, whose leader does not have the deleted records: the follower truncates below its start."""
    log = new_log(tmp_path)
    for _ in range(3):
        append(log, [b"x"])
    log.raise_start(2)
    log.truncate_to(1, MonotonicMs(NOW))
    assert (log.log_start_offset, log.end_offset) == (1, 1)


def test_a_compacted_log_truncated_to_an_offset_without_a_record_ends_there(tmp_path: Path) -> None:
    """It ended behind or before that offset: as a follower it missed the leader's records, as a leader it wrote some offsets again."""
    for gap_in_last_segment in (True, False):
        log = new_log(tmp_path / str(gap_in_last_segment), cleanup_policy=("compact",))
        append(log, [b"a", b"b"])
        batch = build_batch([NewRecord(None, b"c", NOW)], base_offset=10)
        if gap_in_last_segment:
            log.append_as_given(batch, MonotonicMs(NOW))
        else:
            log.active.next_offset = 10  # as after compaction
            log.roll(MonotonicMs(NOW))
            log.append_as_given(batch, MonotonicMs(NOW))
        log.truncate_to(7, MonotonicMs(NOW))
        assert log.end_offset == 7
        assert append(log, [b"d"]) == 7


def test_a_log_start_within_a_truncated_batch_moves_with_the_log_end(tmp_path: Path) -> None:
    """The log start stayed above the log end, so that every fetch was out of range."""
    log = new_log(tmp_path)
    append(log, [b"a"] * 10)
    log.raise_start(5)
    log.truncate_to(7, MonotonicMs(NOW))
    assert (log.log_start_offset, log.end_offset) == (0, 0)
