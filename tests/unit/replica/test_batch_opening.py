"""Opening a batch: what is refused, what it may cost, and which batches are never opened."""

import struct
import tracemalloc

import pytest
from crc32c import crc32c
from isthmus_broker.core.log.append_check import OPENED_FACTOR, append_rules, check_batch, is_quick
from isthmus_broker.core.log.batch_opening import ACCEPTED, must_open, open_batch
from isthmus_model.clocks import WallMs
from isthmus_wire.compression import Compression
from isthmus_wire.errors import ErrorCode
from isthmus_wire.records import NewRecord, build_batch, header_at, iterate_records

from tests.edge.storage.logs import config as topic_config

NOW = WallMs(1_700_000_000_000)
MAX = 100_000


def batch(*values: bytes, key: bytes | None = b"k", compression: int = 0) -> bytes:
    return build_batch([NewRecord(key, value, NOW) for value in values], compression=compression)


def claiming(data: bytes, count: int) -> bytes:
    """A batch that claims this many records."""
    out = bytearray(data)
    struct.pack_into(">i", out, 23, count - 1)
    struct.pack_into(">i", out, 57, count)
    struct.pack_into(">I", out, 17, crc32c(bytes(out[21:])))
    return bytes(out)


@pytest.mark.parametrize("compression", list(Compression))
def test_a_batch_cannot_claim_more_records_than_fit_into_it(compression: Compression) -> None:
    rules = append_rules(topic_config(max_message_bytes=MAX))
    good = batch(b"a", b"b", compression=compression)
    assert check_batch(good, header_at(good), rules, NOW) is None
    for count in (2**31 - 1, OPENED_FACTOR * MAX // 7 + 1):
        wrong = claiming(good, count)
        refusal = check_batch(wrong, header_at(wrong), rules, NOW)
        assert refusal is not None
        assert refusal.error is ErrorCode.invalid_record


def test_the_smallest_records_fit() -> None:
    rules = append_rules(topic_config(max_message_bytes=MAX))
    data = build_batch([NewRecord(None, None, NOW)] * 500)
    assert check_batch(data, header_at(data), rules, NOW) is None


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_a_batch_that_decompresses_to_too_much_is_refused_and_costs_no_more_than_the_limit(
    compression: Compression,
) -> None:
    rules = append_rules(topic_config(cleanup_policy=("compact",), max_message_bytes=MAX))
    bomb = batch(bytes(OPENED_FACTOR * MAX * 20), compression=compression)
    tracemalloc.start()
    try:
        opened = open_batch(bomb, header_at(bomb), rules, "t", 0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert opened.refusal is not None
    assert opened.refusal.error is ErrorCode.message_too_large
    assert peak < 4 * OPENED_FACTOR * MAX


def test_a_refusal_for_its_timestamps_does_not_open_a_large_batch() -> None:
    rules = append_rules(topic_config(max_message_bytes=MAX))
    late = WallMs(NOW - rules.timestamp_after_max_ms - 1)
    small, bomb = batch(b"a"), batch(bytes(OPENED_FACTOR * MAX * 20), compression=Compression.GZIP)
    tracemalloc.start()
    try:
        refusals = [check_batch(one, header_at(one), rules, late) for one in (small, bomb)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [None if one is None else (one.error, len(one.record_errors)) for one in refusals] == [
        (ErrorCode.invalid_timestamp, 1),
        (ErrorCode.invalid_timestamp, 0),
    ]
    assert peak < OPENED_FACTOR * MAX


def test_what_cannot_be_read_is_refused_as_kafka_does() -> None:
    compacted = append_rules(topic_config(cleanup_policy=("compact",)))
    zipped = append_rules(topic_config(compression_type="zstd"))
    false_codec = bytearray(batch(b"a"))
    struct.pack_into(">h", false_codec, 21, Compression.GZIP)
    for rules in (compacted, zipped):
        opened = open_batch(false_codec, header_at(false_codec), rules, "t", 0)
        assert opened.refusal is not None
        assert opened.refusal.error is ErrorCode.unknown_server_error
        short = claiming(batch(b"a", compression=Compression.GZIP), 2)
        opened = open_batch(short, header_at(short), rules, "t", 0)
        assert opened.refusal is not None
        assert opened.refusal.error is ErrorCode.invalid_record


def test_a_batch_is_compressed_as_the_topic_demands() -> None:
    rules = append_rules(topic_config(compression_type="lz4"))
    sent = batch(b"a", b"b", compression=Compression.ZSTD)
    assert must_open(header_at(sent), rules)
    stored = open_batch(sent, header_at(sent), rules, "t", 0).batch
    assert stored is not None
    assert header_at(stored).compression == Compression.LZ4
    assert [record.value for record in iterate_records(stored)] == [b"a", b"b"]


def test_only_small_batches_without_compression_are_opened_on_the_loop() -> None:
    rules = append_rules(topic_config(cleanup_policy=("compact",)))
    small, large, packed = batch(b"a"), batch(b"a" * 20_000), batch(b"a", compression=Compression.LZ4)
    assert [is_quick(header_at(one)) for one in (small, large, packed)] == [True, False, False]
    assert open_batch(packed, header_at(packed), rules, "t", 0) == ACCEPTED
    assert not must_open(header_at(packed), append_rules(topic_config()))
