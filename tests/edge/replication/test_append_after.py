"""Batches that name the batch they follow: all are appended after it, or none."""

from pathlib import Path
from typing import Any

import pytest
from isthmus_broker.edge.replication.partition import Partition
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.append_after import NO_BATCH, Following
from isthmus_wire.records import TRANSACTIONAL_BIT, BatchHeader, batches

from tests.clocks import at
from tests.edge.replication.nodes import batch, become, leadership, offsets, partition, produce, stored
from tests.edge.replication.test_append_mirrored import COPYING, STOPPED
from tests.edge.storage.logs import NOW

OURS = 1 << 62


def alone(directory: Path, **config: Any) -> Partition:
    part = partition(directory, 1, **config)
    become(part, leadership(1, 4, (1,), replicas=(1,)))
    return part


def ours(sequence: int, *values: bytes, **fields: Any) -> bytes:
    return bytes(batch(*values, **{"producer_id": OURS, "producer_epoch": 0, "base_sequence": sequence, **fields}))


def append(part: Partition, after: tuple[int, int], *sent: bytes) -> ErrorCode:
    refusal = part.append_after(Following(0, *after, (memoryview(bytearray(b"".join(sent))),)), at(NOW))
    return ErrorCode.none if refusal is None else refusal.error


def headers(part: Partition) -> list[BatchHeader]:
    return [header for _, header in batches(stored(part))]


def end(part: Partition) -> tuple[int, int]:
    """The offset and checksum that the next append has to name."""
    assert part.log is not None
    last = part.log.last_batch
    return part.log.end_offset, NO_BATCH if last is None else last.crc


def test_several_batches_at_once_get_their_offsets_and_the_leaders_epoch(tmp_path: Path) -> None:
    part = alone(tmp_path)
    assert append(part, (0, NO_BATCH), ours(0, b"a", b"b"), ours(2, b"c")) is ErrorCode.none
    assert append(part, end(part), ours(3, b"d")) is ErrorCode.none
    assert [(h.base_offset, h.leader_epoch, h.record_count) for h in headers(part)] == [(0, 4, 2), (2, 4, 1), (3, 4, 1)]
    assert offsets(part) == (0, 4, 4)
    assert (part.records_in, part.bytes_in) == (4, len(stored(part)))


def test_another_batch_of_the_same_length_at_the_end_is_detected(tmp_path: Path) -> None:
    part, other = alone(tmp_path / "one"), alone(tmp_path / "other")
    assert append(part, (0, NO_BATCH), ours(0, b"a")) is ErrorCode.none
    assert append(other, (0, NO_BATCH), ours(0, b"z")) is ErrorCode.none
    assert end(part)[0] == end(other)[0]
    before = stored(part)
    assert append(part, end(other), ours(1, b"b")) is ErrorCode.offset_out_of_range
    assert append(part, (1, NO_BATCH), ours(1, b"b")) is ErrorCode.offset_out_of_range
    assert append(part, (0, end(part)[1]), ours(1, b"b")) is ErrorCode.offset_out_of_range
    assert stored(part) == before


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        ((ours(1, b"b"), ours(3, b"c")), ErrorCode.out_of_order_sequence_number),
        ((ours(1, b"b"), ours(2, b"c", producer_id=7)), ErrorCode.out_of_order_sequence_number),
        ((ours(2, b"b"),), ErrorCode.out_of_order_sequence_number),
        ((ours(0, b"a"),), ErrorCode.duplicate_sequence_number),
        ((ours(1, b"b"), ours(2, b"c")[:-1]), ErrorCode.corrupt_message),
        ((ours(1, b"b")[:-1] + b"!",), ErrorCode.corrupt_message),
        ((ours(1, b"b"), ours(2, b"c", base_offset=7)), ErrorCode.invalid_record),
        ((ours(1, b"b", attributes=TRANSACTIONAL_BIT),), ErrorCode.invalid_record),
        ((ours(1, b"b" * 2_000),), ErrorCode.message_too_large),
    ],
)
def test_one_invalid_batch_refuses_all(tmp_path: Path, sent: tuple[bytes, ...], error: ErrorCode) -> None:
    part = alone(tmp_path, max_message_bytes=1_000)
    assert append(part, (0, NO_BATCH), ours(0, b"a")) is ErrorCode.none
    before = stored(part)
    assert append(part, end(part), *sent) is error
    assert stored(part) == before


def test_a_log_without_records_has_no_batch_to_follow(tmp_path: Path) -> None:
    part = alone(tmp_path)
    produce(part, b"a", b"b")
    assert part.log is not None
    part.log.raise_start(2)
    assert append(part, (2, NO_BATCH), ours(0, b"c")) is ErrorCode.none


@pytest.mark.parametrize(
    "settings",
    [{"message_timestamp_type": "LogAppendTime"}, {"compression_type": "gzip"}],
    ids=lambda given: next(iter(given)),
)
def test_a_topic_that_changes_batches_refuses_them(tmp_path: Path, settings: dict[str, str]) -> None:
    assert append(alone(tmp_path, **settings), (0, NO_BATCH), ours(0, b"a")) is ErrorCode.policy_violation


def test_only_its_link_writes_to_a_mirror_topic(tmp_path: Path) -> None:
    part = alone(tmp_path)
    part.mirror = COPYING
    assert append(part, (0, NO_BATCH), ours(0, b"a")) is ErrorCode.policy_violation
    part.mirror = STOPPED
    assert append(part, (0, NO_BATCH), ours(0, b"a")) is ErrorCode.none


def test_a_follower_and_a_leader_without_its_replicas_accept_nothing(tmp_path: Path) -> None:
    part = partition(tmp_path, 1)
    become(part, leadership(2, 4))
    assert append(part, (0, NO_BATCH), ours(0, b"a")) is ErrorCode.not_leader_or_follower
    become(part, leadership(1, 5, (1,)), min_isr=2)
    assert append(part, (0, NO_BATCH), ours(0, b"a")) is ErrorCode.not_enough_replicas
