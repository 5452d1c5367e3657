"""The records of `__remote_log_metadata`, against bytes that Apache Kafka's serializer has written."""

from dataclasses import replace
from typing import Final
from uuid import UUID

import pytest
from isthmus_tier.core.metadata_partition import metadata_partition
from isthmus_tier.core.records import Update, decode_record, encode_added, encode_update
from isthmus_tier.core.segments import EpochStart, RemoteSegment, State
from isthmus_wire.errors import DecodeError

from tests.unit.tier.segments import PLACE

SEGMENT: Final = RemoteSegment(
    place=PLACE,
    id=UUID("21222324-2526-2728-3132-333435363738"),
    start_offset=100,
    end_offset=199,
    epochs=(EpochStart(0, 100), EpochStart(2, 150)),
    size=4096,
    largest_timestamp=1_700_000_000_123,
    broker_id=1,
    changed_ms=1_700_000_000_456,
    has_aborted=False,
)
ADDED: Final = bytes.fromhex(
    "01000007746f706963410102030405060708111213141516171800000003002122232425262728313233343536373800000000000000006400000000000000c7"
    "000000010000018bcfe5687b0000018bcfe569c803000000000000000000000064000000000200000000000000960000001000000001000101"
)
UPDATE: Final = Update(PLACE, SEGMENT.id, 1, 1_700_000_000_789, State.COPY_FINISHED, b"\x09\x08")
UPDATED: Final = bytes.fromhex(
    "01010007746f706963410102030405060708111213141516171800000003002122232425262728313233343536373800000000010000018bcfe56b150309080100"
)


def test_records_are_written_as_kafka_writes_them() -> None:
    assert encode_added(SEGMENT) == ADDED
    assert encode_update(UPDATE) == UPDATED


def test_records_of_kafka_are_read() -> None:
    assert decode_record(ADDED) == SEGMENT
    assert decode_record(UPDATED) == UPDATE


def test_a_segment_that_may_have_aborted_records_says_nothing_of_them() -> None:
    suspect = replace(SEGMENT, has_aborted=True)
    assert decode_record(encode_added(suspect)) == suspect
    assert encode_added(suspect).endswith(b"\0\0")


def test_the_deletion_of_a_partition_says_nothing_about_a_segment() -> None:
    assert decode_record(b"\1\2\0" + bytes(40)) is None


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\2" + ADDED[1:], "frame version 2"),
        (b"\1\7\0", "type 7"),
        (b"\1\0\1" + ADDED[3:], "version 1 of type 0"),
        (UPDATED[:-2] + b"\x09\0", "state 9"),
        (ADDED[:60], "wanted"),
        (b"", "end"),
    ],
    ids=["frame", "type", "version", "state", "torn", "empty"],
)
def test_unknown_and_damaged_records_are_refused(value: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode_record(value)


@pytest.mark.parametrize(("partition", "of_fifty", "of_five"), [(0, 11, 1), (1, 8, 3), (2, 16, 1), (7, 5, 0)])
def test_metadata_partitions_are_kafkas(partition: int, of_fifty: int, of_five: int) -> None:
    place = PLACE._replace(partition=partition)
    assert (metadata_partition(place, 50), metadata_partition(place, 5)) == (of_fifty, of_five)
