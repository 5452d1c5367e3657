"""One closed segment on its way to the tier. Runs in a worker thread, beside the event loop that may delete the segment meanwhile."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from isthmus_tier.core.chunks import Packing
from isthmus_tier.core.manifest import WrappedKey
from isthmus_tier.core.segments import EpochStart, RemoteSegment
from isthmus_tier.edge.encryption import KeyRing
from isthmus_tier.edge.store import ObjectStore, StoreError
from isthmus_tier.edge.upload import SegmentFiles, upload

from isthmus_broker.edge.storage.checkpoints import LEADER_EPOCHS, PRODUCERS_SUFFIX, encode_epochs
from isthmus_broker.edge.storage.filesystem import FileSystem
from isthmus_broker.edge.storage.segment import SUFFIXES, file_name


class SegmentGone(Exception):
    """The segment was deleted before its files were read."""


class Destination(NamedTuple):
    """Where segments are copied to, and how."""

    store: ObjectStore
    cluster_id: str
    compresses: bool
    keys: KeyRing | None
    give_up: threading.Event
    """Set when the node stops: copies under way fail at their next chunk."""

    def packing_of(self, segment: RemoteSegment) -> tuple[Packing, WrappedKey | None]:
        """The packing of a new segment, and its key for the manifest."""
        if self.keys is None:
            return Packing(self.compresses), None
        cipher, key = self.keys.for_new(segment.id)
        return Packing(self.compresses, cipher), key


def copy_segment(
    files: FileSystem, directory: Path, segment: RemoteSegment, epochs: Sequence[EpochStart], to: Destination
) -> int:
    """Copy the segment from the directory of its log; returns the bytes that were stored. Raises SegmentGone, StoreError and OSError.

    The descriptor keeps the batches readable to the end.
    """
    try:
        descriptor = files.open(str(directory / file_name(segment.start_offset, SUFFIXES[0])), create=False)
    except FileNotFoundError as error:
        raise SegmentGone from error
    try:
        indexes = _indexes(files, directory, segment, epochs)
        packing, key = to.packing_of(segment)

        def read(position: int, size: int) -> bytes:
            if to.give_up.is_set():
                raise StoreError("the node is stopping")
            return files.read(descriptor, size, position)

        return upload(to.store, to.cluster_id, segment, SegmentFiles(read, indexes), packing, key).stored
    finally:
        files.close(descriptor)


def _indexes(
    files: FileSystem, directory: Path, segment: RemoteSegment, epochs: Sequence[EpochStart]
) -> dict[str, bytes]:
    """The small files by suffix. An index without entries need not exist, nor, in a directory from elsewhere, the producer snapshot."""
    paths = {suffix.lstrip("."): directory / file_name(segment.start_offset, suffix) for suffix in SUFFIXES[1:]}
    paths[PRODUCERS_SUFFIX.lstrip(".")] = directory / file_name(segment.end_offset + 1, PRODUCERS_SUFFIX)
    try:
        present = {name: files.read_file(path) for name, path in paths.items() if files.exists(path)}
    except FileNotFoundError as error:
        raise SegmentGone from error
    if not files.exists(directory / file_name(segment.start_offset, SUFFIXES[0])):
        raise SegmentGone  # the indexes were renamed with it, before or after they were read
    return {"index": b"", "timeindex": b"", **present, LEADER_EPOCHS: encode_epochs(epochs)}
