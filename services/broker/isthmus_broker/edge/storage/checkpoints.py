"""The small text and binary files beside the segments, in Kafka's formats."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import UUID

from crc32c import crc32c
from isthmus_model.uuid_text import parse_uuid, uuid_text

from isthmus_broker.core.log.producer_state import Producer, RecentBatch
from isthmus_broker.edge.storage.files import DiskFailure, failures_at, replace_file
from isthmus_broker.edge.storage.filesystem import FileSystem

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANED: Final = "cleaner-offset-checkpoint"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
PRODUCERS_SUFFIX: Final = ".snapshot"

_SNAPSHOT_VERSION: Final = 1
_SNAPSHOT_HEAD: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_PRODUCER: Final = struct.Struct(">qhiqiqiq")
NO_TRANSACTION: Final = -1

TopicPartition = tuple[str, int]
Offsets = Mapping[TopicPartition, int]
"""The content of a checkpoint file of a log directory."""


def _read(files: FileSystem, path: Path) -> bytes | None:
    try:
        return files.read_file(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DiskFailure(path, error) from error


def _rows(files: FileSystem, path: Path) -> list[str]:
    """The lines after version and count; raises ValueError for a missing or damaged file. A power loss may leave any part of it."""
    data = (_read(files, path) or b"").decode()
    lines = data.splitlines()
    if not data.endswith("\n") or len(lines) < 2 or lines[0] != "0" or lines[1] != str(len(lines) - 2):
        raise ValueError(f"{path} is incomplete")
    return lines[2:]


def read_offsets(files: FileSystem, path: Path) -> dict[TopicPartition, int] | None:
    """Offsets by partition; None for a missing or damaged file, without which recovery is only slower."""
    try:
        rows = [line.split(" ") for line in _rows(files, path)]
        return {(topic, int(partition)): int(offset) for topic, partition, offset in rows}
    except ValueError:
        return None


def write_offsets(files: FileSystem, path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Write version, count, and a line for each partition."""
    lines = ["0", str(len(offsets))]
    lines += [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    replace_file(files, path, ("\n".join(lines) + "\n").encode())


def read_epochs(files: FileSystem, directory: Path) -> list[tuple[int, int]] | None:
    """(epoch, start offset), oldest first; None for a missing or damaged file, which is rebuilt from the batches."""
    try:
        rows = [line.split(" ") for line in _rows(files, directory / LEADER_EPOCHS)]
        return [(int(epoch), int(start)) for epoch, start in rows]
    except ValueError:
        return None


def write_epochs(files: FileSystem, directory: Path, entries: Sequence[tuple[int, int]]) -> None:
    """Write the leader epochs; the caller syncs the file with the log."""
    replace_file(files, directory / LEADER_EPOCHS, encode_epochs(entries), durable=False)


def encode_epochs(entries: Sequence[tuple[int, int]]) -> bytes:
    """Version, count, and a line for each epoch."""
    lines = ["0", str(len(entries)), *(f"{epoch} {start}" for epoch, start in entries)]
    return ("\n".join(lines) + "\n").encode()


def read_topic_id(files: FileSystem, directory: Path) -> UUID | None:
    """The topic id of a partition's directory; None if the file is missing or damaged."""
    with suppress(ValueError):
        for line in (_read(files, directory / PARTITION_METADATA) or b"").decode().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "topic_id":
                return parse_uuid(value.strip())
    return None


def write_topic_id(files: FileSystem, directory: Path, topic_id: UUID) -> None:
    """Record the topic id, so that a deleted topic's directory is not used for a new topic of the same name.

    The file is synced with the log for the first time: creating a topic with many partitions must be quick.
    """
    text = f"version: 0\ntopic_id: {uuid_text(topic_id)}\n"
    replace_file(files, directory / PARTITION_METADATA, text.encode(), durable=False)


def encode_producers(producers: Iterable[Producer]) -> bytes:
    """A producer snapshot: version, checksum, and the newest batch of each producer."""
    body = bytearray()
    count = 0
    for producer in producers:
        count += 1
        last = producer.batches[-1] if producer.batches else RecentBatch(-1, -1, -1, -1, producer.last_timestamp)
        body += _PRODUCER.pack(
            producer.producer_id,
            producer.epoch,
            last.last_sequence,
            last.last_offset,
            last.last_offset - last.base_offset,
            producer.last_timestamp,
            producer.coordinator_epoch,
            NO_TRANSACTION if producer.transaction_start is None else producer.transaction_start,
        )
    checked = _COUNT.pack(count) + body
    return _SNAPSHOT_HEAD.pack(_SNAPSHOT_VERSION, crc32c(checked)) + checked


def decode_producers(data: bytes) -> list[Producer] | None:
    """The producers of a snapshot; None if it is damaged, and the log has to be read instead."""
    if len(data) < _SNAPSHOT_HEAD.size + _COUNT.size:
        return None
    version, checksum = _SNAPSHOT_HEAD.unpack_from(data)
    checked = memoryview(data)[_SNAPSHOT_HEAD.size :]
    if version != _SNAPSHOT_VERSION or checksum != crc32c(checked):
        return None
    return [_producer(fields) for fields in _PRODUCER.iter_unpack(checked[_COUNT.size :])]


def producer_snapshots(files: FileSystem, directory: Path) -> list[Path]:
    """The producer snapshots of a log, oldest first; each is named after its offset."""
    with failures_at(directory):
        return [path for path in files.list(directory) if path.suffix == PRODUCERS_SUFFIX]


def newest_producers(files: FileSystem, directory: Path, start: int, end: int) -> tuple[int, list[Producer]] | None:
    """The newest undamaged snapshot at an offset from `start` to `end`: its offset and its producers."""
    for path in reversed(producer_snapshots(files, directory)):
        offset = int(path.stem)
        producers = decode_producers(_read(files, path) or b"") if start <= offset <= end else None
        if producers is not None:
            return offset, producers
    return None


def _producer(fields: tuple[int, ...]) -> Producer:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, transaction = fields
    producer = Producer(producer_id, epoch, coordinator_epoch=coordinator_epoch, last_timestamp=timestamp)
    if last_offset >= 0:
        base_sequence = (last_sequence - delta) & 0x7FFFFFFF
        producer.batches.append(RecentBatch(base_sequence, last_sequence, last_offset - delta, last_offset, timestamp))
    if transaction != NO_TRANSACTION:
        producer.transaction_start = transaction
    return producer
