"""A disk that loses what was not synced when its power is cut, tears writes at any byte, fills up, and fails.

Usage: one `SimDisk` per machine, and one file system per process on it:

    disk = SimDisk(random.Random(seed), wall_ms=lambda: world.now)
    files = disk.start()           # a FileSystem, for Node(config, files=files) or FilePool(files)
    disk.kill()                    # SIGKILL: the page cache stays, descriptors and locks are released
    files = disk.start()           # the next process
    disk.cut_power()               # the page cache is lost as well
    disk.fail("sync", times=1)     # the next sync fails with EIO; `under` limits it to a directory, times=None is for good,
                                   # and `after` operations succeed before
    disk.capacity = disk.used      # ENOSPC from now on
    disk.act_at(40, disk.kill)     # at the 40th operation from now, in the middle of it if it is a write; or anything that another
                                   # thread of the process does meanwhile

After `kill` and `cut_power`, every operation of the old file system raises `ProcessDied`, so code of the dead process that still runs
cannot touch the disk. The state that a power loss leaves follows Linux and POSIX, without the favours of one file system:

- Bytes are durable after `sync` or `sync_path` of the file; directory entries after `sync_path` of their directory, never by a sync of the
  file alone. A rename is atomic, also between directories.
- Unsynced writes, truncations, creations, renames and removals survive by chance: none, all, the oldest, or any; a write can
  survive in part. A renamed file whose bytes were not synced may therefore be empty or have a hole of zeros.
- A failed sync marks the pages clean: they stay readable, and a later sync does not write them. Every descriptor that was open reports
  the failure once. The process lives to the end of its next operation: no program could record the failure otherwise.
"""

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.sim.power.errors import Operation, ProcessDied, os_error
from tests.sim.power.files import SimFiles
from tests.sim.power.inodes import Change, Directory, Entries, Entry, EntryChange, File, Node, draw_survival


class _Fault:
    def __init__(self, operation: Operation, under: Path, times: int | None, after: int) -> None:
        self.operation = operation
        self.under = under
        self.times = times
        self.after = after


class SimDisk:
    """The disk of one machine."""

    def __init__(self, random: Random, wall_ms: Callable[[], int] = lambda: 0, capacity: int = 1 << 40) -> None:
        self.random = random
        self.wall_ms = wall_ms
        self.capacity = capacity
        self.used = 0
        self.root = Directory()
        self.operations = 0
        """Operations since the disk was made."""
        self._entries = Entries()
        self._unsynced: dict[int, File] = {}
        self._faults: list[_Fault] = []
        self._process: SimFiles | None = None
        self._acts_at: int | None = None
        self._act: Callable[[], None] = self.kill

    # -- processes and power -------------------------------------------------------------------------------------------------

    def start(self) -> SimFiles:
        """The file system of a new process; the last one is killed."""
        self.kill()
        self._process = SimFiles(self)
        return self._process

    def kill(self) -> None:
        """End the process. Everything that it wrote stays in the page cache."""
        self._acts_at = None
        if self._process is not None:
            self._process.end()
            self._process = None

    def cut_power(self) -> None:
        """End the process and lose the page cache."""
        self.kill()
        survives = draw_survival(self.random)
        for file in self._unsynced.values():
            file.lose_power(survives, self.random)
        self._unsynced.clear()
        self._entries.lose_power(self.random)
        self.used = _restored(self.root)

    def act_at(self, operation: int, act: Callable[[], None]) -> None:
        """Call `act` at an operation from now; 1 is the next. `kill` and `cut_power` may leave half of a write done."""
        self._acts_at, self._act = self.operations + operation, act

    def fail(self, operation: Operation, *, under: Path = Path("/"), times: int | None = 1, after: int = 0) -> None:
        """Let operations of that kind below a path fail with EIO, after some that succeed; with `times=None` until `repair`."""
        self._faults.append(_Fault(operation, under, times, after))

    def repair(self) -> None:
        """Remove all faults."""
        self._faults.clear()

    # -- what a process does to it -------------------------------------------------------------------------------------------

    def begin(self, operation: Operation, path: str, torn: Callable[[], None] = lambda: None) -> None:
        """Count an operation: it may be the process's last, half of it done by `torn`, and it may fail."""
        self.operations += 1
        if self.operations == self._acts_at:
            if self._act in (self.kill, self.cut_power):
                torn()
            self._act()
            if self._process is None:
                raise ProcessDied
        for fault in self._faults:
            if fault.operation == operation and Path(path).is_relative_to(fault.under):
                if fault.after > 0:
                    fault.after -= 1
                    continue
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times == 0:
                        self._faults.remove(fault)
                raise os_error(errno.EIO, path)

    def write(self, file: File, data: bytes, position: int) -> int:
        """Write as much as there is room for; returns the number of bytes."""
        growth = position + len(data) - len(file.content)
        room = max(self.capacity - self.used, 0)
        if growth > room:
            data = data[: max(len(data) - (growth - room), 0)]
        if data:
            self._change(file, Change(position, data))
        return len(data)

    def truncate(self, file: File, size: int) -> None:
        """Set the size of a file; growth is refused on a full disk."""
        if size - len(file.content) > max(self.capacity - self.used, 0):
            raise os_error(errno.ENOSPC, "")
        self._change(file, Change(size, None))

    def _change(self, file: File, change: Change) -> None:
        before = len(file.content)
        file.change(change, self.wall_ms())
        if file.is_linked:
            self.used += len(file.content) - before
        self._unsynced[id(file)] = file

    def sync_file(self, file: File, path: str) -> None:
        """Make a file's bytes durable. If this fails, they never are."""
        try:
            self.begin("sync", path)
        except OSError:
            file.fail_sync(self.random)
            if self._acts_at == self.operations + 1:
                self._acts_at += 1
            raise
        file.sync()
        if not file.lost_pages:
            self._unsynced.pop(id(file), None)

    def sync_directory(self, directory: Directory) -> None:
        """Make a directory's entries durable."""
        self._entries.sync(directory)

    def add(self, directory: Directory, name: str, node: Node) -> None:
        """Create an entry."""
        self._entries.change(EntryChange(added=Entry(directory, name, node)))

    def remove(self, directory: Directory, name: str) -> None:
        """Remove an entry."""
        node = directory.entries[name]
        self._entries.change(EntryChange(removed=Entry(directory, name, node)))
        self._unlink(node)

    def rename(self, source: Entry, target: Directory, name: str) -> None:
        """Rename, which replaces a file of the new name."""
        replaced = target.entries.get(name)
        if replaced is not None and replaced is not source.node:
            self._unlink(replaced)
        self._entries.change(EntryChange(removed=source, added=Entry(target, name, source.node)))

    def _unlink(self, node: Node) -> None:
        if isinstance(node, File):
            node.is_linked = False
            self.used -= len(node.content)


def _restored(directory: Directory) -> int:
    """Show what is on the platter; returns the bytes in it."""
    directory.entries = dict(directory.stable)
    size = 0
    for node in directory.entries.values():
        if isinstance(node, Directory):
            size += _restored(node)
        else:
            node.is_linked = True
            size += len(node.content)
    return size
