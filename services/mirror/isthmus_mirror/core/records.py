"""MirrorMaker's own records, in its bytes: heartbeats, checkpoints, offset syncs. Strings have two bytes of length."""

import struct
from typing import Final, NamedTuple

from isthmus_mirror.core.progress import Place

_VERSION: Final = struct.pack(">h", 0)


class Checkpoint(NamedTuple):
    """A group's offset in the source, and where that is in the copy."""

    upstream: int
    downstream: int
    metadata: str


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def heartbeat(source: str, target: str, at_ms: int) -> tuple[bytes, bytes]:
    """Key and value: a flow between these aliases was alive."""
    return _text(source) + _text(target), _VERSION + struct.pack(">q", at_ms)


def checkpoint_key(group: str, place: Place) -> bytes:
    """The topic is the copy's."""
    return _text(group) + _text(place.topic) + struct.pack(">i", place.partition)


def checkpoint_value(checkpoint: Checkpoint) -> bytes:
    """What a group's offset is in the copy."""
    return _VERSION + struct.pack(">qq", checkpoint.upstream, checkpoint.downstream) + _text(checkpoint.metadata)


def offset_sync(place: Place, upstream: int, downstream: int) -> tuple[bytes, bytes]:
    """Key and value: one record's offset on both sides; the topic is the source's. These have no version."""
    return _text(place.topic) + struct.pack(">i", place.partition), struct.pack(">qq", upstream, downstream)
