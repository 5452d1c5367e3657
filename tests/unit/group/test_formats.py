"""Records and hashes are Kafka's own: `kafka_records.txt` holds keys and values that Apache Kafka 4.3.1 wrote."""

import base64
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from isthmus_broker.core.coordinator.partition import coordinator_partition, java_hash
from isthmus_broker.core.coordinator.result import Record
from isthmus_broker.core.group.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    CurrentPartitions,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_record,
)
from isthmus_broker.core.group.view import Topics, TopicView, group_hash, topic_hash
from isthmus_wire.errors import DecodeError

_LINES = (Path(__file__).parent / "kafka_records.txt").read_text().splitlines()
_TOPIC = UUID(int=7)


def _parse(line: str) -> tuple[bytes, bytes | None]:
    key, value = line.split()
    return bytes.fromhex(key), None if value == "-" else bytes.fromhex(value)


@pytest.mark.parametrize("line", _LINES)
def test_kafkas_records_are_read_and_written_byte_for_byte(line: str) -> None:
    pair = _parse(line)
    record = decode_record(*pair)
    assert record is not None
    assert record.encode() == pair


def test_every_type_of_record_is_among_them() -> None:
    types = {int.from_bytes(_parse(line)[0][:2], "big") for line in _LINES}
    assert types == {1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 19, 20, 21, 22, 23}


def _decoded(key: str, value: str) -> Record:
    record = decode_record(bytes.fromhex(key), bytes.fromhex(value))
    assert record is not None
    return record


_KEY = "0001" + "000167" + "000174" + "00000003"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0000" + "0000000000000005" + "00016d" + "0000000000000009", {}),
        ("0001" + "0000000000000005" + "00016d" + "0000000000000009" + "0000000000000008", {"expire_timestamp": 8}),
        ("0002" + "0000000000000005" + "00016d" + "0000000000000009", {}),
        ("0003" + "0000000000000005" + "00000002" + "00016d" + "0000000000000009", {"leader_epoch": 2}),
        ("0004" + "0000000000000005" + "00000002" + "026d" + "0000000000000009" + "00", {"leader_epoch": 2}),
        (
            "0004" + "0000000000000005" + "00000002" + "026d" + "0000000000000009" + "010010" + _TOPIC.hex,
            {"leader_epoch": 2, "topic_id": _TOPIC},
        ),
    ],
)
def test_offsets_of_every_version_are_read(value: str, expected: dict[str, Any]) -> None:
    wanted = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=9, **expected)
    assert _decoded(_KEY, value) == Record(OffsetCommitKey("g", "t", 3), wanted)


def test_the_key_of_old_times_is_the_same_offset() -> None:
    record = _decoded("0000" + _KEY[4:], "0000" + "0000000000000005" + "0000" + "0000000000000009")
    assert record.key == OffsetCommitKey("g", "t", 3)


def test_an_offset_with_its_own_expiry_is_written_in_version_1() -> None:
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=9, expire_timestamp=8, topic_id=_TOPIC)
    encoded = Record(OffsetCommitKey("g", "t", 3), value).encode()
    assert encoded == (
        bytes.fromhex(_KEY),
        bytes.fromhex("0001" + "0000000000000005" + "00016d" + "0000000000000009" + "0000000000000008"),
    )


def test_groups_of_every_version_are_read() -> None:
    head = "0001700000000100017800016c"
    member = "00016d"
    client = "0001630001 68".replace(" ", "")
    tail = "00000007" + "0000000173" + "0000000161"
    versions = {
        0: head + "00000001" + member + client + tail,
        1: head + "00000001" + member + client + "00000006" + tail,
        2: head + "0000000000000004" + "00000001" + member + client + "00000006" + tail,
        3: head + "0000000000000004" + "00000001" + member + "000169" + client + "00000006" + tail,
    }
    for version, body in versions.items():
        record = _decoded("0002" + "000167", f"{version:04x}" + body)
        expected = GroupMetadataValue(
            protocol_type="p",
            generation=1,
            protocol="x",
            leader="l",
            current_state_timestamp=4 if version >= 2 else -1,
            members=(
                MemberMetadata(
                    member_id="m",
                    group_instance_id="i" if version >= 3 else None,
                    client_id="c",
                    client_host="h",
                    rebalance_timeout=6 if version >= 1 else -1,
                    session_timeout=7,
                    subscription=b"s",
                    assignment=b"a",
                ),
            ),
        )
        assert record == Record(GroupMetadataKey("g"), expected)


def test_assignments_before_partitions_had_epochs_are_read() -> None:
    entry = _TOPIC.hex + "03" + "00000000" + "00000001" + "00"
    value = "0000" + "00000005" + "00000004" + "00" + "02" + entry + "01" + "00"
    assert _decoded("0008" + "000167" + "00016d", value) == Record(
        ConsumerGroupCurrentMemberAssignmentKey("g", "m"),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=5,
            previous_member_epoch=4,
            state=0,
            assigned_partitions=(CurrentPartitions(_TOPIC, (0, 1), None),),
            partitions_pending_revocation=(),
        ),
    )


def test_a_member_without_the_classic_tag_is_not_a_classic_member() -> None:
    value = "0000" + "00" + "00" + "0263" + "0268" + "01" + "01" + "00000007" + "00" + "00"
    record = _decoded("0005" + "000167" + "00016d", value)
    assert record.key == ConsumerGroupMemberMetadataKey("g", "m")
    assert isinstance(record.value, ConsumerGroupMemberMetadataValue)
    assert record.value.classic_member_metadata is None


def test_the_topics_of_groups_before_kafka_4_1_are_only_there() -> None:
    record = _decoded("0004" + "000167", "0000" + "01" + "00")
    assert record == Record(ConsumerGroupPartitionMetadataKey("g"), ConsumerGroupPartitionMetadataValue())


@pytest.mark.parametrize("kind", [9, 10, 15, 18, 24, 900])
def test_records_of_other_group_types_are_left_alone(kind: int) -> None:
    assert decode_record(kind.to_bytes(2, "big") + b"\0\1g", b"\0\0") is None


def test_damage_is_an_error() -> None:
    with pytest.raises(DecodeError):
        decode_record(b"\0", None)
    with pytest.raises(DecodeError):
        decode_record(bytes.fromhex(_KEY), b"\0\5rest")
    with pytest.raises(DecodeError):
        decode_record(bytes.fromhex(_KEY), b"\0\4\0")


def test_a_groups_hash_is_the_one_kafka_wrote() -> None:
    topic_id = UUID(bytes=base64.urlsafe_b64decode("qoRRvvhuQYCIbXg9dp7zeQ=="))
    topic = TopicView(topic_id, "t1795004741a", ((),) * 4)
    assert group_hash({topic.name: topic_hash(topic)}) == -1382106348048244143
    assert group_hash({}) == 0


def test_a_topics_hash_changes_with_all_that_matters() -> None:
    plain = TopicView(_TOPIC, "t", (("r",), ()))
    others = [
        TopicView(UUID(int=8), "t", (("r",), ())),
        TopicView(_TOPIC, "u", (("r",), ())),
        TopicView(_TOPIC, "t", (("r",), (), ())),
        TopicView(_TOPIC, "t", ((), ("r",))),
        TopicView(_TOPIC, "t", (("r", "s"), ())),
    ]
    assert len({topic_hash(topic) for topic in [plain, *others]}) == 6
    racks = TopicView(_TOPIC, "t", (("b", "a"),)), TopicView(_TOPIC, "t", (("a", "b"),))
    assert topic_hash(racks[0]) == topic_hash(racks[1])
    assert Topics.of(1, [plain]).topic_by_id(_TOPIC) == plain


@pytest.mark.parametrize(
    ("text", "number"), [("", 0), ("a", 97), ("group", 98629247), ("polygenelubricants", -(2**31)), ("é😀", 1_996_812)]
)
def test_java_hash(text: str, number: int) -> None:
    assert java_hash(text) == number


def test_a_groups_partition() -> None:
    assert coordinator_partition("group", 50) == 98629247 % 50
    assert coordinator_partition("polygenelubricants", 50) == 0
