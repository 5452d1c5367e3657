"""MirrorMaker's records."""

import struct

import pytest
from isthmus_api.mirror_records import (
    Checkpoint,
    Heartbeat,
    OffsetSync,
    checkpoint,
    flow_topics,
    heartbeat,
    offset_sync,
)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def test_topics_are_known_by_their_names() -> None:
    names = [
        "a.b.checkpoints.internal",
        "mm2-offset-syncs.c.internal",
        "heartbeats",
        "a.heartbeats",
        "orders",
        "heartbeats.x",
    ]
    found = flow_topics(names)
    assert found.checkpoints == {"a.b": "a.b.checkpoints.internal"}
    assert found.offset_syncs == {"c": "mm2-offset-syncs.c.internal"}
    assert found.heartbeats == ["a.heartbeats", "heartbeats"]


def test_records_are_read() -> None:
    partition = struct.pack(">i", 2)
    assert heartbeat(_text("a") + _text("b"), struct.pack(">hq", 0, 5)) == Heartbeat("a", "b", 5)
    value = struct.pack(">hqq", 0, 7, 3) + _text("meta")
    assert checkpoint(_text("g") + _text("t") + partition, value) == Checkpoint("g", "t", 2, 7, 3)
    assert offset_sync(_text("t") + partition, struct.pack(">qq", 7, 3)) == OffsetSync("t", 2, 7, 3)


@pytest.mark.parametrize("key", [None, b"", b"\x00", b"\x00\x05ab", b"\xff\xff", b"\x00\x01\xff\x00\x01a"])
@pytest.mark.parametrize("value", [None, b"", struct.pack(">hqq", 1, 0, 0), struct.pack(">hqq", 0, 0, 0)])
def test_what_is_torn_is_none(key: bytes | None, value: bytes | None) -> None:
    assert heartbeat(key, value) is None
    assert checkpoint(key, value) is None
    assert offset_sync(key, value) is None
