"""The records of MirrorMaker 2, byte for byte: heartbeats, checkpoints, offset syncs, and the names of their topics.

`encode_` makes key and value, `parse_` reads them back: None for a tombstone and for anything that is not such a record. Strings have a
length of two bytes.
"""

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_VERSION: Final = 0
_CHECKPOINTS: Final = re.compile(r"(?P<source>.+)\.checkpoints\.internal")
_HEARTBEATS: Final = re.compile(r"((?P<source>.+)\.)?heartbeats")
_SYNCS: Final = re.compile(r"mm2-offset-syncs\.(?P<other>.+)\.internal")

KeyAndValue = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The flow between these aliases was alive."""

    source: str
    target: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A group's offset in the source, and what it is in the target; the topic is the target's."""

    group: str
    topic: str
    partition: int
    upstream_offset: int
    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """The same record's offset on both sides; the topic is the source's."""

    topic: str
    partition: int
    upstream_offset: int
    offset: int


@dataclass(frozen=True, slots=True)
class FlowTopics:
    """The topics of a cluster that hold records about flows, by the alias in their names."""

    checkpoints: dict[str, str]
    heartbeats: list[str]
    offset_syncs: dict[str, str]


def flow_topics(names: Iterable[str]) -> FlowTopics:
    """Select them from a cluster's topics."""
    topics = FlowTopics({}, [], {})
    for name in sorted(names):
        if match := _CHECKPOINTS.fullmatch(name):
            topics.checkpoints[match["source"]] = name
        elif match := _SYNCS.fullmatch(name):
            topics.offset_syncs[match["other"]] = name
        elif _HEARTBEATS.fullmatch(name):
            topics.heartbeats.append(name)
    return topics


def encode_heartbeat(heartbeat: Heartbeat) -> KeyAndValue:
    return _text(heartbeat.source) + _text(heartbeat.target), struct.pack(">hq", _VERSION, heartbeat.at_ms)


def encode_checkpoint(checkpoint: Checkpoint) -> KeyAndValue:
    key = checkpoint_key(checkpoint.group, checkpoint.topic, checkpoint.partition)
    offsets = struct.pack(">hqq", _VERSION, checkpoint.upstream_offset, checkpoint.offset)
    return key, offsets + _text(checkpoint.metadata)


def checkpoint_key(group: str, topic: str, partition: int) -> bytes:
    """The key alone, for a tombstone."""
    return _text(group) + _text(topic) + struct.pack(">i", partition)


def encode_offset_sync(sync: OffsetSync) -> KeyAndValue:
    """These records have no version."""
    return _text(sync.topic) + struct.pack(">i", sync.partition), struct.pack(">qq", sync.upstream_offset, sync.offset)


def parse_heartbeat(key: bytes | None, value: bytes | None) -> Heartbeat | None:
    try:
        keys, values = _Reader(key), _Reader(value)
        source, target = keys.text(), keys.text()
        return Heartbeat(source, target, values.int64()) if values.int16() == _VERSION else None
    except _Malformed:
        return None


def parse_checkpoint(key: bytes | None, value: bytes | None) -> Checkpoint | None:
    try:
        keys, values = _Reader(key), _Reader(value)
        group, topic, partition = keys.text(), keys.text(), keys.int32()
        if values.int16() != _VERSION:
            return None
        return Checkpoint(group, topic, partition, values.int64(), values.int64(), values.text())
    except _Malformed:
        return None


def parse_offset_sync(key: bytes | None, value: bytes | None) -> OffsetSync | None:
    try:
        keys, values = _Reader(key), _Reader(value)
        return OffsetSync(keys.text(), keys.int32(), values.int64(), values.int64())
    except _Malformed:
        return None


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">h", len(data)) + data


class _Malformed(Exception):
    """The bytes end too early, or are not text."""


class _Reader:
    def __init__(self, data: bytes | None) -> None:
        self._data = data or b""
        self._at = 0

    def int16(self) -> int:
        return self._number(">h")

    def int32(self) -> int:
        return self._number(">i")

    def int64(self) -> int:
        return self._number(">q")

    def text(self) -> str:
        length = self.int16()
        part = self._data[self._at : self._at + max(length, 0)]
        if len(part) != length:
            raise _Malformed
        self._at += length
        try:
            return part.decode()
        except UnicodeDecodeError as error:
            raise _Malformed from error

    def _number(self, form: str) -> int:
        try:
            (number,) = struct.unpack_from(form, self._data, self._at)
        except struct.error as error:
            raise _Malformed from error
        self._at += struct.calcsize(form)
        return int(number)
