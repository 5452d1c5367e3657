"""A `FileSystem` for one process on a simulated disk."""

import errno
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from isthmus_broker.edge.storage.filesystem import Chunk

from tests.sim.power.errors import Operation, ProcessDied, os_error
from tests.sim.power.inodes import Directory, Entry, File, Node

if TYPE_CHECKING:
    from tests.sim.power.disk import SimDisk


class SimFiles:
    """The files as a process sees them, until it is killed."""

    def __init__(self, disk: "SimDisk") -> None:
        self._disk = disk
        self._open: dict[int, tuple[File, str]] = {}
        self._failures_reported: dict[int, int] = {}
        """The number of failed syncs of its file that each descriptor has reported, or that were before it."""
        self._locks: dict[int, File] = {}
        self._numbers = count(3)
        self.is_dead = False

    def end(self) -> None:
        """Close everything and refuse every further operation."""
        self.is_dead = True
        for file in self._locks.values():
            file.is_locked = False

    # -- by descriptor -------------------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool) -> int:
        file = self._file(path, create=create)
        descriptor = next(self._numbers)
        self._open[descriptor] = file, path
        self._failures_reported[descriptor] = file.failed_syncs
        return descriptor

    def close(self, descriptor: int, /) -> None:
        if self.is_dead:
            return  # the system has closed it
        self._opened(descriptor)
        del self._open[descriptor], self._failures_reported[descriptor]
        lock = self._locks.pop(descriptor, None)
        if lock is not None:
            lock.is_locked = False

    def read(self, descriptor: int, size: int, position: int, /) -> bytes:
        file, path = self._opened(descriptor)
        self._begin("read", path)
        return bytes(file.content[position : position + size])

    def write(self, descriptor: int, chunks: Sequence[Chunk], position: int, /) -> int:
        file, path = self._opened(descriptor)
        return self._write(file, path, b"".join(chunks), position)

    def truncate(self, descriptor: int, size: int, /) -> None:
        file, path = self._opened(descriptor)
        self._begin("write", path)
        self._disk.truncate(file, size)

    def sync(self, descriptor: int, /) -> None:
        self._alive()
        file, path = self._opened(descriptor)
        reported = self._failures_reported[descriptor]
        try:
            self._disk.sync_file(file, path)
        finally:
            self._failures_reported[descriptor] = file.failed_syncs
        if reported < file.failed_syncs:
            raise os_error(errno.EIO, path)

    # -- by path -------------------------------------------------------------------------------------------------------------

    def sync_path(self, path: Path) -> None:
        self._alive()
        node = self._node(str(path))
        if isinstance(node, File):
            self._disk.sync_file(node, str(path))
        else:
            self._begin("sync", str(path))
            self._disk.sync_directory(node)

    def read_file(self, path: Path) -> bytes:
        file = self._file(str(path))
        self._begin("read", str(path))
        return bytes(file.content)

    def write_file(self, path: Path, data: bytes, *, sync: bool) -> None:
        file = self._file(str(path), create=True)
        self._begin("write", str(path))
        self._disk.truncate(file, 0)
        if self._write(file, str(path), data, 0) < len(data):
            raise os_error(errno.ENOSPC, str(path))
        if sync:
            self._disk.sync_file(file, str(path))

    def size(self, path: Path) -> int:
        return len(self._file(str(path)).content)

    def modified_ms(self, path: Path) -> int:
        return self._file(str(path)).modified_ms

    def exists(self, path: Path) -> bool:
        self._alive()
        try:
            self._node(str(path))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def is_directory(self, path: Path) -> bool:
        return self.exists(path) and isinstance(self._node(str(path)), Directory)

    def list(self, directory: Path) -> list[Path]:
        self._begin("read", str(directory))
        return [directory / name for name in sorted(self._directory(str(directory)).entries)]

    def make_directory(self, path: Path, *, exist_ok: bool) -> None:
        self._alive()
        if self.exists(path):
            if not exist_ok or not self.is_directory(path):
                raise os_error(errno.EEXIST, str(path))
            return
        if path.parent != path:
            self.make_directory(path.parent, exist_ok=True)
        self._begin("entry", str(path))
        parent, name = self._place(str(path))
        self._disk.add(parent, name, Directory())

    def rename(self, source: Path, target: Path) -> None:
        self._begin("entry", str(source))
        node = self._node(str(source))
        parent, name = self._place(str(source))
        to, new_name = self._place(str(target))
        self._check_replaces(node, to.entries.get(new_name), target)
        self._disk.rename(Entry(parent, name, node), to, new_name)

    def remove(self, path: Path) -> None:
        self._begin("entry", str(path))
        self._file(str(path))
        self._disk.remove(*self._place(str(path)))

    def remove_directory(self, path: Path) -> None:
        for entry in self.list(path):
            if self.is_directory(entry):
                self.remove_directory(entry)
            else:
                self.remove(entry)
        self._begin("entry", str(path))
        self._disk.remove(*self._place(str(path)))

    def lock(self, path: Path) -> int:
        descriptor = self.open(str(path), create=True)
        file = self._open[descriptor][0]
        if file.is_locked:
            self.close(descriptor)
            raise os_error(errno.EAGAIN, str(path))
        file.is_locked = True
        self._locks[descriptor] = file
        return descriptor

    def capacity(self, path: Path) -> tuple[int, int]:
        self._alive()
        return self._disk.capacity, max(self._disk.capacity - self._disk.used, 0)

    # -- inside --------------------------------------------------------------------------------------------------------------

    def _alive(self) -> None:
        if self.is_dead:
            raise ProcessDied

    def _begin(self, operation: Operation, path: str, torn: Callable[[], None] = lambda: None) -> None:
        self._alive()
        self._disk.begin(operation, path, torn)

    def _write(self, file: File, path: str, data: bytes, position: int) -> int:
        disk = self._disk
        self._begin("write", path, lambda: _torn_write(disk, file, data, position))
        written = disk.write(file, data, position)
        if data and not written:
            raise os_error(errno.ENOSPC, path)
        return written

    def _opened(self, descriptor: int) -> tuple[File, str]:
        self._alive()
        if descriptor not in self._open:
            raise os_error(errno.EBADF, str(descriptor))
        return self._open[descriptor]

    def _file(self, path: str, *, create: bool = False) -> File:
        self._alive()
        directory, name = self._place(path)
        node = directory.entries.get(name)
        if node is None and create:
            self._begin("entry", path)
            node = File(self._disk.wall_ms())
            self._disk.add(directory, name, node)
        if node is None:
            raise os_error(errno.ENOENT, path)
        if isinstance(node, Directory):
            raise os_error(errno.EISDIR, path)
        return node

    def _directory(self, path: str) -> Directory:
        node = self._node(path)
        if isinstance(node, File):
            raise os_error(errno.ENOTDIR, path)
        return node

    def _node(self, path: str) -> Node:
        node: Node = self._disk.root
        for name in path.split("/"):
            if not name:
                continue
            if isinstance(node, File):
                raise os_error(errno.ENOTDIR, path)
            if name not in node.entries:
                raise os_error(errno.ENOENT, path)
            node = node.entries[name]
        return node

    def _place(self, path: str) -> tuple[Directory, str]:
        """The directory of a path, and the name in it."""
        directory, _, name = path.rpartition("/")
        return self._directory(directory), name

    def _check_replaces(self, node: Node, replaced: Node | None, target: Path) -> None:
        if isinstance(replaced, Directory) and (isinstance(node, File) or replaced.entries):
            raise os_error(errno.ENOTEMPTY if isinstance(node, Directory) else errno.EISDIR, str(target))
        if isinstance(replaced, File) and isinstance(node, Directory):
            raise os_error(errno.ENOTDIR, str(target))


def _torn_write(disk: "SimDisk", file: File, data: bytes, position: int) -> None:
    disk.write(file, data[: disk.random.randint(0, len(data))], position)
