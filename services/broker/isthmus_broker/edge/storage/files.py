"""The seam to the file system: descriptors within a bound, atomic replacement, directory syncs.

Everything the broker does to a disk goes through here, so that a test can make a disk fail or tear a write in one place.
"""

import errno
import os
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

OPEN_FILES_MAX: Final = 8192
"""Descriptors kept open at once by default; beyond it the least recently used one is closed and opened again when needed."""


class DiskFailure(OSError):
    """A log directory does not work any more: its partitions go offline, the node goes on."""

    def __init__(self, path: Path, cause: OSError) -> None:
        super().__init__(cause.errno, f"{cause.strerror} at {path}")
        self.path = path


class FilePool:
    """Open descriptors by path, least recently used first."""

    def __init__(self, limit: int = OPEN_FILES_MAX) -> None:
        self._limit = limit
        self._open: OrderedDict[str, int] = OrderedDict()  # a Path would be hashed anew at every look-up

    def descriptor(self, path: str, *, create: bool = True) -> int:
        """A descriptor for reading and writing; the file is made if it does not exist and `create` says so."""
        descriptor = self._open.get(path)
        if descriptor is not None:
            self._open.move_to_end(path)
            return descriptor
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)
        except OSError as error:
            raise DiskFailure(Path(path), error) from error
        self._open[path] = descriptor
        if len(self._open) > self._limit:
            os.close(self._open.popitem(last=False)[1])
        return descriptor

    def write_at(self, path: str, chunks: Sequence[bytes | bytearray | memoryview], position: int) -> int:
        """Write all chunks from `position` on, and return how many bytes that were."""
        descriptor = self.descriptor(path)
        total = sum(map(len, chunks))
        try:
            written = os.pwritev(descriptor, chunks, position)
            while written < total:  # a signal or a nearly full disk can shorten a write
                rest = memoryview(b"".join(chunks))[written:]
                step = os.pwrite(descriptor, rest, position + written)
                if step == 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                written += step
        except OSError as error:
            raise DiskFailure(Path(path), error) from error
        return total

    def read_at(self, path: str, size: int, position: int) -> bytes:
        """Up to `size` bytes from `position` on."""
        try:
            return os.pread(self.descriptor(path, create=False), size, position)
        except OSError as error:
            raise DiskFailure(Path(path), error) from error

    def truncate(self, path: str, size: int) -> None:
        """Cut the file."""
        try:
            os.ftruncate(self.descriptor(path), size)
        except OSError as error:
            raise DiskFailure(Path(path), error) from error

    def sync(self, path: str) -> None:
        """Make the file's bytes durable."""
        try:
            os.fdatasync(self.descriptor(path))
        except OSError as error:
            raise DiskFailure(Path(path), error) from error

    def close(self, path: str) -> None:
        """Give the descriptor back, if one is open."""
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def close_all(self) -> None:
        """Give every descriptor back."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()


def sync_path(path: Path) -> None:
    """Make a directory's entries, or a closed file's bytes, durable."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DiskFailure(path, error) from error


def replace_file(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Put `data` in the place of the file at once: a crash of the process leaves the old or the new content, never a mix.

    What is not `durable` may be lost with the machine: that is for files that recovery can make again from the log.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
        if durable:
            sync_path(path.parent)
    except OSError as error:
        raise DiskFailure(path, error) from error
