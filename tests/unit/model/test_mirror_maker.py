"""MirrorMaker's records: the bytes that MirrorMaker 2 of Apache Kafka 4.3.1 wrote, recorded; and malformed ones."""

import struct

import pytest
from isthmus_model.mirror_maker import (
    Checkpoint,
    Heartbeat,
    OffsetSync,
    encode_checkpoint,
    encode_heartbeat,
    encode_offset_sync,
    flow_topics,
    parse_checkpoint,
    parse_heartbeat,
    parse_offset_sync,
)


def test_topics_are_recognised_by_their_names() -> None:
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


def test_heartbeats() -> None:
    record = bytes.fromhex("0006746172676574000477657374"), bytes.fromhex("0000000001a1f017aee0")
    heartbeat = Heartbeat("target", "west", 0x01A1F017AEE0)
    assert encode_heartbeat(heartbeat) == record
    assert parse_heartbeat(*record) == heartbeat


def test_offset_syncs() -> None:
    record = bytes.fromhex("00066f726465727300000001"), bytes.fromhex("00000000000000650000000000000065")
    sync = OffsetSync("orders", 1, 0x65, 0x65)
    assert encode_offset_sync(sync) == record
    assert parse_offset_sync(*record) == sync


def test_checkpoints() -> None:
    key = bytes.fromhex("000772656164657273000b776573742e6f726465727300000001")
    record = key, bytes.fromhex("0000000000000000007d00000000000000660000")
    checkpoint = Checkpoint("readers", "west.orders", 1, 0x7D, 0x66)
    assert encode_checkpoint(checkpoint) == record
    assert parse_checkpoint(*record) == checkpoint


@pytest.mark.parametrize("key", [None, b"", b"\x00", b"\x00\x05ab", b"\xff\xff", b"\x00\x01\xff\x00\x01a"])
@pytest.mark.parametrize("value", [None, b"", struct.pack(">hqq", 1, 0, 0), struct.pack(">hqq", 0, 0, 0)])
def test_a_malformed_record_is_none(key: bytes | None, value: bytes | None) -> None:
    assert parse_heartbeat(key, value) is None
    assert parse_checkpoint(key, value) is None
    assert parse_offset_sync(key, value) is None
