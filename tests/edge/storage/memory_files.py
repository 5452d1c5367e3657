"""A file system in memory, whose calls can be made to fail."""

import errno
import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from isthmus_broker.edge.storage.filesystem import Chunk


class MemoryFiles:
    """Files by path; nothing reaches a disk."""

    def __init__(self) -> None:
        self.contents: dict[Path, bytearray] = {}
        self.directories: set[Path] = {Path("/")}
        self.synced: list[Path] = []
        self.fails: set[str] = set()
        """Names of the calls that fail."""
        self._open: dict[int, Path] = {}
        self._numbers = count(3)

    def _check(self, call: str) -> None:
        if call in self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _content(self, path: Path) -> bytearray:
        if path not in self.contents:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return self.contents[path]

    def open(self, path: str, *, create: bool) -> int:
        self._check("open")
        if create:
            self.contents.setdefault(Path(path), bytearray())
        self._content(Path(path))
        descriptor = next(self._numbers)
        self._open[descriptor] = Path(path)
        return descriptor

    def close(self, descriptor: int, /) -> None:
        del self._open[descriptor]

    def read(self, descriptor: int, size: int, position: int, /) -> bytes:
        self._check("read")
        return bytes(self.contents[self._open[descriptor]][position : position + size])

    def write(self, descriptor: int, chunks: Sequence[Chunk], position: int, /) -> int:
        self._check("write")
        data, content = b"".join(chunks), self.contents[self._open[descriptor]]
        content.extend(bytes(max(position - len(content), 0)))
        content[position : position + len(data)] = data
        return len(data)

    def truncate(self, descriptor: int, size: int, /) -> None:
        content = self.contents[self._open[descriptor]]
        del content[size:]
        content.extend(bytes(size - len(content)))

    def sync(self, descriptor: int, /) -> None:
        self._check("sync")
        self.synced.append(self._open[descriptor])

    def sync_path(self, path: Path) -> None:
        self._check("sync")
        if path not in self.directories:
            self._content(path)
        self.synced.append(path)

    def read_file(self, path: Path) -> bytes:
        return bytes(self._content(path))

    def write_file(self, path: Path, data: bytes, *, sync: bool) -> None:
        self._check("write")
        self.contents[path] = bytearray(data)
        if sync:
            self.sync_path(path)

    def size(self, path: Path) -> int:
        return len(self._content(path))

    def modified_ms(self, path: Path) -> int:
        self._content(path)
        return 0

    def exists(self, path: Path) -> bool:
        return path in self.contents or path in self.directories

    def is_directory(self, path: Path) -> bool:
        return path in self.directories

    def list(self, directory: Path) -> list[Path]:
        return sorted(path for path in {*self.contents, *self.directories} if path.parent == directory)

    def make_directory(self, path: Path, *, exist_ok: bool) -> None:
        if path in self.directories and not exist_ok:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        self.directories.update((path, *path.parents))

    def rename(self, source: Path, target: Path) -> None:
        if source in self.directories:
            self.directories = {
                target / p.relative_to(source) if p.is_relative_to(source) else p for p in self.directories
            }
            self.contents = {
                target / p.relative_to(source) if p.is_relative_to(source) else p: data
                for p, data in self.contents.items()
            }
        else:
            self._content(source)
            self.contents[target] = self.contents.pop(source)

    def remove(self, path: Path) -> None:
        self._content(path)
        del self.contents[path]

    def remove_directory(self, path: Path) -> None:
        self.directories = {p for p in self.directories if not p.is_relative_to(path)}
        self.contents = {p: data for p, data in self.contents.items() if not p.is_relative_to(path)}

    def lock(self, path: Path) -> int:
        return self.open(str(path), create=True)

    def capacity(self, path: Path) -> tuple[int, int]:
        return 1 << 40, 1 << 39
