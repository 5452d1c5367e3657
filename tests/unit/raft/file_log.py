"""The simplest log store on a real file: batches one after another, located by their headers."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from isthmus_broker.core.raft.types import Entry
from isthmus_broker.edge.quorum.raft_records import entries


class FileLog:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._start = path.with_suffix(".start")
        self._file = os.open(path, os.O_RDWR | os.O_CREAT)
        self._entries = list(entries(path.read_bytes()))
        self.start_offset = int(self._start.read_text()) if self._start.exists() else 0
        self.failure: OSError | None = None
        self.on_raised: Callable[[], None] = lambda: None

    @property
    def end_offset(self) -> int:
        return self._entries[-1].last_offset + 1 if self._entries else self.start_offset

    def epoch_boundaries(self) -> Sequence[tuple[int, int]]:
        found: dict[int, int] = {}
        for entry in self._entries:
            found.setdefault(entry.epoch, entry.base_offset)
        return list(found.items())

    def append(self, batches: Sequence[bytes]) -> None:
        for entry in entries(b"".join(batches)):
            assert entry.base_offset == self.end_offset
            self._entries.append(entry)
        os.lseek(self._file, 0, os.SEEK_END)
        os.write(self._file, b"".join(batches))

    def flush(self) -> None:
        if self.failure is not None:
            raise self.failure
        os.fsync(self._file)

    def truncate_to(self, offset: int) -> None:
        self._rewrite([entry for entry in self._entries if entry.base_offset < offset])
        assert self.end_offset == offset

    def restart_at(self, offset: int) -> None:
        self._rewrite([])
        self.raise_start(offset)

    def raise_start(self, offset: int) -> None:
        self.start_offset = offset
        self._start.write_text(str(offset))
        self._rewrite([entry for entry in self._entries if entry.base_offset >= offset])
        self.on_raised()

    def read(self, offset: int, max_bytes: int) -> bytes:
        found = b""
        for entry in self._entries:
            if entry.last_offset >= offset:
                if found and len(found) + len(entry.payload) > max_bytes:
                    break
                found += entry.payload
        return found

    def close(self) -> None:
        os.close(self._file)

    def _rewrite(self, kept: list[Entry]) -> None:
        self._entries = kept
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, b"".join(entry.payload for entry in kept))
