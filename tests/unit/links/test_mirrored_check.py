"""Validation of a source's batches by a leader."""

import pytest
from crc32c import crc32c
from isthmus_broker.core.log.mirrored_check import check_mirrored
from isthmus_wire.errors import ErrorCode
from isthmus_wire.records import NewRecord, build_batch, build_control_batch


def batch(base: int, count: int = 1, epoch: int = 3) -> bytes:
    return build_batch([NewRecord(None, b"v")] * count, base_offset=base, leader_epoch=epoch)


def verdict(data: bytes, first: int = 10, latest: int = 2, most: int = 5) -> ErrorCode | None:
    refusal = check_mirrored(data, first, latest, most)
    return None if refusal is None else refusal.error


def damaged(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


MARKER = build_control_batch(0, bytes(6), timestamp=1, base_offset=10, leader_epoch=3, producer_id=7, producer_epoch=0)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        batch(10),
        batch(10, 3) + batch(13) + batch(14, 2),
        batch(12) + batch(20),  # gaps, as after compaction
        batch(10, epoch=3) + batch(11, epoch=5),
        MARKER,
    ],
)
def test_whole_batches_that_go_on_are_taken(data: bytes) -> None:
    assert verdict(data) is None


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (batch(9), ErrorCode.invalid_record),
        (batch(10, 3) + batch(12), ErrorCode.invalid_record),
        (batch(10, epoch=6), ErrorCode.fenced_leader_epoch),
        (batch(10, epoch=1), ErrorCode.invalid_record),
        (batch(10, epoch=4) + batch(11, epoch=3), ErrorCode.invalid_record),
        (batch(10)[:-1], ErrorCode.corrupt_message),
        (batch(10) + batch(11)[:30], ErrorCode.corrupt_message),
        (batch(10) + b"\0" * 10, ErrorCode.corrupt_message),
        (damaged(batch(10), 65), ErrorCode.corrupt_message),
        (damaged(batch(10), 16), ErrorCode.unsupported_for_message_format),
        (batch(10) + bytes(16) + b"\1" + bytes(20), ErrorCode.unsupported_for_message_format),
    ],
)
def test_what_is_refused_is_refused_whole(data: bytes, error: ErrorCode) -> None:
    assert verdict(data) is error


def test_a_marker_that_cannot_be_read_is_damage_even_under_a_right_checksum() -> None:
    broken = build_batch(
        [NewRecord(b"", b"")], base_offset=10, leader_epoch=3, attributes=0x30, compression=1, producer_id=7
    )
    unreadable = bytearray(broken)
    unreadable[-4:] = b"\xff" * 4
    unreadable[17:21] = crc32c(bytes(unreadable[21:])).to_bytes(4)
    assert verdict(bytes(unreadable)) is ErrorCode.corrupt_message
