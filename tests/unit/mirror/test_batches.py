"""Conversion of the source's batches: new headers, unchanged records, decoded only if necessary."""

import pytest
from isthmus_mirror.core.batches import Piece, Skipped, addressed, pieces
from isthmus_mirror.core.offset_map import Run
from isthmus_wire.compression import Compression
from isthmus_wire.errors import CorruptBatch
from isthmus_wire.records import (
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    NewRecord,
    build_batch,
    build_control_batch,
    checksum_matches,
    header_at,
    iterate_records,
    rebuild_batch,
    records_to_keep,
)

RECORDS = [NewRecord(b"k%d" % i, b"v%d" % i, 1_000 + i, (("h", b"x"),)) for i in range(4)]
NOW = 5_000


def converted(
    data: bytes, start: int = 0, aborted: tuple[tuple[int, int], ...] = (), committed: bool = False
) -> list[object]:
    return list(pieces(memoryview(data), start, aborted, NOW, read_committed=committed))


def only(data: bytes, start: int = 0) -> Piece:
    (piece,) = (one for one in converted(data, start) if isinstance(one, Piece))
    return piece


@pytest.mark.parametrize("codec", list(Compression))
def test_records_stay_unchanged(codec: int) -> None:
    data = build_batch(
        RECORDS, base_offset=70, leader_epoch=3, compression=codec, attributes=TRANSACTIONAL_BIT,
        producer_id=9, producer_epoch=2, base_sequence=44,
    )  # fmt: skip
    piece = only(data)
    assert (piece.runs, piece.next) == ((Run(70, 0),), 74)
    batch, crc = addressed(piece, 1 << 62, 2**31 + 5)
    header = header_at(batch)
    assert checksum_matches(batch, header)
    assert (header.crc, header.base_offset, header.producer_id, header.producer_epoch) == (crc, 0, 1 << 62, 0)
    assert (header.base_sequence, header.is_transactional, header.compression) == (5, False, codec)
    assert (header.base_timestamp, header.max_timestamp) == (1_000, 1_003)
    assert bytes(batch[HEADER_SIZE:]) == data[HEADER_SIZE:]


def test_a_batch_with_gaps_is_rebuilt_and_has_its_runs() -> None:
    data = build_batch(RECORDS, base_offset=10, compression=Compression.GZIP)
    kept = [record for record in records_to_keep(data) if record.offset != 11]
    gapped = rebuild_batch(header_at(data), kept, None)
    piece = only(gapped)
    assert (piece.runs, piece.next, piece.header.record_count) == ((Run(10, 0), Run(12, 1)), 14, 3)
    records = list(iterate_records(addressed(piece, 1, 0)[0]))
    assert [(r.offset, r.timestamp, r.value, r.headers) for r in records] == [
        (0, 1_000, b"v0", (("h", b"x"),)), (1, 1_002, b"v2", (("h", b"x"),)), (2, 1_003, b"v3", (("h", b"x"),)),
    ]  # fmt: skip
    assert only(data, 12).runs == (Run(12, 0),)


def test_timestamps_are_kept_and_missing_ones_set() -> None:
    data = bytearray(build_batch(RECORDS, attributes=TIMESTAMP_TYPE_BIT))
    assert {r.timestamp for r in iterate_records(only(bytes(data)).batch)} == {1_003}
    untimed = build_batch([NewRecord(None, b"v", -1)])
    assert [r.timestamp for r in iterate_records(only(untimed).batch)] == [NOW]


def test_the_delete_horizon_flag_is_removed() -> None:
    data = build_batch(RECORDS)
    horizon = rebuild_batch(header_at(data), list(records_to_keep(data)), 7_777)
    assert header_at(horizon).attributes & DELETE_HORIZON_BIT
    batch, _ = addressed(only(horizon), 1, 0)
    assert header_at(batch).attributes == 0
    assert [r.timestamp for r in iterate_records(batch)] == [1_000, 1_001, 1_002, 1_003]


def test_markers_and_aborted_batches() -> None:
    def of(producer: int, base: int) -> bytes:
        return build_batch(
            RECORDS[:2],
            base_offset=base,
            attributes=TRANSACTIONAL_BIT,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
        )

    def marker(producer: int, base: int, kind: int) -> bytes:
        return build_control_batch(
            kind, bytes(6), timestamp=1, base_offset=base, producer_id=producer, producer_epoch=0
        )

    data = of(1, 0) + of(2, 2) + marker(1, 4, 0) + of(1, 5) + marker(2, 7, 1)
    everything = [one.runs[0].upstream for one in converted(data) if isinstance(one, Piece)]
    committed = [one.runs[0].upstream for one in converted(data, 0, ((1, 0),), True) if isinstance(one, Piece)]
    assert (everything, committed) == ([0, 2, 5], [2, 5])
    assert converted(data)[-1] == Skipped(8, -1, 2)


def test_a_damaged_batch_is_not_given_a_new_checksum() -> None:
    data = bytearray(build_batch(RECORDS))
    data[-1] ^= 1
    with pytest.raises(CorruptBatch):
        converted(bytes(data))
