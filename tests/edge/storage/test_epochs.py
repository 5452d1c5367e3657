"""The history of leader epochs after restarts and truncations: followers use it to find where logs diverge."""

from pathlib import Path

import pytest
from isthmus_model.clocks import MonotonicMs

from tests.edge.storage.logs import NOW, append, new_log, reopened

HISTORY = [(1, 0), (2, 2), (4, 5)]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("snapshot_at", range(7))
def test_rebuilding_producers_does_not_change_the_history(tmp_path: Path, snapshot_at: int, clean: bool) -> None:
    log = new_log(tmp_path)
    for offset, epoch in enumerate((1, 1, 2, 2, 2, 4)):
        if offset == snapshot_at:
            log.snapshot_producers()
        append(log, [b"v"], epoch=epoch)
    assert list(log.epochs.entries) == HISTORY
    log.active.seal()
    again, _ = reopened(log, clean=clean)
    assert list(again.epochs.entries) == HISTORY
    again.truncate_to(6, MonotonicMs(NOW))
    assert list(again.epochs.entries) == HISTORY
    again.truncate_to(5, MonotonicMs(NOW))
    assert list(again.epochs.entries) == HISTORY[:2]
    third, _ = reopened(again, clean=False)
    assert list(third.epochs.entries) == HISTORY[:2]


def test_truncation_at_the_end_removes_an_epoch_without_records(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, [b"v"], epoch=1)
    log.begin_epoch(3)
    assert list(log.epochs.entries) == [(1, 0), (3, 1)]
    log.truncate_to(1, MonotonicMs(NOW))
    assert list(log.epochs.entries) == [(1, 0)]
    assert list(reopened(log, clean=False)[0].epochs.entries) == [(1, 0)]
