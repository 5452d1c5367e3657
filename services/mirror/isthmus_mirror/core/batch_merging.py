"""Merge small batches into one for brokers that accept one batch at a time, so that partitions with small batches do not fall behind.

Keys, values and headers are copied unchanged; offset and timestamp deltas are rewritten relative to the first batch. Compressed batches are
decompressed for it.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from crc32c import crc32c
from isthmus_wire.compression import compress, decompress
from isthmus_wire.records import (
    COMPRESSION_MASK,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    NO_LEADER_EPOCH,
    BatchHeader,
    header_at,
)
from isthmus_wire.varints import read_varint, write_varint

from isthmus_mirror.core.limits import JOIN_BELOW_BYTES, JOINED_BYTES_MAX, JOINED_RECORDS_MAX

_CHECKED: Final = struct.Struct(">hiqqqhii")
_PREFIX: Final = struct.Struct(">qiibI")
_CHECKED_FROM: Final = 21
_ATTRIBUTES_LOW_AT: Final = 22


class Waiting(Protocol):
    """A batch that waits to be sent."""

    @property
    def data(self) -> memoryview: ...

    @property
    def count(self) -> int: ...


B = TypeVar("B", bound=Waiting)


class Joined(NamedTuple):
    """A merged batch, with its checksum and greatest timestamp."""

    data: memoryview
    crc: int
    max_timestamp: int


def joinable(waiting: Iterable[B]) -> list[B]:
    """The batches at the front that may become one: small, of one codec, and together not too large."""
    few: list[B] = []
    size = count = 0
    for batch in waiting:
        size, count = size + len(batch.data), count + batch.count
        fits = size <= JOINED_BYTES_MAX and count <= JOINED_RECORDS_MAX
        is_like = not few or _codec_of(batch.data) == _codec_of(few[0].data)
        if len(batch.data) > JOIN_BELOW_BYTES or not fits or not is_like:
            break
        few.append(batch)
    return few


def _codec_of(batch: memoryview) -> int:
    return batch[_ATTRIBUTES_LOW_AT] & COMPRESSION_MASK


def join(batches: Sequence[memoryview]) -> Joined:
    """Merge consecutive batches of one producer and one codec.

    Raises CorruptBatch if records do not parse.
    """
    first = header_at(batches[0])
    body = bytearray()
    count, newest = 0, first.max_timestamp
    for batch in batches:
        header = header_at(batch)
        _append_records(body, batch, header, header.base_timestamp - first.base_timestamp, count)
        count += header.record_count
        newest = max(newest, header.max_timestamp)
    checked = _CHECKED.pack(
        first.attributes,
        count - 1,
        first.base_timestamp,
        newest,
        first.producer_id,
        first.producer_epoch,
        first.base_sequence,
        count,
    )
    records = compress(first.compression, bytes(body)) if first.compression else body
    crc = crc32c(records, crc32c(checked))
    length = HEADER_SIZE - LENGTH_END + len(records)
    data = bytearray(_PREFIX.pack(0, length, NO_LEADER_EPOCH, MAGIC, crc) + checked)
    data += records
    return Joined(memoryview(data), crc, newest)


def _append_records(out: bytearray, batch: memoryview, header: BatchHeader, later: int, behind: int) -> None:
    """Append the batch's records with `later` added to their timestamp deltas and `behind` to their offset deltas."""
    body = batch[HEADER_SIZE:]
    if header.compression:
        body = memoryview(decompress(header.compression, body))
    at = 0
    for _ in range(header.record_count):
        length, begin = read_varint(body, at)
        at = begin + length
        timestamp_delta, place = read_varint(body, begin + 1)
        offset_delta, rest = read_varint(body, place)
        fields = bytearray(body[begin : begin + 1])  # attributes
        write_varint(fields, timestamp_delta + later)
        write_varint(fields, offset_delta + behind)
        write_varint(out, len(fields) + at - rest)
        out += fields
        out += body[rest:at]
