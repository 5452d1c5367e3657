"""The metadata log as raft needs it, in the same segment files as any other log."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from isthmus_model.clocks import Clocks
from isthmus_model.internal_topics import METADATA_TOPIC
from isthmus_wire.records import batches

from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.config.topic_config import TopicConfig, resolve_topic
from isthmus_broker.edge.quorum.raft_snapshots import SnapshotFiles
from isthmus_broker.edge.storage.files import FilePool, remove_if_present, sync_existing
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.recovery import create_log, open_log
from isthmus_broker.edge.storage.segment import SUFFIXES

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


class _SyncedByRaft:
    """Every append is flushed before it is acknowledged, and every start checks the whole log."""

    def segment_closed(self, log: Log) -> None:
        pass

    def offsets_lowered(self, log: Log) -> None:
        pass


class MetadataLogStore:
    """The raft driver's LogStore."""

    def __init__(self, pool: FilePool, directory: Path, config: TopicConfig, clocks: Clocks) -> None:
        """Open or create the log; an incomplete last write is removed."""
        self._clocks = clocks
        path, now_ms, owner = directory / DIRECTORY, clocks.monotonic(), _SyncedByRaft()
        if pool.files.exists(path):
            self.log, _ = open_log(
                pool, path, METADATA_TOPIC, 0, config, now_ms=now_ms, clean=False, recovery_point=None, owner=owner
            )
            self._restore_start()
        else:
            self.log = create_log(pool, path, METADATA_TOPIC, 0, config, None, now_ms=now_ms, owner=owner)

    def _restore_start(self) -> None:
        """Begin where the oldest snapshot ends, as the log did: its first segment may begin earlier.

        If no snapshot covers what is before the first segment, no entry was durable when the power failed.
        """
        log = self.log
        ends = [snapshot.end_offset for snapshot in SnapshotFiles(log.pool.files, log.directory).complete()]
        begin = min((end for end in ends if end >= log.log_start_offset), default=None)
        if begin is not None and begin <= log.end_offset:
            log.raise_start(begin)
        elif begin is None and log.log_start_offset > 0:
            self.restart_at(max(ends, default=0))

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
        unsynced = self.log.unsynced(list(self.log.segments), SUFFIXES[:1])
        sync_existing(self.log.pool.files, unsynced.files)
        self.log.synced(unsynced)

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
        for path in self.log.delete_below(self.log.log_start_offset, self._clocks.monotonic()):
            remove_if_present(self.log.pool.files, path)

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Read whole batches."""
        data_read = self.log.read(offset, max_bytes, self.log.end_offset, at_least_one=True)
        data = data_read.records() if data_read.size else b""
        end = max((position + header.size for position, header in batches(data)), default=0)
        return data[:end]

    def close(self) -> None:
        """Close the log."""
        self.log.close(self._clocks.monotonic())
