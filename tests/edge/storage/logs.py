"""Logs in a temporary directory, small enough to reach every limit quickly."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from isthmus_broker.core.config.layers import BrokerLayers
from isthmus_broker.core.config.node_config import resolve_node, with_embedded_defaults
from isthmus_broker.core.config.topic_config import TopicConfig, resolve_topic
from isthmus_broker.core.log.compaction import KEY_OVERHEAD
from isthmus_broker.core.log.placement import place
from isthmus_broker.edge.storage.checkpoints import TopicPartition
from isthmus_broker.edge.storage.cleaner import CleanerLimits
from isthmus_broker.edge.storage.files import FilePool
from isthmus_broker.edge.storage.filesystem import SYSTEM
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.log_manager import NoDirectoryLeft
from isthmus_broker.edge.storage.recovery import Recovered, create_log, open_log
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.records import NewRecord, build_batch, header_at

NOW = 1_700_000_000_000
_DEFAULTS = resolve_node(BrokerLayers(with_embedded_defaults({}, "unused"))).topic_defaults


class NoFailures:
    """No directory is expected to fail."""

    def directory_failed(self, lost: Sequence[TopicPartition]) -> None:
        raise AssertionError(lost)

    def all_directories_failed(self, error: NoDirectoryLeft) -> None:
        raise error


def config(**overrides: Any) -> TopicConfig:
    """Kafka's defaults, except for `overrides`."""
    return replace(resolve_topic({}, _DEFAULTS), **overrides)


def room_for(keys: int) -> Callable[[], CleanerLimits]:
    """Limits of a cleaner whose map has room for this many short keys."""
    return lambda: CleanerLimits(map_bytes=keys * KEY_OVERHEAD)


def new_log(directory: Path, **overrides: Any) -> Log:
    """An empty log of `t-0`."""
    return create_log(FilePool(SYSTEM), directory / "t-0", "t", 0, config(**overrides), None, now_ms=MonotonicMs(NOW))


def reopened(log: Log, *, clean: bool, recovery_point: int = 0, log_start_offset: int = 0) -> tuple[Log, Recovered]:
    """Open the log again, as a new process would."""
    log.pool.close_all()
    return open_log(
        FilePool(SYSTEM),
        log.directory,
        log.topic,
        log.partition,
        log.config,
        now_ms=MonotonicMs(NOW),
        clean=clean,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
    )


def append(log: Log, values: list[bytes], *, epoch: int = 0, timestamp: int = NOW, **fields: Any) -> int:
    """Append one batch; returns its base offset."""
    batch = bytearray(build_batch([NewRecord(None, value, timestamp) for value in values], **fields))
    return append_batch(log, batch, epoch, MonotonicMs(timestamp))


def batch_at(offset: int, values: list[bytes], *, epoch: int = 0) -> bytes:
    """A batch as the leader has it, for a follower; offsets below it may be missing, as after compaction."""
    batch = bytearray(build_batch([NewRecord(None, value, NOW) for value in values]))
    place(batch, header_at(batch), offset, epoch)
    return bytes(batch)


def append_batch(log: Log, batch: bytearray, epoch: int, now_ms: MonotonicMs) -> int:
    """Append as the leader of that epoch; returns the base offset."""
    placed = place(batch, header_at(batch), log.end_offset, epoch)
    log.append(batch, placed, now_ms)
    return placed.base_offset
