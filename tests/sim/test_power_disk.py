"""The simulated disk itself: what survives a kill, a power loss, a failed sync and a full disk."""

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from isthmus_broker.edge.storage.files import replace_file
from isthmus_broker.edge.storage.filesystem import FileSystem

from tests.sim.power.disk import SimDisk
from tests.sim.power.errors import ProcessDied

ROOT = Path("/data")
FILE = ROOT / "f"
SEEDS = 200


def started(seed: int = 1, capacity: int = 1 << 20) -> tuple[SimDisk, FileSystem]:
    """A disk with a durable directory."""
    disk = SimDisk(Random(seed), capacity=capacity)
    files = disk.start()
    files.make_directory(ROOT, exist_ok=False)
    files.sync_path(Path("/"))
    return disk, files


def write(files: FileSystem, path: Path, data: bytes, position: int = 0) -> None:
    descriptor = files.open(str(path), create=True)
    assert files.write(descriptor, [data], position) == len(data)
    files.close(descriptor)


def synced(files: FileSystem, path: Path, data: bytes) -> None:
    """Write a durable file with a durable name."""
    files.write_file(path, data, sync=True)
    files.sync_path(path.parent)


def after_power_loss(
    act: Callable[[FileSystem], None], path: Path = FILE, before: bytes | None = None
) -> set[bytes | None]:
    """The contents in which a power loss can leave a file, None if it is missing."""
    outcomes = set()
    for seed in range(SEEDS):
        disk, files = started(seed)
        if before is not None:
            synced(files, path, before)
        act(files)
        disk.cut_power()
        files = disk.start()
        outcomes.add(files.read_file(path) if files.exists(path) else None)
    return outcomes


def test_a_kill_keeps_the_page_cache_and_ends_the_process() -> None:
    disk, files = started()
    lock = files.lock(ROOT / ".lock")
    write(files, FILE, b"abc")
    disk.kill()
    with pytest.raises(ProcessDied):
        files.read_file(FILE)
    with pytest.raises(ProcessDied):
        files.sync(lock)
    again = disk.start()
    assert again.read_file(FILE) == b"abc"
    again.lock(ROOT / ".lock")


def test_a_lock_excludes_others_until_it_is_closed() -> None:
    _, files = started()
    lock = files.lock(FILE)
    with pytest.raises(BlockingIOError):
        files.lock(FILE)
    files.close(lock)
    files.lock(FILE)


def test_what_was_synced_survives_a_power_loss() -> None:
    assert after_power_loss(lambda files: synced(files, FILE, b"abc")) == {b"abc"}


def test_unsynced_bytes_are_lost_kept_or_torn() -> None:
    outcomes = after_power_loss(lambda files: write(files, FILE, b"new", 3), before=b"old")
    assert {b"old", b"oldnew", b"oldn", b"old\0\0w"} <= outcomes
    assert all(outcome is not None and outcome.startswith(b"old") for outcome in outcomes)


def test_unsynced_writes_are_reordered() -> None:
    def act(files: FileSystem) -> None:
        write(files, FILE, b"1")
        write(files, FILE, b"2", 1)

    assert {b"1", b"\0" + b"2", b"12", b""} <= after_power_loss(act, before=b"")


def test_an_unsynced_truncation_can_be_lost() -> None:
    def act(files: FileSystem) -> None:
        files.truncate(files.open(str(FILE), create=False), 1)

    assert after_power_loss(act, before=b"abc") == {b"a", b"abc"}


def test_a_name_is_durable_only_after_a_sync_of_its_directory() -> None:
    assert after_power_loss(lambda files: files.write_file(FILE, b"abc", sync=True)) == {None, b"abc"}


def test_a_removal_can_be_lost() -> None:
    assert after_power_loss(lambda files: files.remove(FILE), before=b"abc") == {None, b"abc"}


def test_an_unsynced_file_that_is_renamed_can_be_left_empty() -> None:
    outcomes = after_power_loss(lambda files: replace_file(files, FILE, b"new", durable=False), before=b"old")
    assert {b"old", b"new", b""} <= outcomes


def test_a_durable_replacement_leaves_the_new_content() -> None:
    assert after_power_loss(lambda files: replace_file(files, FILE, b"new"), before=b"old") == {b"new"}


def test_a_rename_between_directories_is_atomic() -> None:
    for seed in range(SEEDS):
        disk, files = started(seed)
        files.make_directory(ROOT / "sub", exist_ok=False)
        synced(files, ROOT / "sub" / "f", b"abc")
        files.sync_path(ROOT)
        files.rename(ROOT / "sub" / "f", FILE)
        if seed % 2:
            files.sync_path(ROOT)
        disk.cut_power()
        files = disk.start()
        assert files.exists(FILE) != files.exists(ROOT / "sub" / "f")
        assert files.exists(FILE) or seed % 2 == 0


def test_a_directory_is_lost_with_everything_in_it_unless_its_parent_was_synced() -> None:
    def act(files: FileSystem) -> None:
        files.make_directory(ROOT / "sub", exist_ok=False)
        synced(files, ROOT / "sub" / "f", b"abc")

    assert after_power_loss(act, ROOT / "sub" / "f") == {None, b"abc"}


def test_a_directory_is_removed_only_with_what_emptied_it() -> None:
    for seed in range(SEEDS):
        disk, files = started(seed)
        files.make_directory(ROOT / "sub", exist_ok=False)
        synced(files, ROOT / "sub" / "f", b"abc")
        files.sync_path(ROOT)
        files.rename(ROOT / "sub" / "f", FILE)
        files.remove_directory(ROOT / "sub")
        disk.cut_power()
        files = disk.start()
        assert files.exists(FILE) or files.exists(ROOT / "sub" / "f")


def test_a_failed_sync_drops_the_pages_which_a_later_sync_does_not_write() -> None:
    outcomes = set()
    for seed in range(SEEDS):
        disk, files = started(seed)
        synced(files, FILE, b"")
        write(files, FILE, b"abc")
        disk.fail("sync", under=FILE)
        with pytest.raises(OSError, match="Input/output"):
            files.sync_path(FILE)
        assert files.read_file(FILE) == b"abc"
        files.sync_path(FILE)
        disk.cut_power()
        outcomes.add(disk.start().read_file(FILE))
    assert {b"", b"abc"} <= outcomes


def test_a_failed_sync_is_reported_once_by_every_open_descriptor() -> None:
    disk, files = started()
    synced(files, FILE, b"abc")
    descriptor = files.open(str(FILE), create=False)
    disk.fail("sync", under=FILE)
    with pytest.raises(OSError, match="Input/output"):
        files.sync_path(FILE)
    with pytest.raises(OSError, match="Input/output"):
        files.sync(descriptor)
    files.sync(descriptor)
    files.sync(files.open(str(FILE), create=False))


def test_a_process_that_dies_after_a_failed_sync_can_record_it() -> None:
    disk, files = started()
    synced(files, FILE, b"abc")
    disk.fail("sync", under=FILE)
    disk.act_at(2, disk.kill)
    with pytest.raises(OSError, match="Input/output"):
        files.sync_path(FILE)
    files.close(files.open(str(ROOT / "record"), create=True))
    with pytest.raises(ProcessDied):
        files.read_file(FILE)
    assert disk.start().exists(ROOT / "record")


def test_a_fault_can_strike_after_operations_that_succeed() -> None:
    disk, files = started()
    write(files, FILE, b"abc")
    disk.fail("read", under=FILE, after=2)
    for _ in range(2):
        files.read_file(FILE)
    with pytest.raises(OSError, match="Input/output"):
        files.read_file(FILE)
    files.read_file(FILE)


def test_faults_are_limited_to_a_path_and_a_number_of_times() -> None:
    disk, files = started()
    write(files, FILE, b"abc")
    write(files, ROOT / "g", b"abc")
    disk.fail("read", under=FILE, times=2)
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output"):
            files.read_file(FILE)
        files.read_file(ROOT / "g")
    files.read_file(FILE)
    disk.fail("write", times=None)
    for _ in range(3):
        with pytest.raises(OSError, match="Input/output"):
            files.write_file(FILE, b"", sync=False)
    disk.repair()
    files.write_file(FILE, b"", sync=False)


def test_a_full_disk_shortens_a_write_and_then_refuses_it() -> None:
    disk, files = started(capacity=10)
    descriptor = files.open(str(FILE), create=True)
    assert files.write(descriptor, [b"12345678", b"9abcde"], 0) == 10
    with pytest.raises(OSError, match="No space") as refused:
        files.write(descriptor, [b"b"], 10)
    assert refused.value.errno == errno.ENOSPC
    assert files.write(descriptor, [b"12"], 8) == 2
    assert files.capacity(ROOT) == (10, 0)
    files.remove(FILE)
    assert disk.used == 0
    files.write_file(ROOT / "g", b"123", sync=True)
    assert disk.used == 3


def test_a_process_dies_in_the_middle_of_a_write() -> None:
    sizes = set()
    for seed in range(50):
        disk, files = started(seed)
        descriptor = files.open(str(FILE), create=True)
        disk.act_at(2, disk.kill)
        files.write(descriptor, [b"1"], 0)
        with pytest.raises(ProcessDied):
            files.write(descriptor, [b"2345"], 1)
        sizes.add(disk.start().size(FILE))
    assert sizes == {1, 2, 3, 4, 5}


def test_times_of_files_come_from_the_wall_clock() -> None:
    now = [5]
    disk = SimDisk(Random(1), wall_ms=lambda: now[0])
    files = disk.start()
    files.write_file(Path("/f"), b"1", sync=False)
    now[0] = 9
    assert files.modified_ms(Path("/f")) == 5
    write(files, Path("/f"), b"2")
    assert files.modified_ms(Path("/f")) == 9


def test_directories_behave_as_those_of_the_system() -> None:
    _, files = started()
    files.make_directory(ROOT / "a" / "b", exist_ok=False)
    files.make_directory(ROOT / "a", exist_ok=True)
    with pytest.raises(FileExistsError):
        files.make_directory(ROOT / "a", exist_ok=False)
    write(files, ROOT / "a" / "b" / "f", b"1")
    files.rename(ROOT / "a", ROOT / "c")
    assert files.list(ROOT) == [ROOT / "c"]
    assert files.list(ROOT / "c" / "b") == [ROOT / "c" / "b" / "f"]
    with pytest.raises(IsADirectoryError):
        files.read_file(ROOT / "c")
    with pytest.raises(FileNotFoundError):
        files.open(str(FILE), create=False)
    files.remove_directory(ROOT / "c")
    assert files.list(ROOT) == []
