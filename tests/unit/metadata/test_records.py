"""Metadata records have Kafka's bytes."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from isthmus_broker.core.metadata.records import decode_record, encode_record
from isthmus_broker.core.metadata.schema import (
    RECORD_TYPES,
    BrokerRegistrationChangeRecord,
    NoOpRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)
from isthmus_wire.errors import DecodeError

from tests.unit.metadata.recording import LOG, SNAPSHOT, recorded_values

TOPIC = UUID("237013e2-42d6-4640-a6d4-8b0110f5bc90")


@pytest.mark.parametrize("file", [LOG, SNAPSHOT], ids=["log", "snapshot"])
def test_every_recorded_value_is_written_back_as_it_was(file: Path) -> None:
    values = [value for _, value in recorded_values(file)]
    assert [encode_record(decode_record(value)) for value in values] == values


def test_the_recording_holds_most_record_types() -> None:
    seen = {type(decode_record(value)).__api_key__ for _, value in recorded_values(LOG)}
    # Missing are those of delegation tokens, ZooKeeper, aborted transactions, unregistered brokers, and the old fencing.
    assert set(RECORD_TYPES) - seen == {1, 7, 8, 10, 21, 25, 26}


def test_every_record_type_has_its_own_key() -> None:
    assert sorted(RECORD_TYPES) == [
        0,
        1,
        2,
        3,
        4,
        5,
        7,
        8,
        9,
        10,
        11,
        12,
        14,
        15,
        17,
        18,
        19,
        20,
        21,
        22,
        23,
        24,
        25,
        26,
        27,
        28,
    ]


def test_a_record_of_an_older_version_gets_the_defaults_of_newer_fields() -> None:
    body = b"\x01\x00\x00" + bytes.fromhex("00000001") + bytes(16) + bytes(8) + b"\x01\x01\x00\x01\x00"
    record = decode_record(body)
    assert record == RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=None,
        broker_epoch=0,
        endpoints=(),
        features=(),
        rack=None,
        fenced=True,
        in_controlled_shutdown=False,
        log_dirs=(),
        cordoned_log_dirs=None,
    )


def test_a_partition_of_before_directories_has_none() -> None:
    body = b"\x01\x03\x00" + bytes(4) + TOPIC.bytes + b"\x02\x00\x00\x00\x01" * 2 + b"\x01\x01" + bytes(12) + b"\x00"
    record = decode_record(body)
    assert isinstance(record, PartitionRecord)
    assert (record.replicas, record.isr, record.directories) == ((1,), (1,), ())


@pytest.mark.parametrize(
    ("change", "version"),
    [
        (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, fenced=1), 0),
        (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, in_controlled_shutdown=1), 1),
        (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, log_dirs=(TOPIC,)), 2),
        (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, cordoned_log_dirs=()), 3),
    ],
)
def test_a_change_of_a_broker_is_written_in_the_lowest_version_that_says_it(
    change: BrokerRegistrationChangeRecord, version: int
) -> None:
    assert encode_record(change)[2] == version
    assert decode_record(encode_record(change)) == change


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"\x00\x14\x00\x00", "frame version 0"),
        (b"\x01\x63\x00\x00", "unknown metadata record type 99"),
        (b"\x01\x14\x01\x00", "NoOpRecord version 1 is newer than 0"),
        (b"", "end inside"),
        (b"\x01\x02\x00\x05ab", "left"),
    ],
)
def test_unknown_records_are_refused(value: bytes, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        decode_record(value)


def test_nothing_is_three_numbers_and_no_tags() -> None:
    assert encode_record(NoOpRecord()) == b"\x01\x14\x00\x00"
