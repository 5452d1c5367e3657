"""After a crash at any byte a log recovers to a prefix of its records, and accepts appends."""

import shutil
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from isthmus_broker.edge.storage.log import Log
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.records import batches, iterate_records

from tests.edge.storage.logs import NOW, append, new_log, reopened

BATCHES = 14


def content(log: Log) -> list[tuple[int, bytes | None]]:
    found = []
    for segment, placed in log.placed_batches(log.log_start_offset):
        data = segment.read(placed.position, placed.header.size)
        found += [
            (record.offset, record.value) for position, _ in batches(data) for record in iterate_records(data, position)
        ]
    return found


def written_log(directory: Path) -> Log:
    log = new_log(directory, segment_bytes=700, index_interval_bytes=150)
    for number in range(BATCHES):
        append(
            log,
            [b"%d" % number, b"y" * (number * 7 % 60)],
            epoch=number // 6,
            producer_id=3,
            producer_epoch=0,
            base_sequence=2 * number,
        )
    return log


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_torn_tail_leaves_a_prefix(tmp_path: Path, data: st.DataObject) -> None:
    shutil.rmtree(tmp_path / "t-0", ignore_errors=True)
    log = written_log(tmp_path)
    before = content(log)
    victim = data.draw(st.sampled_from(log.segments[1:]), label="segment")
    recovery_point = log.segments[1].base_offset
    cut = data.draw(st.integers(0, victim.size), label="bytes left")
    damage = data.draw(st.sampled_from(["cut", "zeroes", "flip"]), label="damage")
    log.pool.close_all()
    raw = victim.path.read_bytes()
    if damage == "cut":
        victim.path.write_bytes(raw[:cut])
    elif damage == "zeroes":
        victim.path.write_bytes(raw[:cut] + bytes(len(raw) - cut))
    elif cut < len(raw):
        victim.path.write_bytes(raw[:cut] + bytes([raw[cut] ^ 0x55]) + raw[cut + 1 :])
    again, _ = reopened(log, clean=False, recovery_point=recovery_point)
    after = content(again)
    assert after == before[: len(after)]
    assert len(after) >= recovery_point
    assert again.end_offset == (after[-1][0] + 1)
    assert again.producers.producers[3].last_sequence == again.end_offset - 1
    offset = append(again, [b"new"], epoch=9)
    assert content(again) == [*after, (offset, b"new")]
    for wanted in range(again.end_offset):
        found = again.read(wanted, 10_000, again.end_offset, at_least_one=True)
        assert found.first is not None
        assert found.first.header.base_offset <= wanted <= found.first.header.last_offset


def test_a_clean_log_is_opened_without_reading_its_batches(tmp_path: Path) -> None:
    log = written_log(tmp_path)
    before = content(log)
    log.close(MonotonicMs(0))
    again, recovered = reopened(log, clean=True)
    assert recovered == (0, 0)
    assert content(again) == before
    assert list(again.epochs.entries) == list(log.epochs.entries)
    assert again.producers.producers[3].last_sequence == 2 * BATCHES - 1


def test_a_crashed_log_is_checked_only_above_the_recovery_point(tmp_path: Path) -> None:
    log = written_log(tmp_path)
    last = log.active
    log.pool.close_all()
    first = log.segments[0].path
    first.write_bytes(first.read_bytes()[:-1] + b"\xff")  # damage below the recovery point is not checked for
    _, recovered = reopened(log, clean=False, recovery_point=last.base_offset)
    assert recovered == (last.size, 0)


def test_lost_indexes_are_rebuilt(tmp_path: Path) -> None:
    log = written_log(tmp_path)
    before = content(log)
    log.close(MonotonicMs(0))
    for path in [*log.directory.glob("*index"), *log.directory.glob("*.snapshot")]:
        path.unlink()
    again, _ = reopened(log, clean=True)
    assert content(again) == before
    found = again.batch_at_time(0, 0)
    assert found is not None
    assert found[0].base_offset == 0
    assert again.producers.producers[3].last_sequence == 2 * BATCHES - 1


def test_producer_snapshots_above_the_log_end_are_removed(tmp_path: Path) -> None:
    """One that a clean stop left above an end without records counted as the state of records that were appended later."""
    log = written_log(tmp_path)
    log.close(MonotonicMs(0))
    above = log.directory / f"{log.end_offset + 1:020}.snapshot"
    shutil.copy(next(log.directory.glob("*.snapshot")), above)
    again, _ = reopened(log, clean=True)
    assert not above.exists()
    assert again.producers.producers[3].last_sequence == 2 * BATCHES - 1


def test_leftovers_of_deletion_are_removed(tmp_path: Path) -> None:
    log = written_log(tmp_path)
    log.close(MonotonicMs(0))
    (log.directory / "00000000000000000000.log.deleted").write_bytes(b"x")
    (log.directory / "leader-epoch-checkpoint.tmp").write_bytes(b"x")
    again, _ = reopened(log, clean=True)
    assert not list(again.directory.glob("*.deleted")) + list(again.directory.glob("*.tmp"))


def test_preallocated_segments_are_truncated_when_full_when_closed_and_after_a_crash(
    tmp_path: Path,
) -> None:
    log = new_log(tmp_path, segment_bytes=400, preallocate=True)
    for number in range(6):
        append(log, [b"%d" % number, b"z" * 60])
    before = content(log)
    sizes = [segment.path.stat().st_size for segment in log.segments]
    assert sizes == [*(segment.size for segment in log.segments[:-1]), 400]
    crashed, _ = reopened(log, clean=False)
    assert content(crashed) == before
    assert crashed.active.path.stat().st_size == crashed.active.size < 400
    append(crashed, [b"z" * 300])
    assert crashed.active.path.stat().st_size == 400
    crashed.close(MonotonicMs(NOW))
    closed, _ = reopened(crashed, clean=True)
    assert closed.active.path.stat().st_size == closed.active.size
    assert content(closed)[:-1] == before
