"""Partitioner, group protocol and the records that a consumer may read."""

import pytest
from isthmus_client.batch_reader import visible_records
from isthmus_client.membership import (
    assign_range,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from isthmus_client.metadata import TopicPartition
from isthmus_client.partitioner import StickyChoice, partition_of_key
from isthmus_model.murmur2 import murmur2
from isthmus_wire.errors import CorruptBatch
from isthmus_wire.records import TRANSACTIONAL_BIT, NewRecord, build_batch, build_control_batch


# Values that Apache Kafka's own UtilsTest asserts, as signed numbers.
@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF
    assert partition_of_key(key, 10) == (signed & 0x7FFFFFFF) % 10


def test_records_without_a_key_change_partition_when_a_batch_is_sent() -> None:
    choice = StickyChoice(4)
    first = choice.current([0, 1, 5])
    choice.move()
    assert (first, choice.current([0, 1, 5])) == (1, 5)


def test_subscriptions_and_assignments_round_trip() -> None:
    partitions = (TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1))
    assert decode_subscription(encode_subscription(["b", "a"])) == ("a", "b")
    assert decode_assignment(encode_assignment(reversed(partitions))) == partitions
    assert decode_assignment(b"") == ()
    assert decode_assignment(b"\0\1\7") == ()
    assert decode_subscription(b"x") == ()


def test_the_range_assignor_gives_consecutive_partitions_in_order_of_members() -> None:
    given = assign_range({"m2": ["t", "u"], "m1": ["t"]}, {"t": 3, "u": 2, "nobody": 4})
    assert given == {
        "m1": [TopicPartition("t", 0), TopicPartition("t", 1)],
        "m2": [TopicPartition("t", 2), TopicPartition("u", 0), TopicPartition("u", 1)],
    }


def batch(base: int, *values: bytes, producer: int = -1) -> bytes:
    attributes = TRANSACTIONAL_BIT if producer >= 0 else 0
    records = [NewRecord(None, value, 1) for value in values]
    return build_batch(records, base_offset=base, producer_id=producer, producer_epoch=0, attributes=attributes)


def marker(base: int, kind: int, producer: int) -> bytes:
    return build_control_batch(kind, bytes(6), timestamp=1, base_offset=base, producer_id=producer, producer_epoch=0)


ABORT, COMMIT = 0, 1
LOG = (
    batch(0, b"plain")
    + batch(1, b"aborted", producer=9)
    + batch(2, b"committed", producer=8)
    + marker(3, ABORT, 9)
    + batch(4, b"later", producer=9)
    + marker(5, COMMIT, 8)
)


def values(data: bytes, start: int, aborted: list[tuple[int, int]], *, committed: bool) -> list[bytes | None]:
    seen = visible_records(data, start, aborted, read_committed=committed)
    return [record.value for record, _ in seen if record is not None]


def test_aborted_records_are_hidden_until_their_marker() -> None:
    assert values(LOG, 0, [(9, 1)], committed=True) == [b"plain", b"committed", b"later"]
    assert values(LOG, 0, [(9, 1)], committed=False) == [b"plain", b"aborted", b"committed", b"later"]


def test_positions_advance_past_hidden_records() -> None:
    positions = [after for record, after in visible_records(LOG, 1, [(9, 1)], read_committed=True) if record is None]
    assert positions == [2, 3, 4, 5, 6]


def test_a_batch_that_begins_before_the_start_is_cut() -> None:
    assert values(batch(10, b"a", b"b", b"c"), 11, [], committed=False) == [b"b", b"c"]


def test_a_wrong_checksum_is_an_error() -> None:
    broken = bytearray(batch(0, b"value"))
    broken[-1] ^= 1
    with pytest.raises(CorruptBatch, match="the batch at offset 0 has a wrong checksum"):
        values(bytes(broken), 0, [], committed=False)
