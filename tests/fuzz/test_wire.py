"""Decoders with hostile bytes: they raise only DecodeError or CorruptBatch, and their memory is bounded by the input."""

import random
import tracemalloc
from collections.abc import Callable
from typing import Any, Final

import pytest
from isthmus_wire.apis import KAFKA_VERSIONS, ApiKey
from isthmus_wire.compression import DECOMPRESSED_MAX, Compression, compress
from isthmus_wire.errors import CorruptBatch, DecodeError, WireError
from isthmus_wire.fetch import decode_fetch_request
from isthmus_wire.headers import decode_request_header
from isthmus_wire.messages import decode_request
from isthmus_wire.produce import decode_produce_request
from isthmus_wire.records import (
    HEADER_SIZE,
    NewRecord,
    batches,
    build_batch,
    checksum_matches,
    iterate_records,
    records_to_keep,
)

from tests.fuzz.kept import entries
from tests.fuzz.mutate import damaged
from tests.fuzz.requests import drawn_request, every_version

SEED: Final = 20_430_001
ROUNDS_PER_VERSION: Final = 12
BATCH_ROUNDS: Final = 4000
MEMORY_FACTOR: Final = 1000
"""Upper bound on the bytes of objects for a byte on the wire; an array of empty structs is the worst case."""
MEMORY_FLOOR: Final = 1_000_000

_HOT: Final[dict[int, Callable[..., Any]]] = {
    ApiKey.PRODUCE: decode_produce_request,
    ApiKey.FETCH: decode_fetch_request,
}


def _decode(payload: bytes) -> None:
    """Decode a frame as a broker does."""
    header = decode_request_header(payload)
    if header.api_key not in KAFKA_VERSIONS:
        return
    lowest, highest = KAFKA_VERSIONS[ApiKey(header.api_key)]
    if not max(lowest, 3 if header.api_key == ApiKey.PRODUCE else 0) <= header.api_version <= highest:
        return
    if header.api_key in _HOT:
        _HOT[header.api_key](header.api_version, memoryview(payload), header.size)
    decode_request(header.api_key, header.api_version, payload, header.size)


def test_whole_requests_decode() -> None:
    draw = random.Random(SEED)
    batch = build_batch([NewRecord(b"k", b"v", 1)])
    for key, version in every_version():
        _decode(drawn_request(key, version, draw, batch))


@pytest.mark.parametrize("payload", entries("requests"), ids=bytes.hex)
def test_kept_requests(payload: bytes) -> None:
    try:
        _decode(payload)
    except DecodeError:
        return


def test_damaged_requests_raise_nothing_but_decode_errors() -> None:
    draw = random.Random(SEED)
    batch = build_batch([NewRecord(b"k", b"v", 1)])
    refused = 0
    for key, version in every_version():
        for number in range(ROUNDS_PER_VERSION):
            payload = damaged(drawn_request(key, version, draw, batch), draw)
            try:
                _decode(payload)
            except DecodeError:
                refused += 1
            except Exception as error:
                raise AssertionError(f"seed {SEED}, {key} v{version} number {number}: {payload.hex()}") from error
    assert refused > 500


def test_false_counts_allocate_no_memory() -> None:
    draw = random.Random(SEED)
    batch = build_batch([NewRecord(b"k", b"v", 1)])
    payloads = [*entries("requests"), *(damaged(drawn_request(*one, draw, batch), draw) for one in every_version())]
    for payload in payloads:
        tracemalloc.start()
        try:
            _decode(payload)
        except DecodeError:
            pass
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < MEMORY_FLOOR + MEMORY_FACTOR * len(payload), payload.hex()


def _open(data: bytes) -> None:
    for position, header in batches(data):
        checksum_matches(data, header, position)
        list(iterate_records(data, position))
        list(records_to_keep(data, position))


@pytest.mark.parametrize("data", entries("batches"), ids=bytes.hex)
def test_kept_batches(data: bytes) -> None:
    try:
        _open(data)
    except CorruptBatch:
        return


def test_damaged_batches_raise_nothing_but_corrupt_batch() -> None:
    draw = random.Random(SEED)
    records = [NewRecord(b"key", b"value " * 9, number, (("h", None), ("i", b"x"))) for number in range(5)]
    whole = [build_batch(records, compression=codec) for codec in Compression]
    refused = 0
    for number in range(BATCH_ROUNDS):
        data = damaged(draw.choice(whole), draw)
        try:
            _open(data)
        except CorruptBatch:
            refused += 1
        except Exception as error:
            raise AssertionError(f"seed {SEED}, number {number}: {data.hex()}") from error
    assert refused > BATCH_ROUNDS // 4


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_a_bomb_is_refused_at_the_bound(codec: Compression) -> None:
    """Zeroes beyond the bound, compressed to a thousandth of their size: refused without decompressing all of them."""
    body = bytes(compress(codec, bytes(DECOMPRESSED_MAX + 1)))
    shell = bytearray(build_batch([NewRecord(None, b"x")], compression=codec)[:HEADER_SIZE])
    shell[8:12] = (HEADER_SIZE - 12 + len(body)).to_bytes(4, "big")
    with pytest.raises(WireError, match=str(DECOMPRESSED_MAX)):
        list(iterate_records(bytes(shell) + body))
