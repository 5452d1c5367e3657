"""Logs on a file system in memory: every disk operation goes through the `FileSystem` interface."""

from pathlib import Path
from uuid import UUID

import pytest
from isthmus_broker.core.raft.types import QuorumState, SnapshotId
from isthmus_broker.edge.quorum.quorum_state import read_quorum_state, write_quorum_state
from isthmus_broker.edge.quorum.raft_snapshots import SnapshotFiles
from isthmus_broker.edge.storage.files import DiskFailure, FilePool
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.log_dir import LogDir, MetaProperties, read_meta, write_meta
from isthmus_broker.edge.storage.recovery import create_log, open_log
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.records import batches

from tests.edge.storage.logs import NOW, append, config
from tests.edge.storage.memory_files import MemoryFiles

DIRECTORY = Path("/data/t-0")


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


def created(files: MemoryFiles, **settings: int) -> Log:
    return create_log(FilePool(files), DIRECTORY, "t", 0, config(**settings), UUID(int=7), now_ms=MonotonicMs(NOW))


def reopened(files: MemoryFiles, log: Log, *, clean: bool) -> Log:
    return open_log(FilePool(files), DIRECTORY, "t", 0, log.config, now_ms=MonotonicMs(NOW), clean=clean)[0]


def bases(log: Log) -> list[int]:
    records = log.read(log.log_start_offset, 1_000_000, log.end_offset, at_least_one=True).records()
    return [header.base_offset for _, header in batches(records)]


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_is_created_appended_to_and_opened_again(files: MemoryFiles, clean: bool) -> None:
    log = created(files)
    for value in (b"a", b"b", b"c"):
        append(log, [value])
    if clean:
        log.close(MonotonicMs(NOW))
    again = reopened(files, log, clean=clean)
    assert (again.topic_id, again.end_offset, bases(again)) == (UUID(int=7), 3, [0, 1, 2])


def test_a_torn_write_is_truncated_at_the_next_start(files: MemoryFiles) -> None:
    log = created(files)
    append(log, [b"a"])
    append(log, [b"b"])
    del files.contents[log.active.path][-3:]
    assert reopened(files, log, clean=False).end_offset == 1


def test_segments_are_rolled_truncated_and_deleted_in_it(files: MemoryFiles) -> None:
    log = created(files, segment_bytes=100)
    for _ in range(5):
        append(log, [b"x" * 40])
    assert len(log.segments) == 5
    log.truncate_to(3, MonotonicMs(NOW))
    log.close(MonotonicMs(NOW))
    assert reopened(files, log, clean=True).end_offset == 3
    assert {path.parent for path in files.contents} == {DIRECTORY}


@pytest.mark.parametrize(("call", "act"), [("sync", Log.flush_now), ("write", lambda log: append(log, [b"b"]))])
def test_a_call_that_fails_is_a_disk_failure(files: MemoryFiles, call: str, act: object) -> None:
    log = created(files)
    append(log, [b"a"])
    files.fails.add(call)
    assert callable(act)
    with pytest.raises(DiskFailure):
        act(log)


def test_identity_clean_marker_quorum_state_and_snapshots_are_kept_in_it(files: MemoryFiles) -> None:
    root = Path("/data")
    meta = MetaProperties("cluster", 1, UUID(int=5))
    write_meta(files, root, meta)
    assert read_meta(files, root) == meta
    directory = LogDir(files, root)
    directory.acquire()
    directory.write_clean_marker(9)
    directory.remove_clean_marker()
    directory.release()
    assert (directory.was_clean, directory.last_broker_epoch) == (True, 9)
    write_quorum_state(files, root, QuorumState(4, 1, None), None)
    assert read_quorum_state(files, root).epoch == 4
    snapshots = SnapshotFiles(files, root)
    snapshots.write_part(SnapshotId(3, 1), 0, b"part")
    assert SnapshotFiles(files, root).complete() == ()
    assert not any(path.name.endswith(".part") for path in files.contents)
