"""The interface to the file system: the broker's every disk operation goes through a `FileSystem`.

`SystemFiles` uses the operating system. Other implementations can inject disk failures and torn writes, or keep files in memory. Methods
raise OSError as the operating system does; storage turns that into DiskFailure.
"""

import fcntl
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

Chunk = bytes | bytearray | memoryview


class FileSystem(Protocol):
    """Operations by descriptor for the bytes of logs, by path for everything else."""

    def open(self, path: str, *, create: bool) -> int:
        """Open a file for reading and writing; returns its descriptor."""
        ...

    def close(self, descriptor: int, /) -> None: ...

    def read(self, descriptor: int, size: int, position: int, /) -> bytes:
        """Read up to `size` bytes at `position`."""
        ...

    def write(self, descriptor: int, chunks: Sequence[Chunk], position: int, /) -> int:
        """Write chunks at `position`; returns the number of bytes written, which may be fewer."""
        ...

    def truncate(self, descriptor: int, size: int, /) -> None:
        """Set the size of the file; bytes that it grows by are zero."""
        ...

    def sync(self, descriptor: int, /) -> None:
        """Make the file's bytes durable."""
        ...

    def sync_path(self, path: Path) -> None:
        """Make a directory's entries, or a closed file's bytes, durable."""
        ...

    def read_file(self, path: Path) -> bytes: ...

    def write_file(self, path: Path, data: bytes, *, sync: bool) -> None:
        """Create or overwrite a whole file."""
        ...

    def size(self, path: Path) -> int: ...

    def modified_ms(self, path: Path) -> int:
        """The wall time of the last write to the file, in milliseconds."""
        ...

    def exists(self, path: Path) -> bool: ...

    def is_directory(self, path: Path) -> bool: ...

    def list(self, directory: Path) -> list[Path]:
        """The entries of a directory, sorted by name."""
        ...

    def make_directory(self, path: Path, *, exist_ok: bool) -> None:
        """Create a directory and its parents."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file or directory; atomically replaces a file of that name."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file."""
        ...

    def remove_directory(self, path: Path) -> None:
        """Remove a directory and everything in it."""
        ...

    def lock(self, path: Path) -> int:
        """Create a file and lock it until its descriptor is closed; raises BlockingIOError if another process has locked it."""
        ...

    def capacity(self, path: Path) -> tuple[int, int]:
        """Total and usable bytes of the file system."""
        ...


class SystemFiles:
    """The operating system's file system."""

    close = staticmethod(os.close)
    read = staticmethod(os.pread)
    write = staticmethod(os.pwritev)
    truncate = staticmethod(os.ftruncate)
    sync = staticmethod(os.fdatasync)

    def open(self, path: str, *, create: bool) -> int:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)

    def sync_path(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read_file(self, path: Path) -> bytes:
        return path.read_bytes()

    def write_file(self, path: Path, data: bytes, *, sync: bool) -> None:
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())

    def size(self, path: Path) -> int:
        return path.stat().st_size

    def modified_ms(self, path: Path) -> int:
        return path.stat().st_mtime_ns // 1_000_000

    def exists(self, path: Path) -> bool:
        return path.exists()

    def is_directory(self, path: Path) -> bool:
        return path.is_dir()

    def list(self, directory: Path) -> list[Path]:
        return sorted(directory.iterdir())

    def make_directory(self, path: Path, *, exist_ok: bool) -> None:
        path.mkdir(parents=True, exist_ok=exist_ok)

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def remove(self, path: Path) -> None:
        path.unlink()

    def remove_directory(self, path: Path) -> None:
        shutil.rmtree(path)

    def lock(self, path: Path) -> int:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def capacity(self, path: Path) -> tuple[int, int]:
        facts = os.statvfs(path)
        return facts.f_blocks * facts.f_frsize, facts.f_bavail * facts.f_frsize


SYSTEM: Final[FileSystem] = SystemFiles()
