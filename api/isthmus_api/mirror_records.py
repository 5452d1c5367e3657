"""The records that MirrorMaker 2 keeps of its flows, and our mirror in the same bytes: heartbeats, checkpoints, offset syncs. Pure."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_VERSION: Final = 0
_CHECKPOINTS: Final = re.compile(r"(?P<source>.+)\.checkpoints\.internal")
_HEARTBEATS: Final = re.compile(r"((?P<source>.+)\.)?heartbeats")
_SYNCS: Final = re.compile(r"mm2-offset-syncs\.(?P<other>.+)\.internal")


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A flow was alive."""

    source: str
    target: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A group's offset in the source, and what it is in the target."""

    group: str
    topic: str
    partition: int
    upstream_offset: int
    offset: int


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """The same record's offset on both sides."""

    topic: str
    partition: int
    upstream_offset: int
    offset: int


@dataclass(frozen=True, slots=True)
class FlowTopics:
    """Which topics of a cluster tell of flows: by the alias that their names carry."""

    checkpoints: dict[str, str]
    heartbeats: list[str]
    offset_syncs: dict[str, str]


def flow_topics(names: Iterable[str]) -> FlowTopics:
    """What the names say."""
    found = FlowTopics({}, [], {})
    for name in sorted(names):
        if match := _CHECKPOINTS.fullmatch(name):
            found.checkpoints[match["source"]] = name
        elif match := _SYNCS.fullmatch(name):
            found.offset_syncs[match["other"]] = name
        elif _HEARTBEATS.fullmatch(name):
            found.heartbeats.append(name)
    return found


def heartbeat(key: bytes | None, value: bytes | None) -> Heartbeat | None:
    """None for a tombstone and for what is no heartbeat."""
    try:
        reader = _Reader(key)
        source, target = reader.text(), reader.text()
        told = _Reader(value)
        known = told.int16() == _VERSION
        return Heartbeat(source, target, told.int64()) if known else None
    except _Torn:
        return None


def checkpoint(key: bytes | None, value: bytes | None) -> Checkpoint | None:
    """None for a tombstone and for what is no checkpoint."""
    try:
        reader = _Reader(key)
        group, topic, partition = reader.text(), reader.text(), reader.int32()
        told = _Reader(value)
        known = told.int16() == _VERSION
        return Checkpoint(group, topic, partition, told.int64(), told.int64()) if known else None
    except _Torn:
        return None


def offset_sync(key: bytes | None, value: bytes | None) -> OffsetSync | None:
    """None for a tombstone and for what is no offset sync; these have no version."""
    try:
        reader, told = _Reader(key), _Reader(value)
        return OffsetSync(reader.text(), reader.int32(), told.int64(), told.int64())
    except _Torn:
        return None


class _Torn(Exception):
    """The bytes end too early, or are no text."""


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
            raise _Torn
        self._at += length
        try:
            return part.decode()
        except UnicodeDecodeError as error:
            raise _Torn from error

    def _number(self, form: str) -> int:
        try:
            (number,) = struct.unpack_from(form, self._data, self._at)
        except struct.error as error:
            raise _Torn from error
        self._at += struct.calcsize(form)
        return int(number)
