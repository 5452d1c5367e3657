"""A log directory: its lock, its identity, and its clean shutdown marker."""

import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from isthmus_model.internal_topics import METADATA_TOPIC
from isthmus_model.properties import parse_properties
from isthmus_model.uuid_text import parse_uuid, uuid_text

from isthmus_broker.edge.storage.checkpoints import TopicPartition, write_offsets
from isthmus_broker.edge.storage.files import DiskFailure, failures_at, replace_file, sync_path
from isthmus_broker.edge.storage.filesystem import FileSystem

META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOCK: Final = ".lock"
DELETE_SUFFIX: Final = "-delete"
FUTURE_SUFFIX: Final = "-future"
STRAY_SUFFIX: Final = "-stray"


class NotFormatted(Exception):
    """The directory has no meta.properties."""


class Inconsistent(Exception):
    """The directory belongs to another cluster or node."""


class Locked(Exception):
    """Another process uses the directory."""


class MetaProperties(NamedTuple):
    """The identity of a directory: its cluster, node and directory id."""

    cluster_id: str
    node_id: int
    directory_id: UUID


class PartitionDirectory(NamedTuple):
    """A partition's directory, with the parts of its name."""

    path: Path
    topic: str
    partition: int
    suffix: str  # "", FUTURE_SUFFIX, DELETE_SUFFIX or STRAY_SUFFIX


def read_meta(files: FileSystem, directory: Path) -> MetaProperties:
    """The identity of a formatted directory; raises NotFormatted."""
    path = directory / META_PROPERTIES
    try:
        values = {key: entry.value for key, entry in parse_properties(files.read_file(path).decode()).items()}
    except FileNotFoundError:
        raise NotFormatted(
            f"{directory} has no {META_PROPERTIES}: it was never formatted. Run 'isthmus storage format' for it."
        ) from None
    except OSError as error:
        raise DiskFailure(path, error) from error
    except ValueError as error:
        raise Inconsistent(f"{path} is damaged: {error}") from error
    try:
        return MetaProperties(values["cluster.id"], int(values["node.id"]), parse_uuid(values["directory.id"]))
    except (KeyError, ValueError) as error:
        raise Inconsistent(f"{path} has no {error}; it must have cluster.id, node.id and directory.id") from error


def write_meta(files: FileSystem, directory: Path, meta: MetaProperties) -> None:
    """Format a directory, in Kafka's version 1."""
    text = (
        f"#\nversion=1\ncluster.id={meta.cluster_id}\nnode.id={meta.node_id}\n"
        f"directory.id={uuid_text(meta.directory_id)}\n"
    )
    try:
        files.make_directory(directory, exist_ok=True)
    except OSError as error:
        raise DiskFailure(directory, error) from error
    replace_file(files, directory / META_PROPERTIES, text.encode())


class LogDir:
    """One directory of log.dirs."""

    def __init__(self, files: FileSystem, path: Path) -> None:
        self.files = files
        self.path = path
        self.online = True
        self.was_clean = False
        self.is_loaded = False
        """Whether its logs are open."""
        self.last_broker_epoch = -1
        self.directory_id = UUID(int=0)
        self._lock = -1
        self._writing = threading.Lock()
        self._written: dict[str, int] = {}  # by name of a checkpoint: the version on disk

    def acquire(self) -> None:
        """Lock the directory; a second node on the same directory must not start."""
        try:
            self._lock = self.files.lock(self.path / LOCK)
        except BlockingIOError as error:
            raise Locked(
                f"{self.path} is used by another process. Stop that node, or give this one its own log.dirs."
            ) from error
        except OSError as error:
            raise DiskFailure(self.path, error) from error

    def remove_clean_marker(self) -> None:
        """Read whether the last shutdown was clean, and remove the marker, so that a later crash is detected."""
        marker = self.path / CLEAN_SHUTDOWN
        try:
            self.last_broker_epoch = int(json.loads(self.files.read_file(marker))["brokerEpoch"])
            self.was_clean = True
        except FileNotFoundError:
            return
        except (ValueError, KeyError, TypeError):
            self.was_clean = True  # older versions of Kafka write an empty file
        except OSError as error:
            raise DiskFailure(marker, error) from error
        with failures_at(marker):
            self.files.remove(marker)
        sync_path(self.files, self.path)

    def write_clean_marker(self, broker_epoch: int) -> None:
        """Record a clean shutdown under this broker epoch: everything is on disk."""
        data = json.dumps({"version": 0, "brokerEpoch": broker_epoch}).encode()
        replace_file(self.files, self.path / CLEAN_SHUTDOWN, data)

    def write_checkpoints(self, version: int, offsets: Mapping[str, Mapping[TopicPartition, int]]) -> None:
        """Write checkpoint files of offsets by name, in any thread; a version older than the one on disk is skipped."""
        with self._writing:
            for name, values in offsets.items():
                if version > self._written.get(name, -1):
                    write_offsets(self.files, self.path / name, values)
                    self._written[name] = version

    def release(self) -> None:
        """Unlock the directory."""
        if self._lock >= 0:
            self.files.close(self._lock)
            self._lock = -1

    def partitions(self) -> Iterator[PartitionDirectory]:
        """The partition directories in it, sorted by name."""
        try:
            entries = [entry for entry in self.files.list(self.path) if self.files.is_directory(entry)]
        except OSError as error:
            raise DiskFailure(self.path, error) from error
        for entry in entries:
            parsed = parse_name(entry)
            if parsed is not None:
                yield parsed

    def usable_bytes(self) -> tuple[int, int]:
        """Total and usable bytes of its file system."""
        try:
            return self.files.capacity(self.path)
        except OSError as error:
            raise DiskFailure(self.path, error) from error


def parse_name(path: Path) -> PartitionDirectory | None:
    """Parse `topic-7`, or `topic-7.<id>-delete`, `-future` and `-stray`; None if the directory is not a partition's."""
    name, suffix = path.name, ""
    for candidate in (DELETE_SUFFIX, FUTURE_SUFFIX, STRAY_SUFFIX):
        if name.endswith(candidate):
            name, suffix = name.removesuffix(candidate).rpartition(".")[0], candidate
            break
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not number.isdecimal() or topic == METADATA_TOPIC:
        return None
    return PartitionDirectory(path, topic, int(number), suffix)
