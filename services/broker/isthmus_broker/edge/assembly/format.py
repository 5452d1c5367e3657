"""Formatting of log directories: for `isthmus storage format`, and for the first start of a standalone node."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from isthmus_client.clock import wall_ms
from isthmus_model.internal_topics import METADATA_TOPIC
from isthmus_model.uuid_text import uuid_text

from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.raft.types import SnapshotId, VoterSet
from isthmus_broker.edge.storage.files import DiskFailure
from isthmus_broker.edge.storage.filesystem import FileSystem
from isthmus_broker.edge.storage.log_dir import Inconsistent, MetaProperties, NotFormatted, read_meta, write_meta

BOOTSTRAP_SNAPSHOT: Final = SnapshotId(0, 0)
NO_IDS: Final[Mapping[Path, UUID]] = {}


class Formatted(NamedTuple):
    """What formatting found and did."""

    cluster_id: str
    written: tuple[Path, ...]
    already: tuple[Path, ...]


def random_uuid() -> UUID:
    """A directory id as Kafka makes them: none of the reserved ids, and no text that begins with a dash."""
    while True:
        candidate = uuid4()
        if not uuid_text(candidate).startswith("-"):
            return candidate


def new_cluster_id() -> str:
    """A random cluster id."""
    return uuid_text(random_uuid())


def directories_of(config: NodeConfig) -> list[Path]:
    """log.dirs and the metadata log's directory, each once, absolute."""
    named = dict.fromkeys([*config.log_dirs, config.metadata_log_dir])
    return [Path(os.path.abspath(name)) for name in named]


def metadata_directory(config: NodeConfig) -> Path:
    """The directory of the metadata log, as listed by `directories_of`."""
    return Path(os.path.abspath(config.metadata_log_dir))


def identify(files: FileSystem, config: NodeConfig, directories: Sequence[Path]) -> Formatted:
    """The identity of a starting node. A cluster of one node formats itself; any other must have been formatted with its id."""
    alone = config.is_broker and [voter.node_id for voter in config.voters] == [config.node_id]
    if not alone and not any(_is_formatted(files, directory) for directory in directories):
        raise Inconsistent(
            f"{directories[0]} is not formatted, and this node is not the only one of its cluster. "
            "Format every node of the cluster by `isthmus storage format` with the same --cluster-id."
        )
    return format_directories(files, directories, config.node_id, None)


def _is_formatted(files: FileSystem, directory: Path) -> bool:
    try:
        read_meta(files, directory)
    except (NotFormatted, DiskFailure):
        return False
    return True


def format_directories(
    files: FileSystem,
    directories: Sequence[Path],
    node_id: int,
    cluster_id: str | None,
    ids: Mapping[Path, UUID] = NO_IDS,
) -> Formatted:
    """Format directories that are not formatted; all must belong to the same cluster and to this node.

    A missing cluster id is taken from a formatted directory, or generated; so is the id of a directory that is not in `ids`.
    """
    formatted: dict[Path, MetaProperties] = {}
    unformatted: list[Path] = []
    for directory in directories:
        try:
            formatted[directory] = read_meta(files, directory)
        except NotFormatted:
            unformatted.append(directory)
        except DiskFailure:
            continue  # a failed directory is left out; the node continues with the others
    for directory, meta in formatted.items():
        cluster_id = cluster_id or meta.cluster_id
        if meta.cluster_id != cluster_id:
            raise Inconsistent(f"{directory} belongs to cluster {meta.cluster_id}, not to {cluster_id}")
        if meta.node_id != node_id:
            raise Inconsistent(f"{directory} belongs to node {meta.node_id}, but node.id is {node_id}")
    cluster_id = cluster_id or new_cluster_id()
    written = []
    for directory in unformatted:
        try:
            write_meta(files, directory, MetaProperties(cluster_id, node_id, ids.get(directory) or random_uuid()))
            written.append(directory)
        except DiskFailure:
            continue
    if not formatted and not written:
        raise Inconsistent(f"none of the log directories is writable: {', '.join(map(str, directories))}")
    return Formatted(cluster_id, tuple(written), tuple(formatted))


def write_first_voters(files: FileSystem, config: NodeConfig, voters: VoterSet) -> None:
    """The bootstrap snapshot of a quorum whose voters are in the log (KIP-853): each voter is formatted with the same one."""
    from isthmus_broker.edge.quorum.raft_records import RaftRecords
    from isthmus_broker.edge.quorum.raft_snapshots import SnapshotFiles

    directory = metadata_directory(config) / f"{METADATA_TOPIC}-0"
    files.make_directory(directory, exist_ok=True)
    records, snapshots = RaftRecords(wall_ms), SnapshotFiles(files, directory)
    snapshots.write(BOOTSTRAP_SNAPSHOT, records.snapshot_header(wall_ms(), voters), (), records.snapshot_footer())
