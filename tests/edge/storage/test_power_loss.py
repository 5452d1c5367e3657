"""What a power loss or a crash may leave on disk, built by hand; the storage world of the simulation finds such states."""

import os
from pathlib import Path

import pytest
from isthmus_broker.edge.storage import log as log_module
from isthmus_broker.edge.storage.checkpoints import LEADER_EPOCHS
from isthmus_broker.edge.storage.files import DiskFailure
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.segment import file_name
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.markers import Marker, ProducerId, build_marker
from isthmus_wire.records import TRANSACTIONAL_BIT, NewRecord, build_batch

from tests.edge.storage.logs import NOW, append, append_batch, new_log, reopened

EPOCHS = [(0, 0), (3, 4), (5, 8), (7, 12)]


def with_epochs(directory: Path) -> Log:
    """A log of 16 records in four epochs."""
    log = new_log(directory, segment_bytes=600)
    for offset in range(16):
        append(log, [b"x" * 40], epoch=max(epoch for epoch, start in EPOCHS if start <= offset))
    assert list(log.epochs.entries) == EPOCHS
    return log


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("left", [None, b"", b"0\n0\n", b"0\n4\n0 0\n3 4\n5 8\n7 1", b"0\n4\n0 0\n" + bytes(9)])
def test_a_lost_or_torn_epoch_checkpoint_is_rebuilt_from_the_batches(
    tmp_path: Path, left: bytes | None, clean: bool
) -> None:
    """The file was renamed without a sync. An empty one was believed: the epochs became (7, 15), or no controller started again.

    One without entries was written when all records had been deleted, and the log start offset of that deletion was lost.
    """
    log = with_epochs(tmp_path)
    log.active.seal()
    path = log.directory / LEADER_EPOCHS
    path.unlink() if left is None else path.write_bytes(left)
    again, _ = reopened(log, clean=clean, recovery_point=10)
    assert list(again.epochs.entries) == EPOCHS
    assert path.read_bytes() == b"0\n4\n0 0\n3 4\n5 8\n7 12\n"


def test_an_old_epoch_checkpoint_is_completed_from_the_batches(tmp_path: Path) -> None:
    log = with_epochs(tmp_path)
    (log.directory / LEADER_EPOCHS).write_bytes(b"0\n3\n0 0\n3 4\n9 13\n")
    again, _ = reopened(log, clean=False, recovery_point=5)
    assert list(again.epochs.entries) == EPOCHS


def test_a_log_that_was_compacted_once_keeps_its_records_after_a_crash(tmp_path: Path) -> None:
    """Every gap of a log that is not compacted at this moment counted as damage: one that ended at 31 was truncated to 3."""
    log = new_log(tmp_path)
    for base in (0, 2, 7, 8, 20, 30):
        log.append_as_given(build_batch([NewRecord(None, b"x")], base_offset=base, leader_epoch=0), MonotonicMs(NOW))
    append(log, [b"last"])
    again, recovered = reopened(log, clean=False)
    assert (again.end_offset, recovered.bytes_truncated) == (32, 0)


def test_bytes_that_cannot_be_read_below_the_recovery_point_fail_the_directory(tmp_path: Path) -> None:
    """The node ended, with all its directories."""
    log = new_log(tmp_path, index_interval_bytes=50)
    for _ in range(6):
        append(log, [b"x" * 40])
    log.flush_now()
    raw = bytearray(log.active.path.read_bytes())
    placed = log.active.locate(4)
    assert placed is not None
    raw[placed.position + 16] = 0  # the magic byte
    log.active.path.write_bytes(raw)
    with pytest.raises(DiskFailure, match="damaged at offset 4, below the recovery point 5"):
        reopened(log, clean=False, recovery_point=5)


def test_stale_batches_behind_a_truncation_do_not_return(tmp_path: Path) -> None:
    """The truncation was not durable, the append after it was: the old batches follow it again, in a lower epoch."""
    log = new_log(tmp_path)
    for number in range(4):
        append(log, [b"old%d" % number], epoch=1)
    before = log.active.path.read_bytes()
    log.truncate_to(2, MonotonicMs(NOW))
    append(log, [b"new2"], epoch=2)
    now = log.active.path.read_bytes()
    log.active.path.write_bytes(now + before[len(now) :])
    again, _ = reopened(log, clean=False)
    assert (again.end_offset, list(again.epochs.entries)) == (3, [(1, 0), (2, 2)])


@pytest.mark.parametrize("left", [4, 75])
def test_a_torn_append_after_a_gap_fails_no_directory(tmp_path: Path, left: int) -> None:
    """The log ended within a gap, at the recovery point: the torn bytes were taken for durable ones that are damaged."""
    log = new_log(tmp_path, cleanup_policy=("compact",))
    append(log, [b"x"])
    log.append_as_given(build_batch([NewRecord(None, b"y")], base_offset=12), MonotonicMs(NOW))
    log.truncate_to(12, MonotonicMs(NOW))
    log.flush_now()
    assert (log.end_offset, log.recovery_point) == (12, 12)
    size = log.active.size
    log.append_as_given(build_batch([NewRecord(None, b"z" * 50)], base_offset=12), MonotonicMs(NOW))
    log.active.path.write_bytes(log.active.path.read_bytes()[: size + left])
    again, _ = reopened(log, clean=False, recovery_point=12)
    assert again.active.size == size


def test_indexes_whose_segment_was_lost_are_removed(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, [b"x"])
    orphan = log.directory / file_name(9, ".txnindex")
    orphan.write_bytes(bytes(34))
    reopened(log, clean=False)
    assert not orphan.exists()


def test_a_transaction_that_ended_below_the_log_start_is_not_open_after_a_restart(tmp_path: Path) -> None:
    """The marker lay between the producer snapshot and the log start offset, and was not read: the last stable offset never moved again."""
    log = new_log(tmp_path)
    append(log, [b"x"], producer_id=2, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL_BIT)
    log.roll(MonotonicMs(NOW))
    append_batch(log, bytearray(build_marker(Marker(ProducerId(2, 0), True, 0), NOW)), 0, MonotonicMs(NOW))
    append(log, [b"y"])
    log.flush_now()
    again, _ = reopened(log, clean=False, recovery_point=3, log_start_offset=2)
    assert again.producers.first_open_offset() is None


def test_aborted_transactions_above_the_recovery_point_are_indexed_again(tmp_path: Path) -> None:
    """Recovery emptied the index, and then rebuilt it only from the newest producer snapshot on: aborted records became readable."""
    log = new_log(tmp_path)
    append(log, [b"x"], producer_id=2, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL_BIT)
    append_batch(log, bytearray(build_marker(Marker(ProducerId(2, 0), False, 0), NOW)), 0, MonotonicMs(NOW))
    log.roll(MonotonicMs(NOW))
    before = log.aborted_between(0, 2)
    assert len(before) == 1
    again, _ = reopened(log, clean=False)
    assert again.aborted_between(0, 2) == before


def test_segments_above_the_recovery_point_get_their_producer_snapshots_again(tmp_path: Path) -> None:
    """Seed 40001417 of the storage world: the cleaner removed a batch whose producer had a newer one, a power loss took the newer one,
    and without the snapshot the sequence numbers of the removed batch were forgotten.
    """
    log = new_log(tmp_path, segment_bytes=250)
    for sequence in range(7):
        append(log, [b"x" * 50], producer_id=2, producer_epoch=0, base_sequence=sequence)
    log.roll(MonotonicMs(NOW))
    before = {path.name: path.read_bytes() for path in log.directory.glob("*.snapshot")}
    assert len(before) == len(log.segments) - 1 == 4
    again, _ = reopened(log, clean=False, recovery_point=1)
    assert {path.name: path.read_bytes() for path in again.directory.glob("*.snapshot")} == before


def test_deleted_segments_stay_readable_while_a_response_is_sent(tmp_path: Path) -> None:
    """Retention closed the connection of a consumer that was reading the segment; Kafka keeps the file open."""
    log = new_log(tmp_path, segment_bytes=250)
    for _ in range(6):
        append(log, [b"x" * 50])
    log.high_watermark = log.end_offset
    piece = log.read(0, 10_000, log.end_offset, at_least_one=True)
    expected = piece.records()
    log.raise_start(log.end_offset)
    for path in log.delete_below(log.log_start_offset, MonotonicMs(NOW)):
        path.unlink()
    assert piece.records() == expected


def test_a_log_without_records_continues_at_its_recovery_point(tmp_path: Path) -> None:
    """It ended in a gap above deleted records. It restarted at its log start, and a torn append there, below the recovery point on disk,
    took the directory offline.
    """
    log = new_log(tmp_path)
    append(log, [b"x"] * 4)
    log.append_as_given(build_batch([NewRecord(None, b"x")], base_offset=7, leader_epoch=0), MonotonicMs(NOW))
    log.truncate_to(7, MonotonicMs(NOW))
    assert log.end_offset == 7
    again, _ = reopened(log, clean=False, recovery_point=7, log_start_offset=6)
    assert (again.log_start_offset, again.end_offset, again.recovery_point) == (7, 7, 7)
    append(again, [b"torn"])
    os.truncate(again.active.path, again.active.size - 1)
    once_more, _ = reopened(again, clean=False, recovery_point=7, log_start_offset=6)
    assert once_more.end_offset == 7


def test_an_empty_follower_restarts_at_the_batch_that_contains_its_start(tmp_path: Path) -> None:
    """After DeleteRecords inside a batch a new replica refused the batch that it was sent, and never caught up."""
    leader = new_log(tmp_path / "leader")
    append(leader, [b"v%d" % number for number in range(10)], epoch=1)
    leader.raise_start(5)
    follower = new_log(tmp_path / "follower")
    follower.restart_at(5, MonotonicMs(NOW))
    follower.append_as_follower(leader.read(5, 10_000, 10, at_least_one=True).records(), 1, MonotonicMs(NOW))
    follower.raise_start(5)
    assert (follower.log_start_offset, follower.end_offset) == (5, 10)
    assert list(follower.epochs.entries) == [(1, 5)]


def test_a_restarted_log_does_not_take_back_the_producers_of_its_old_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot at that offset was removed after the last sync: a power loss brought it back, with its open transaction."""
    log = new_log(tmp_path)
    append(log, [b"open"], producer_id=2, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL_BIT)
    log.snapshot_producers()
    synced: list[list[str]] = []
    monkeypatch.setattr(log_module, "sync_path", lambda _, path: synced.append(sorted(p.name for p in path.iterdir())))
    log.restart_at(log.end_offset, MonotonicMs(NOW))
    assert not [name for name in synced[-1] if name.endswith((".snapshot", ".log"))]
