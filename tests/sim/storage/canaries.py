"""Planted defects of the product's storage, each with the violation that it must cause."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple
from unittest.mock import patch

from isthmus_broker.core.raft.types import SnapshotId
from isthmus_broker.edge.quorum import quorum_state
from isthmus_broker.edge.quorum.metadata_log import MetadataLogStore
from isthmus_broker.edge.quorum.raft_snapshots import SnapshotFiles
from isthmus_broker.edge.storage import checkpoints
from isthmus_broker.edge.storage import files as storage_files
from isthmus_broker.edge.storage.files import replace_file
from isthmus_broker.edge.storage.filesystem import FileSystem

from tests.sim.storage.life import Fault

_unsynced_replacement: Final = partial(replace_file, durable=False)
"""Renames a new file over the old one without a sync: a power loss may leave an empty one."""


def _no_flush(_store: MetadataLogStore) -> None:
    """Leave the metadata log in the page cache."""


def _unsynced_finish(files: SnapshotFiles, snapshot: SnapshotId) -> None:
    """Give a snapshot its name without a sync."""
    files._files.rename(files._part(snapshot), files.path(snapshot))


def _no_record(_files: FileSystem, _path: Path) -> None:
    """Forget that a sync failed: the next process takes what it reads for durable."""


class Canary(NamedTuple):
    """A defect."""

    owner: ModuleType | type
    name: str
    defect: object
    violations: tuple[str, ...]
    """The finding begins with one of these names."""
    faults: Sequence[Fault] = ()
    """Faults that bring the defect to light soon; those of any life if empty."""


CANARIES: Final[Mapping[str, Canary]] = {
    "unsynced-checkpoint": Canary(checkpoints, "replace_file", _unsynced_replacement, ("log-start",)),
    "unsynced-quorum-state": Canary(
        quorum_state, "replace_file", _unsynced_replacement, ("refuses-to-start", "forgotten-vote")
    ),
    "unsynced-metadata-log": Canary(MetadataLogStore, "flush", _no_flush, ("lost-records",)),
    "forgotten-failed-sync": Canary(
        storage_files, "record_failed_sync", _no_record, ("lost-records", "batches", "disk-failure"), ("sync",)
    ),
    "unsynced-snapshot": Canary(SnapshotFiles, "_finish", _unsynced_finish, ("damaged-snapshot", "lost-snapshot")),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The product with that defect."""
    canary = CANARIES[name]
    with patch.object(canary.owner, canary.name, canary.defect):
        yield
