"""Objects as files below a directory: on this machine's disk, or one that several machines mount."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from isthmus_tier.edge.store import Missing, Refused, Stored, StoreError

_UNFINISHED: Final = ".unfinished"
"""The directory of files that are not objects yet; a crash may leave some."""


class LocalStore:
    """A directory; it is created with the first object."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __str__(self) -> str:
        return f"file://{self._directory}"

    def put(self, name: str, pieces: Iterable[bytes]) -> None:
        path, unfinished = self._path(name), self._path(_UNFINISHED) / uuid4().hex
        try:
            self._make_directory(unfinished.parent)
            try:
                with unfinished.open("xb") as file:
                    for piece in pieces:
                        file.write(piece)
                    file.flush()
                    os.fsync(file.fileno())
                self._make_directory(path.parent)
                unfinished.replace(path)
            finally:
                unfinished.unlink(missing_ok=True)
            _sync(path.parent)
        except FileNotFoundError as error:  # another process has just removed the directory as empty
            raise StoreError(f"{self}: {name}: its directory is gone; try again") from error
        except OSError as error:
            raise self._failed(name, error) from error

    def get(self, name: str, position: int = 0, size: int | None = None) -> bytes:
        try:
            with self._path(name).open("rb") as file:
                file.seek(position)
                return file.read(-1 if size is None else size)
        except OSError as error:
            raise self._failed(name, error) from error

    def delete(self, name: str) -> None:
        path = self._path(name)
        try:
            path.unlink()
            _sync(path.parent)
            self._remove_empty(path.parent)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._failed(name, error) from error

    def list(self, prefix: str) -> Iterator[Stored]:
        for directory, folders, files in os.walk(self._path(prefix.rpartition("/")[0])):
            if Path(directory) == self._directory and _UNFINISHED in folders:
                folders.remove(_UNFINISHED)
            for path in (Path(directory, file) for file in files):
                name = path.relative_to(self._directory).as_posix()
                if name.startswith(prefix):
                    with suppress(FileNotFoundError):  # deleted since
                        status = path.stat()
                        yield Stored(name, status.st_size, _milliseconds(status))

    def discard_unfinished(self, before_ms: int) -> None:
        try:
            for path in self._path(_UNFINISHED).glob("*"):
                with suppress(FileNotFoundError):  # finished since
                    if _milliseconds(path.stat()) < before_ms:
                        path.unlink()
        except OSError as error:
            raise self._failed(_UNFINISHED, error) from error

    def close(self) -> None:
        """Nothing is open between calls."""

    def _path(self, name: str) -> Path:
        return self._directory / name

    def _make_directory(self, directory: Path) -> None:
        """Create it durably: an object is lost with its directory."""
        for one in reversed([each for each in (directory, *directory.parents) if not each.exists()]):
            one.mkdir(exist_ok=True)
            _sync(one.parent)

    def _remove_empty(self, directory: Path) -> None:
        """Remove the directories that the object has left empty, so that nothing of a deleted topic remains."""
        with suppress(OSError):  # not empty, or another process was faster
            while directory != self._directory:
                directory.rmdir()
                directory = directory.parent

    def _failed(self, name: str, error: OSError) -> StoreError:
        kind = StoreError
        if isinstance(error, FileNotFoundError):
            kind = Missing
        elif isinstance(error, PermissionError):
            kind = Refused
        return kind(f"{self}: {name}: {error.strerror}")


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _milliseconds(status: os.stat_result) -> int:
    return status.st_mtime_ns // 1_000_000
