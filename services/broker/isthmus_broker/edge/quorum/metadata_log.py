"""The metadata log as raft needs it, in the same segment files as any other log."""

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from isthmus_model.clocks import Clocks
from isthmus_model.internal_topics import METADATA_TOPIC
from isthmus_wire.records import batches

from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.config.topic_config import TopicConfig, resolve_topic
from isthmus_broker.edge.quorum.raft_snapshots import SnapshotFiles
from isthmus_broker.edge.storage.checkpoints import LEADER_EPOCHS
from isthmus_broker.edge.storage.files import DiskFailure, FilePool, remove_if_present, sync_path
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.recovery import create_log, open_log
from isthmus_broker.edge.storage.segment import Segment

DIRECTORY: Final = f"{METADATA_TOPIC}-0"
_BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
_NEVER: Final = str(2**63 - 1)


def metadata_log_config(node: NodeConfig) -> TopicConfig:
    """Segment settings from the node's metadata.log settings; only segments covered by a snapshot are deleted.

    As in Kafka the flush intervals of topics do not apply: raft syncs the log itself, in a worker thread.
    """
    settings = node.settings
    overrides = {
        "cleanup.policy": "compact",
        "max.message.bytes": str(_BATCH_BYTES_MAX),
        "segment.bytes": str(settings.metadata_log_segment_bytes),
        "segment.ms": str(settings.metadata_log_segment_ms),
        "flush.messages": _NEVER,
        "flush.ms": _NEVER,
    }
    return resolve_topic(overrides, node.topic_defaults)


def _sync_with_next_flush(_log: Log) -> None:
    """A closed segment needs no sync of its own: the flush after each append includes it."""


class MetadataLogStore:
    """The raft driver's LogStore."""

    def __init__(self, pool: FilePool, directory: Path, config: TopicConfig, clocks: Clocks) -> None:
        """Open or create the log; an incomplete last write is removed."""
        self._clocks = clocks
        path = directory / DIRECTORY
        if pool.files.exists(path):
            self.log, _ = open_log(
                pool,
                path,
                METADATA_TOPIC,
                0,
                config,
                now_ms=self._clocks.monotonic(),
                clean=False,
                on_sealed=_sync_with_next_flush,
            )
        else:
            self.log = create_log(
                pool,
                path,
                METADATA_TOPIC,
                0,
                config,
                None,
                now_ms=self._clocks.monotonic(),
                on_sealed=_sync_with_next_flush,
            )
        _raise_start(self.log)
        _check_epochs(self.log)
        self._directory_synced_for = -1  # the segment whose directory entry is durable

    @property
    def start_offset(self) -> int:
        """The first offset in the log."""
        return self.log.log_start_offset

    @property
    def end_offset(self) -> int:
        """The next offset."""
        return self.log.end_offset

    def epoch_boundaries(self) -> Sequence[tuple[int, int]]:
        """(epoch, first offset), oldest first."""
        return tuple(self.log.epochs.entries)

    def append(self, batches_: Sequence[bytes]) -> None:
        """Write batches that carry their offsets."""
        for batch in batches_:
            self.log.append_as_given(batch, self._clocks.monotonic())

    def flush(self) -> None:
        """Sync what is not durable; runs in a worker thread, so it opens the files for itself."""
        end = self.log.end_offset
        newest = self.log.segments[-1].base_offset
        if newest != self._directory_synced_for:
            sync_path(self.log.pool.files, self.log.directory)
            self._directory_synced_for = newest
        for segment in list(self.log.segments):
            if segment.next_offset > self.log.recovery_point or segment.base_offset >= self.log.recovery_point:
                self._sync(segment)
        self.log.recovery_point = min(end, self.log.end_offset)

    def _sync(self, segment: Segment) -> None:
        try:
            sync_path(self.log.pool.files, segment.path)
        except FileNotFoundError:
            if segment in self.log.segments:  # otherwise it was deleted meanwhile
                raise

    def truncate_to(self, offset: int) -> None:
        """Remove everything from `offset` on."""
        self.log.truncate_to(offset, self._clocks.monotonic())

    def restart_at(self, offset: int) -> None:
        """Remove everything and continue at `offset`."""
        self.log.restart_at(offset, self._clocks.monotonic())
        self.log.pool.descriptor(
            str(self.log.segments[-1].path)
        )  # the file records the log start offset, even while the log is empty

    def raise_start(self, offset: int) -> None:
        """Delete the segments that a snapshot covers."""
        self.log.raise_start(offset)
        self.log.high_watermark = self.log.end_offset
        marked, _ = self.log.delete_expired(self._clocks.now())
        for path in marked:
            remove_if_present(self.log.pool.files, path)
        self.log.raise_start(offset)

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Read whole batches."""
        data_read = self.log.read(offset, max_bytes, self.log.end_offset, at_least_one=True)
        data = data_read.records() if data_read.size else b""
        end = max((position + header.size for position, header in batches(data)), default=0)
        return data[:end]

    def close(self) -> None:
        """Close the log."""
        self.log.close(self._clocks.monotonic())


def _raise_start(log: Log) -> None:
    """The log start offset, the end of a snapshot, though the segment that contains it begins earlier.

    The epoch cache records it.
    """
    begin = log.epochs.entries[0][1] if log.epochs.entries else log.log_start_offset
    if any(snapshot.end_offset == begin for snapshot in SnapshotFiles(log.pool.files, log.directory).complete()):
        log.raise_start(begin)


def _check_epochs(log: Log) -> None:
    """Every batch of raft's log belongs to an epoch: an epoch cache that does not cover the log start is damaged."""
    entries = log.epochs.entries
    if log.end_offset > log.log_start_offset and (not entries or entries[0][1] > log.log_start_offset):
        raise DiskFailure(
            log.directory / LEADER_EPOCHS, OSError(errno.EIO, "the leader epoch cache does not cover the log start")
        )
