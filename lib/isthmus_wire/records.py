"""Record batches of magic 2: the header as a view, checksums, and, for the few who must open one, the records inside.

Layout of the 61 bytes before the records: base offset, length of what follows it, partition leader epoch, magic, CRC-32C of
everything after it, attributes, last offset delta, base and max timestamp, producer id and epoch, base sequence, record count. A broker
sets the base offset and the leader epoch without touching the checksum.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

from isthmus_wire.compression import DECOMPRESSED_MAX, Bytes, compress, decompress
from isthmus_wire.errors import CorruptBatch
from isthmus_wire.varints import read_varint, write_varint

HEADER_SIZE: Final = 61
RECORD_SIZE_MIN: Final = 7
"""Bytes of a record without key, value and headers, with its length."""
LENGTH_END: Final = 12
"""Base offset and length: the part that the batch's own length does not count."""
RECORD_OVERHEAD_MAX: Final = 32
"""Upper bound on the bytes of a record without headers, apart from its key and value."""
MAGIC: Final = 2
COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40
NO_PRODUCER: Final = -1
NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1
FOREIGN_BITS: Final = TRANSACTIONAL_BIT | DELETE_HORIZON_BIT
"""Attributes that a batch does not keep in another log."""

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CHECKED: Final = struct.Struct(">hiqqqhii")  # the header's part that the checksum covers
_PREFIX: Final = struct.Struct(">qiibI")
_CRC_AT: Final = 17
_CHECKED_FROM: Final = 21
_OFFSET: Final = struct.Struct(">q")
_EPOCH: Final = struct.Struct(">i")
_EPOCH_AT: Final = 12
_ATTRIBUTES_AT: Final = 21
_MAX_TIMESTAMP_AT: Final = 35
_PRODUCER: Final = struct.Struct(">qhi")  # id, epoch and first sequence
_PRODUCER_AT: Final = 43


class BatchHeader(NamedTuple):
    """The fixed fields of a batch."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        """Offset of the last record the batch had when it was written."""
        return self.base_offset + self.last_offset_delta

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + LENGTH_END

    @property
    def compression(self) -> int:
        """The codec's number."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_control(self) -> bool:
        """Whether it holds a marker instead of data."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def is_transactional(self) -> bool:
        """Whether it belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def uses_append_time(self) -> bool:
        """Whether the broker's clock set its timestamps."""
        return bool(self.attributes & TIMESTAMP_TYPE_BIT)

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; sequences wrap after 2^31 - 1."""
        return next_sequence(self.base_sequence, self.last_offset_delta)


class Record(NamedTuple):
    """One record, opened."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class KeptRecord(NamedTuple):
    """A record that compaction moves: its offset, timestamp, key and value, and the bytes from the key on."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    tail: bytes


class NewRecord(NamedTuple):
    """A record to be written; a negative timestamp means none."""

    key: bytes | None
    value: bytes | None
    timestamp: int = NO_TIMESTAMP
    headers: Sequence[tuple[str, bytes | None]] = ()


def next_sequence(sequence: int, step: int) -> int:
    """`step` sequence numbers on, wrapping to 0 after 2^31 - 1."""
    return (sequence + step) & 0x7FFFFFFF


def header_at(data: Bytes, position: int = 0) -> BatchHeader:
    """The header at `position`; the caller knows that 61 bytes are there."""
    return BatchHeader._make(_HEADER.unpack_from(data, position))


def checksum_matches(data: Bytes, header: BatchHeader, position: int = 0) -> bool:
    """Whether the checksum of the batch at `position` is correct."""
    checked = memoryview(data)[position + _CHECKED_FROM : position + header.size]
    return crc32c(checked) == header.crc


def batches(data: Bytes) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every whole batch; a torn one at the end is left out, as in a fetch response."""
    position, end = 0, len(data)
    while position + HEADER_SIZE <= end:
        header = header_at(data, position)
        if header.length < HEADER_SIZE - LENGTH_END:
            raise CorruptBatch(f"a batch at byte {position} claims a length of {header.length}")
        if position + header.size > end:
            return
        yield position, header
        position += header.size


def set_base_offset(batch: bytearray | memoryview, base_offset: int, leader_epoch: int, position: int = 0) -> None:
    """What a leader writes into a batch it accepts; the checksum does not cover it."""
    _OFFSET.pack_into(batch, position, base_offset)
    _EPOCH.pack_into(batch, position + _EPOCH_AT, leader_epoch)


def stamp_append_time(batch: bytearray | memoryview, header: BatchHeader, now_ms: int, position: int = 0) -> None:
    """Make `now_ms` every record's timestamp: attribute bit, max timestamp, new checksum."""
    struct.pack_into(">h", batch, position + _ATTRIBUTES_AT, header.attributes | TIMESTAMP_TYPE_BIT)
    _OFFSET.pack_into(batch, position + _MAX_TIMESTAMP_AT, now_ms)
    checked = memoryview(batch)[position + _CHECKED_FROM : position + header.size]
    struct.pack_into(">I", batch, position + _CRC_AT, crc32c(checked))


def readdress(
    batch: bytearray | memoryview,
    *,
    base_offset: int = 0,
    attributes: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
) -> int:
    """Make a batch of another log one of this producer, records unchanged; returns its checksum."""
    struct.pack_into(">h", batch, _ATTRIBUTES_AT, attributes)
    _PRODUCER.pack_into(batch, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    crc = crc32c(memoryview(batch)[_CHECKED_FROM:])
    set_base_offset(batch, base_offset, NO_LEADER_EPOCH)
    struct.pack_into(">I", batch, _CRC_AT, crc)
    return crc


def body_of(batch: Bytes, header: BatchHeader, position: int = 0, limit: int = DECOMPRESSED_MAX) -> memoryview:
    """The records of the batch at `position`, decompressed; raises UnknownCompression."""
    view = memoryview(batch)[position + HEADER_SIZE : position + header.size]
    return memoryview(decompress(header.compression, view, limit))


def framed_records(body: memoryview, count: int) -> Iterator[memoryview]:
    """Each record's bytes after its length; raises CorruptBatch where there are not exactly `count` records."""
    at = 0
    for _ in range(count):
        length, at = read_varint(body, at)
        if length < 0 or at + length > len(body):
            raise CorruptBatch(f"a record claims {length} bytes with {len(body) - at} left")
        yield body[at : at + length]
        at += length
    if at != len(body):
        raise CorruptBatch(f"{len(body) - at} bytes after the last of {count} records")


def recompressed(
    batch: Bytes, header: BatchHeader, body: memoryview, codec: int, level: int | None = None
) -> bytearray:
    """The same records, whose decompressed body is given, under another codec."""
    packed = bytes(compress(codec, body, level))
    out = bytearray(batch[:HEADER_SIZE]) + packed
    struct.pack_into(">i", out, LENGTH_END - 4, len(out) - LENGTH_END)
    struct.pack_into(">h", out, _ATTRIBUTES_AT, header.attributes & ~COMPRESSION_MASK | codec)
    struct.pack_into(">I", out, _CRC_AT, crc32c(memoryview(out)[_CHECKED_FROM:]))
    return out


def build_batch(
    records: Iterable[NewRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    compression: int = 0,
    attributes: int = 0,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """One batch of the records, which get consecutive offsets."""
    items = list(records)
    if not items:
        raise ValueError("a batch needs a record")
    base_timestamp = items[0].timestamp
    body = bytearray()
    for delta, record in enumerate(items):
        _write_record(body, delta, record, base_timestamp)
    checked = _CHECKED.pack(
        attributes | compression,
        len(items) - 1,
        base_timestamp,
        max(record.timestamp for record in items),
        producer_id,
        producer_epoch,
        base_sequence,
        len(items),
    ) + bytes(compress(compression, bytes(body)))
    length = _CHECKED_FROM - LENGTH_END + len(checked)
    return _PREFIX.pack(base_offset, length, leader_epoch, MAGIC, crc32c(checked)) + checked


def _write_record(out: bytearray, delta: int, record: NewRecord, base_timestamp: int) -> None:
    body = bytearray(1)  # attributes, unused
    write_varint(body, record.timestamp - base_timestamp)
    write_varint(body, delta)
    _write_value(body, record.key)
    _write_value(body, record.value)
    write_varint(body, len(record.headers))
    for name, value in record.headers:
        _write_value(body, name.encode())
        _write_value(body, value)
    write_varint(out, len(body))
    out += body


def _write_value(out: bytearray, value: bytes | None) -> None:
    if value is None:
        write_varint(out, -1)
    else:
        write_varint(out, len(value))
        out += value


def iterate_records(batch: Bytes, position: int = 0, limit: int = DECOMPRESSED_MAX) -> Iterator[Record]:
    """The records of the batch at `position`; raises CorruptBatch at the first that does not parse, TooLarge beyond the limit."""
    header = header_at(batch, position)
    for record in framed_records(body_of(batch, header, position, limit), header.record_count):
        yield _read_record(record, header)


def keyless_records(body: memoryview, header: BatchHeader) -> list[int]:
    """The positions in the batch of the records without a key; raises CorruptBatch where a record does not parse."""
    records = framed_records(body, header.record_count)
    return [number for number, record in enumerate(records) if _read_record(record, header).key is None]


def records_to_keep(batch: Bytes, position: int = 0) -> Iterator[KeptRecord]:
    """The records as compaction wants them: key and value to decide, and everything from the key on as it was written."""
    header = header_at(batch, position)
    for record in framed_records(body_of(batch, header, position), header.record_count):
        timestamp_delta, begin = read_varint(record, 1)
        offset_delta, begin = read_varint(record, begin)
        key, end = _read_value(record, begin)
        value, _ = _read_value(record, end)
        tail = bytes(record[begin:])
        yield KeptRecord(header.base_offset + offset_delta, header.base_timestamp + timestamp_delta, key, value, tail)


def rebuild_batch(header: BatchHeader, records: Sequence[KeptRecord], delete_horizon: int | None) -> bytes:
    """The batch with only these records, at their offsets; one without records keeps its offsets, sequence and max timestamp."""
    attributes = header.attributes & ~DELETE_HORIZON_BIT
    base_timestamp, max_timestamp = header.base_timestamp, header.max_timestamp
    if not records:
        attributes &= ~COMPRESSION_MASK
        base_timestamp = NO_TIMESTAMP
    elif delete_horizon is not None:
        attributes |= DELETE_HORIZON_BIT
        base_timestamp = delete_horizon
    if records and not header.uses_append_time:
        max_timestamp = max(record.timestamp for record in records)
    body = bytearray()
    for record in records:
        fields = bytearray(1)
        write_varint(fields, record.timestamp - base_timestamp)
        write_varint(fields, record.offset - header.base_offset)
        fields += record.tail
        write_varint(body, len(fields))
        body += fields
    checked = _CHECKED.pack(
        attributes,
        header.last_offset_delta,
        base_timestamp,
        max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        len(records),
    ) + (bytes(compress(header.compression, bytes(body))) if records else b"")
    length = _CHECKED_FROM - LENGTH_END + len(checked)
    return _PREFIX.pack(header.base_offset, length, header.leader_epoch, MAGIC, crc32c(checked)) + checked


def _read_record(body: memoryview, header: BatchHeader) -> Record:
    timestamp_delta, at = read_varint(body, 1)
    offset_delta, at = read_varint(body, at)
    key, at = _read_value(body, at)
    value, at = _read_value(body, at)
    count, at = read_varint(body, at)
    if count < 0 or count > len(body):
        raise CorruptBatch(f"a record claims {count} headers")
    headers = []
    for _ in range(count):
        name, at = _read_value(body, at)
        header_value, at = _read_value(body, at)
        if name is None:
            raise CorruptBatch("a record header without a name")
        headers.append((name.decode("utf-8", "replace"), header_value))
    if at != len(body):
        raise CorruptBatch(f"{len(body) - at} bytes after the end of a record")
    timestamp = header.max_timestamp if header.uses_append_time else header.base_timestamp + timestamp_delta
    return Record(header.base_offset + offset_delta, timestamp, key, value, tuple(headers))


def _read_value(body: memoryview, at: int) -> tuple[bytes | None, int]:
    size, at = read_varint(body, at)
    if size == -1:
        return None, at
    if size < 0 or at + size > len(body):
        raise CorruptBatch(f"a field of a record claims {size} bytes with {len(body) - at} left")
    return bytes(body[at : at + size]), at + size


def build_control_batch(
    kind: int,
    value: bytes,
    *,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
) -> bytes:
    """A batch with one control record: a transaction marker, or what the metadata log says about its own quorum."""
    transactional = TRANSACTIONAL_BIT if producer_id != NO_PRODUCER else 0
    return build_batch(
        [NewRecord(control_key(kind), value, timestamp)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=CONTROL_BIT | transactional,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def control_key(kind: int) -> bytes:
    """The key of a control record: version 0 and its kind."""
    return struct.pack(">hh", 0, kind)
