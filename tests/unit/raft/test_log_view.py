"""The core's view of its log: epochs, divergence, durability."""

from isthmus_broker.core.raft.log_view import LogView
from isthmus_broker.core.raft.types import EpochEnd, Recovered, SnapshotId


def log_view() -> LogView:
    """A log of 20 entries: 0 to 4 of epoch 1, 5 to 11 of epoch 3, 12 to 19 of epoch 4."""
    return LogView(Recovered(log_end=20, epochs=((1, 0), (3, 5), (4, 12))))


def test_an_epoch_ends_where_the_next_begins() -> None:
    log = log_view()
    assert [log.end_of_epoch(epoch) for epoch in range(6)] == [
        EpochEnd(0, 0),
        EpochEnd(1, 5),
        EpochEnd(1, 5),
        EpochEnd(3, 12),
        EpochEnd(4, 20),
        EpochEnd(4, 20),
    ]
    assert [log.epoch_at(offset) for offset in (0, 4, 5, 11, 12, 19)] == [1, 1, 3, 3, 4, 4]


def test_a_log_that_is_a_prefix_does_not_diverge() -> None:
    log = log_view()
    assert [log.divergence(*place) for place in ((0, 0), (5, 1), (9, 3), (20, 4))] == [None] * 4
    assert log.divergence(6, 1) == EpochEnd(1, 5)
    assert log.divergence(9, 2) == EpochEnd(1, 5)
    assert log.divergence(25, 5) == EpochEnd(4, 20)


def test_truncation_forgets_the_epochs_behind_it() -> None:
    log = log_view()
    log.truncate_to(12)
    assert (log.end, log.durable_end, log.last_epoch) == (12, 12, 3)
    log.append(5, 12, 14, mark=1)
    assert (log.end, log.durable_end, log.last_epoch) == (15, 12, 5)


def test_only_what_was_written_before_a_mark_is_durable_with_it() -> None:
    log = log_view()
    log.append(4, 20, 20, mark=1)
    log.append(4, 21, 24, mark=2)
    log.persisted(1)
    assert log.durable_end == 21
    log.truncate_to(20)
    log.append(5, 20, 20, mark=3)
    log.persisted(2)
    assert log.durable_end == 20
    log.persisted(3)
    assert log.durable_end == 21


def test_a_dropped_prefix_leaves_the_epoch_of_its_snapshot() -> None:
    log = log_view()
    log.add_snapshot(SnapshotId(8, 3))
    log.drop_before(SnapshotId(8, 3))
    assert log.start == 8
    assert log.epoch_before(8) == 3
    assert not log.is_below_start(8, 3)
    assert log.is_below_start(7, 3)
    assert log.is_below_start(8, 1)
    assert log.is_below_start(30, 2)
    assert log.end_of_epoch(3) == EpochEnd(3, 12)


def test_an_installed_snapshot_is_all_there_is() -> None:
    log = log_view()
    log.install(SnapshotId(50, 7), mark=1)
    assert (log.start, log.end, log.durable_end, log.last_epoch) == (50, 50, 50, 7)
    assert log.divergence(50, 7) is None
    log.append(8, 50, 50, mark=2)
    log.persisted(2)
    assert log.durable_end == 51


def test_a_crash_between_receiving_a_snapshot_and_installing_it_is_noticed() -> None:
    ahead = LogView(Recovered(log_end=5, epochs=((1, 0),), snapshots=(SnapshotId(9, 2),)))
    diverged = LogView(Recovered(log_end=20, epochs=((1, 0),), snapshots=(SnapshotId(9, 2),)))
    own = LogView(Recovered(log_end=20, epochs=((1, 0),), snapshots=(SnapshotId(9, 1),)))
    assert ahead.unfinished_install() == SnapshotId(9, 2)
    assert diverged.unfinished_install() == SnapshotId(9, 2)
    assert own.unfinished_install() is None
