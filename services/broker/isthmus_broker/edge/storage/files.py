"""A bounded pool of descriptors, atomic replacement of small files, and the error of a failing disk."""

import errno
import os
import resource
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from isthmus_broker.edge.storage.filesystem import Chunk, FileSystem

OPEN_FILES_MAX: Final = 8192
"""The default number of descriptors kept open; beyond it the least recently used one is closed until it is needed again."""
FAILED_SYNC_SUFFIX: Final = ".failed-sync"


class DiskFailure(OSError):
    """A log directory has failed: its partitions go offline, the node continues with the others."""

    def __init__(self, path: Path, cause: OSError) -> None:
        super().__init__(cause.errno, f"{cause.strerror} at {path}")
        self.path = path


@contextmanager
def failures_at(path: Path) -> Iterator[None]:
    """Raise DiskFailure for an error of the operating system."""
    try:
        yield
    except DiskFailure:
        raise
    except OSError as error:
        raise DiskFailure(path, error) from error


class FilePool:
    """Open descriptors by path, least recently used first."""

    def __init__(self, files: FileSystem, limit: int = OPEN_FILES_MAX) -> None:
        self.files = files
        self._read = files.read
        self._limit = limit
        self._open: OrderedDict[str, int] = OrderedDict()  # str keys: a Path would be hashed again at every look-up

    def descriptor(self, path: str, *, create: bool = True) -> int:
        """A descriptor for reading and writing; the file is created if it does not exist and `create` says so."""
        descriptor = self._open.get(path)
        if descriptor is not None:
            self._open.move_to_end(path)
            return descriptor
        try:
            descriptor = self.files.open(path, create=create)
        except OSError as error:
            raise DiskFailure(Path(path), error) from error
        self._open[path] = descriptor
        if len(self._open) > self._limit:
            self.files.close(self._open.popitem(last=False)[1])
        return descriptor

    def write_at(self, path: str, chunks: Sequence[Chunk], position: int) -> int:
        """Write all chunks at `position`; returns the number of bytes."""
        descriptor = self.descriptor(path)
        try:
            return write_all(self.files, descriptor, chunks, position)
        except OSError as error:
            raise DiskFailure(Path(path), error) from error

    def read_at(self, path: str, size: int, position: int) -> bytes:
        """Read up to `size` bytes at `position`."""
        try:
            return self._read(self.descriptor(path, create=False), size, position)
        except OSError as error:
            raise DiskFailure(Path(path), error) from error

    def truncate(self, path: str, size: int) -> None:
        """Set the size of the file."""
        try:
            self.files.truncate(self.descriptor(path), size)
        except OSError as error:
            raise DiskFailure(Path(path), error) from error

    def sync(self, path: str) -> None:
        """Make the file's bytes durable."""
        try:
            self.files.sync(self.descriptor(path))
        except OSError as error:
            record_failed_sync(self.files, Path(path))
            raise DiskFailure(Path(path), error) from error

    def release(self, path: str) -> int | None:
        """A descriptor of an existing file for the caller alone, who closes it; None if there is no file."""
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            return descriptor
        try:
            return self.files.open(path, create=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DiskFailure(Path(path), error) from error

    def close(self, path: str) -> None:
        """Close the descriptor, if one is open."""
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            self.files.close(descriptor)

    def close_all(self) -> None:
        """Close every descriptor."""
        for descriptor in self._open.values():
            self.files.close(descriptor)
        self._open.clear()


def write_all(files: FileSystem, descriptor: int, chunks: Sequence[Chunk], position: int) -> int:
    """Write every chunk at `position`; returns the number of bytes."""
    total = sum(map(len, chunks))
    written = files.write(descriptor, chunks, position)
    while written < total:  # a signal or a nearly full disk can shorten a write
        rest = memoryview(b"".join(chunks))[written:]
        step = files.write(descriptor, [rest], position + written)
        if step == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written += step
    return total


def sync_path(files: FileSystem, path: Path) -> None:
    """Make a directory's entries, or a closed file's bytes, durable; raises FileNotFoundError if it was removed."""
    try:
        files.sync_path(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        record_failed_sync(files, path)
        raise DiskFailure(path, error) from error


def record_failed_sync(files: FileSystem, path: Path) -> None:
    """Record that the sync of a file failed, as far as the disk permits, for the next start: see `failed_syncs`.

    The record is not synced: like the pages that were not written, it lasts as long as the page cache. A directory has none.
    """
    with suppress(OSError):
        if not files.is_directory(path):
            files.close(files.open(f"{path}{FAILED_SYNC_SUFFIX}", create=True))


def sync_existing(files: FileSystem, paths: Iterable[Path]) -> None:
    """Make files and directories durable, except those removed in the meantime."""
    for path in paths:
        with suppress(FileNotFoundError):
            sync_path(files, path)


def replace_file(files: FileSystem, path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace a whole file at once: a crash of the process leaves the old or the new content, never a mix.

    Without `durable` a crash of the machine may leave the old content, or none, until the caller syncs the file and its directory.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        files.write_file(temporary, data, sync=durable)
        files.rename(temporary, path)
        if durable:
            files.sync_path(path.parent)
    except OSError as error:
        raise DiskFailure(path, error) from error


def remove_if_present(files: FileSystem, path: Path) -> None:
    """Remove a file if it exists; raises DiskFailure."""
    try:
        files.remove(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise DiskFailure(path, error) from error


def remove_all(files: FileSystem, paths: Iterable[Path]) -> None:
    """Remove files and directories that are no longer in use; the next start removes those that remain."""
    for path in paths:
        with suppress(OSError):
            if files.is_directory(path):
                files.remove_directory(path)
            else:
                remove_if_present(files, path)


def raise_file_limit() -> int:
    """Raise the process's limit of open files to the maximum; returns the capacity for the pool."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return max(64, min(OPEN_FILES_MAX, hard // 2))
