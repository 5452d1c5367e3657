"""Giving log directories their identity: what `isthmus storage format` does, and a first start does by itself."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import UUID, uuid4

from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.edge.disk.checkpoints import uuid_text
from isthmus_broker.edge.disk.files import DiskFailure
from isthmus_broker.edge.disk.log_dir import Inconsistent, MetaProperties, NotFormatted, read_meta, write_meta


class Formatted(NamedTuple):
    """What formatting found and did."""

    cluster_id: str
    written: tuple[Path, ...]
    already: tuple[Path, ...]


def random_uuid() -> UUID:
    """As Kafka makes them: none of the reserved ids, and no text that begins with a dash."""
    while True:
        candidate = uuid4()
        if not uuid_text(candidate).startswith("-"):
            return candidate


def new_cluster_id() -> str:
    """A cluster id that nobody has."""
    return uuid_text(random_uuid())


def directories_of(config: NodeConfig) -> list[Path]:
    """log.dirs and the metadata log's directory, each once, absolute."""
    named = dict.fromkeys([*config.log_dirs, config.metadata_log_dir])
    return [Path(os.path.abspath(name)) for name in named]


def format_directories(directories: Sequence[Path], node_id: int, cluster_id: str | None) -> Formatted:
    """Format those that are not formatted; they must all belong to the same cluster and to this node.

    A cluster id that is not given is taken from a directory that has one, or made up.
    """
    known: dict[Path, MetaProperties] = {}
    unformatted: list[Path] = []
    for directory in directories:
        try:
            known[directory] = read_meta(directory)
        except NotFormatted:
            unformatted.append(directory)
        except DiskFailure:
            continue  # a directory that does not work takes no part; the node goes on with the others
    for directory, meta in known.items():
        cluster_id = cluster_id or meta.cluster_id
        if meta.cluster_id != cluster_id:
            raise Inconsistent(f"{directory} belongs to cluster {meta.cluster_id}, not to {cluster_id}")
        if meta.node_id != node_id:
            raise Inconsistent(f"{directory} belongs to node {meta.node_id}, but node.id is {node_id}")
    cluster_id = cluster_id or new_cluster_id()
    written = []
    for directory in unformatted:
        try:
            write_meta(directory, MetaProperties(cluster_id, node_id, random_uuid()))
            written.append(directory)
        except DiskFailure:
            continue
    if not known and not written:
        raise Inconsistent(f"none of the log directories can be written: {', '.join(map(str, directories))}")
    return Formatted(cluster_id, tuple(written), tuple(known))
