"""What of a log is durable: the recovery point, and the files beside the segments that a power loss may take back."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeVar

from isthmus_broker.edge.storage.files import sync_existing
from isthmus_broker.edge.storage.filesystem import FileSystem

L_contra = TypeVar("L_contra", contravariant=True)


class LogOwner(Protocol[L_contra]):
    """Makes what a log writes durable."""

    def segment_closed(self, log: L_contra) -> None:
        """A segment was closed: make it durable, now or later."""
        ...

    def offsets_lowered(self, log: L_contra) -> None:
        """Records below the recovery point are about to be removed: record the log's offsets durably before this returns."""
        ...


class _Flushable(Protocol):
    def flush_now(self) -> None: ...


class _Alone:
    """For a log without checkpoints of its offsets: it syncs closed segments at once."""

    def segment_closed(self, log: _Flushable) -> None:
        log.flush_now()

    def offsets_lowered(self, log: object) -> None:
        pass


ALONE: Final = _Alone()


class Unsynced(NamedTuple):
    """Files to sync, and the recovery point that they result in."""

    recovery_point: int
    files: list[Path]
    truncations: int
    changes: int


class Durability:
    """Everything below the recovery point is durable. Syncs in a worker thread raise it, truncations on the event loop lower it."""

    def __init__(self, files: FileSystem) -> None:
        self.recovery_point = 0
        self.truncations = 0
        """The number of truncations since the log was opened."""
        self._files = files
        self._changed: dict[Path, None] = {}
        self._changes = 0
        self._lock = threading.Lock()

    def note_change(self, *paths: Path) -> None:
        """Sync these files and directories with the log's next sync."""
        self._changed.update(dict.fromkeys(paths))
        self._changes += 1

    def sync_changes(self) -> None:
        """Sync the files and directories that have changed."""
        sync_existing(self._files, self._changed)
        self._changed.clear()

    def unsynced_with(self, end_offset: int, files: Callable[[], list[Path]]) -> Unsynced:
        """The changes, and the files of segments up to `end_offset`, as one list to sync."""
        truncations, changes = self.truncations, self._changes
        return Unsynced(end_offset, [*files(), *list(self._changed)], truncations, changes)

    def synced(self, unsynced: Unsynced) -> None:
        """Record that these files are durable. What was truncated meanwhile, and perhaps appended again, is not."""
        with self._lock:
            if self.truncations == unsynced.truncations:
                self.recovery_point = max(self.recovery_point, unsynced.recovery_point)
            if self._changes == unsynced.changes:
                self._changed.clear()

    def rewind(self, recovery_point: int) -> None:
        """Move the recovery point back before records are removed: what is appended in their place is not durable."""
        with self._lock:
            self.truncations += 1
            self.recovery_point = recovery_point
