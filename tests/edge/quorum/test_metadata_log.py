"""The metadata log's file, opened again."""

from pathlib import Path

import pytest
from isthmus_broker.core.config.layers import BrokerLayers
from isthmus_broker.core.config.node_config import resolve_node, with_embedded_defaults
from isthmus_broker.core.raft.types import SnapshotId
from isthmus_broker.edge.quorum.metadata_log import DIRECTORY, MetadataLogStore, metadata_log_config
from isthmus_broker.edge.quorum.raft_snapshots import SnapshotFiles
from isthmus_broker.edge.storage.checkpoints import LEADER_EPOCHS
from isthmus_broker.edge.storage.files import FilePool
from isthmus_broker.edge.storage.filesystem import SYSTEM
from isthmus_client.clock import CLOCKS
from isthmus_wire.records import NewRecord, build_batch

CONFIG = metadata_log_config(resolve_node(BrokerLayers(with_embedded_defaults({}, "unused"))))


def filled(directory: Path) -> MetadataLogStore:
    """Ten batches of epoch 1, two of epoch 2; the first seven are no longer needed."""
    store = MetadataLogStore(FilePool(SYSTEM), directory, CONFIG, CLOCKS)
    for offset in range(12):
        epoch = 1 if offset < 10 else 2
        store.append([build_batch([NewRecord(None, b"record")], base_offset=offset, leader_epoch=epoch)])
    store.raise_start(7)
    assert (store.start_offset, store.epoch_boundaries()) == (7, ((1, 7), (2, 10)))
    return store


def test_a_log_start_inside_a_segment_is_recovered(tmp_path: Path) -> None:
    filled(tmp_path)
    SnapshotFiles(SYSTEM, tmp_path / DIRECTORY).path(SnapshotId(7, 1)).touch()
    again = MetadataLogStore(FilePool(SYSTEM), tmp_path, CONFIG, CLOCKS)
    assert (again.start_offset, again.end_offset, again.epoch_boundaries()) == (7, 12, ((1, 7), (2, 10)))


@pytest.mark.parametrize("left", [b"", b"0\n2\n1 7\n", None])
def test_a_damaged_epoch_cache_is_rebuilt_from_the_batches(tmp_path: Path, left: bytes | None) -> None:
    """A power loss may leave the file empty, on every controller of a site at once; none of them would start again."""
    filled(tmp_path)
    SnapshotFiles(SYSTEM, tmp_path / DIRECTORY).path(SnapshotId(7, 1)).touch()
    path = tmp_path / DIRECTORY / LEADER_EPOCHS
    path.unlink() if left is None else path.write_bytes(left)
    again = MetadataLogStore(FilePool(SYSTEM), tmp_path, CONFIG, CLOCKS)
    assert (again.start_offset, again.end_offset, again.epoch_boundaries()) == (7, 12, ((1, 7), (2, 10)))


def test_the_flush_intervals_of_topics_do_not_apply() -> None:
    """An append would be synced on the event loop, and then again by raft."""
    settings = with_embedded_defaults({"log.flush.interval.messages": "1", "log.flush.interval.ms": "10"}, "unused")
    config = metadata_log_config(resolve_node(BrokerLayers(settings)))
    assert (config.flush_messages, config.flush_ms) == (CONFIG.flush_messages, CONFIG.flush_ms)
    assert config.flush_messages > 1
