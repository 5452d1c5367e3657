"""A node's directory that already holds much: segments written straight through the storage layer, many times as fast as a client."""

import asyncio
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from isthmus_broker.core.config.layers import BrokerLayers
from isthmus_broker.core.config.node_config import resolve_node, with_embedded_defaults
from isthmus_broker.core.config.topic_config import resolve_topic
from isthmus_broker.edge.storage.files import FilePool
from isthmus_broker.edge.storage.filesystem import SYSTEM
from isthmus_broker.edge.storage.log_dir import LogDir
from isthmus_broker.edge.storage.log_manager import LogManager
from isthmus_client.clock import CLOCKS, monotonic_ms, wall_ms
from isthmus_wire.records import NewRecord, build_batch

from tests.edge.storage.logs import NoFailures, append_batch
from tests.node import Node

BATCH_BYTES: Final = 64 * 1024
_RECORD_BYTES: Final = 1024


def fill(node: Node, topic: str, partitions: int, partition_bytes: int, segment_bytes: int) -> int:
    """Make the topic and its records on a node that is stopped now, and was once started; returns the bytes in its logs."""
    node.start()
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 2})
    wanted = NewTopic(topic, partitions, 1, config={"segment.bytes": str(segment_bytes), "retention.ms": "-1"})
    for created in admin.create_topics([wanted]).values():
        created.result(60)
    node.stop()
    return asyncio.run(_write(Path(node.settings["log.dirs"]), topic, partition_bytes, segment_bytes))


async def _write(path: Path, topic: str, partition_bytes: int, segment_bytes: int) -> int:
    defaults = resolve_node(BrokerLayers(with_embedded_defaults({}, "unused"))).topic_defaults
    config = replace(resolve_topic({}, defaults), segment_bytes=segment_bytes, retention_ms=-1)
    directory = LogDir(SYSTEM, path)
    directory.acquire()
    directory.remove_clean_marker()
    logs = LogManager([directory], FilePool(SYSTEM), lambda _topic: config, NoFailures(), CLOCKS)
    await logs.load(1)
    batch = _batch()
    for (name, _), log in logs.logs.items():
        while name == topic and log.size < partition_bytes:
            fresh = bytearray(batch)
            append_batch(log, fresh, 0, monotonic_ms())
        log.high_watermark = log.end_offset
    logs.close(directory.last_broker_epoch)
    return sum(log.size for log in logs.logs.values())


def _batch() -> bytes:
    value = bytes(range(256)) * (_RECORD_BYTES // 256)
    return build_batch([NewRecord(None, value, wall_ms()) for _ in range(BATCH_BYTES // _RECORD_BYTES)])


def bytes_read(pid: int) -> int:
    """What a process has read so far, from the page cache or from disk: files, and sockets as well."""
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("rchar:"):
            return int(line.split()[1])
    raise ValueError("no rchar")


def forget_pages(directory: Path) -> None:
    """Let the next start find nothing of these files in memory."""
    for path in directory.rglob("*"):
        with suppress(IsADirectoryError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
