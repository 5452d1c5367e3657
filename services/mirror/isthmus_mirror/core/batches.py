"""From batches of the source to batches that the target takes from a producer.

Only the header is written anew: the offset it asks for, the producer, the sequence, and no sign of a transaction, for the target has none.
Records stay as they are, compressed or not. A batch is opened only where the protocol leaves no other way: compaction has taken records
out of its middle, the copy begins within it, its broker's clock gave it the time of its records, or they have none: such records get the
time at which they were read, as from MirrorMaker, for by its time an answer of the target tells our batch from another's.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from crc32c import crc32c
from isthmus_wire.errors import CorruptBatch
from isthmus_wire.records import (
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    KeptRecord,
    batches,
    checksum_matches,
    iterate_records,
    rebuild_batch,
    records_to_keep,
)

from isthmus_mirror.core.limits import SEGMENTS_MAX
from isthmus_mirror.core.offset_map import Run

_ABORT: Final = b"\0\0"  # the kind in a marker's key
_FOREIGN_BITS: Final = TRANSACTIONAL_BIT | DELETE_HORIZON_BIT
_CHECKED: Final = struct.Struct(">hiqqqhii")
_PREFIX: Final = struct.Struct(">qiibI")
_CHECKED_FROM: Final = 21
_SEQUENCE_MASK: Final = 0x7FFFFFFF
_NO_LEADER_EPOCH: Final = -1


class Piece(NamedTuple):
    """Records of the source that are one batch of the copy; `runs` are the offsets that they had."""

    batch: memoryview
    header: BatchHeader
    runs: tuple[Run, ...]
    """With offsets of the copy that count from 0."""
    next: int
    """The source's offset behind its last record."""


class Skipped(NamedTuple):
    """Nothing more to copy up to this offset, behind a batch of this epoch."""

    next: int
    epoch: int


class Unusable(NamedTuple):
    """Why nothing from here on can be copied."""

    reason: str


def pieces(
    data: memoryview, start: int, aborted: Sequence[tuple[int, int]], at_ms: int, *, read_committed: bool
) -> Iterator[Piece | Skipped | Unusable]:
    """What a fetch from offset `start` on brought; a torn batch at its end is left out. Raises CorruptBatch."""
    coming = sorted(aborted, key=lambda one: one[1], reverse=True)
    hidden: set[int] = set()
    for position, header in batches(data):
        if header.magic != MAGIC:
            yield Unusable(
                f"the batch at offset {header.base_offset} is of format {header.magic}, and only 2 can be copied"
            )
            return
        if not checksum_matches(data, header, position):
            raise CorruptBatch(f"the batch at offset {header.base_offset} has a wrong checksum")
        while coming and coming[-1][1] <= header.last_offset:
            hidden.add(coming.pop()[0])
        following = header.last_offset + 1
        if header.is_control:
            if _is_abort(data, position):
                hidden.discard(header.producer_id)
        elif following > start and not (read_committed and header.is_transactional and header.producer_id in hidden):
            yield from _kept(data[position : position + header.size], header, start, at_ms)
        if following > start:
            yield Skipped(following, header.leader_epoch)


def _is_abort(data: memoryview, position: int) -> bool:
    return any(record.key is not None and record.key[2:4] == _ABORT for record in iterate_records(data, position))


def _kept(batch: memoryview, header: BatchHeader, start: int, at_ms: int) -> Iterator[Piece]:
    if header.record_count == 0:
        return
    whole = header.base_offset >= start and header.record_count == header.last_offset_delta + 1
    if whole and header.max_timestamp >= 0 and not header.uses_append_time:
        yield Piece(batch, header, (Run(header.base_offset, 0),), header.last_offset + 1)
        return
    records = [record for record in records_to_keep(batch) if record.offset >= start]
    for part in _parts(records):
        yield _rebuilt(header, part, at_ms)


def _parts(records: Sequence[KeptRecord]) -> Iterator[list[KeptRecord]]:
    """Together what has no more gaps than one record of progress may tell."""
    part: list[KeptRecord] = []
    runs = 0
    for record in records:
        if not part or record.offset != part[-1].offset + 1:
            runs += 1
            if runs > SEGMENTS_MAX:
                yield part
                part, runs = [], 1
        part.append(record)
    if part:
        yield part


def _rebuilt(header: BatchHeader, records: Sequence[KeptRecord], at_ms: int) -> Piece:
    """One batch of these records, without gaps."""
    untimed = max(record.timestamp for record in records) < 0
    closed = [
        record._replace(
            offset=index,
            timestamp=header.max_timestamp if header.uses_append_time else at_ms if untimed else record.timestamp,
        )
        for index, record in enumerate(records)
    ]
    fresh = header._replace(
        base_offset=0,
        last_offset_delta=len(records) - 1,
        base_timestamp=closed[0].timestamp,
        attributes=header.attributes & ~(TIMESTAMP_TYPE_BIT | _FOREIGN_BITS),
    )
    data = memoryview(bytearray(rebuild_batch(fresh, closed, None)))
    runs = [
        Run(record.offset, index)
        for index, record in enumerate(records)
        if index == 0 or record.offset != records[index - 1].offset + 1
    ]
    return Piece(data, next(batches(data))[1], tuple(runs), records[-1].offset + 1)


def addressed(piece: Piece, producer_id: int, base: int) -> tuple[memoryview, int]:
    """The batch as the target takes it for its offset `base`, and its checksum. It is written where it lies, if that can be written.

    The sequence says where the batch belongs, so the target takes it nowhere else, whoever sends it.
    """
    header = piece.header
    batch = memoryview(bytearray(piece.batch)) if piece.batch.readonly else piece.batch
    checked = _CHECKED.pack(
        header.attributes & ~_FOREIGN_BITS,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        producer_id,
        0,
        sequence_of(base),
        header.record_count,
    )
    crc = crc32c(batch[HEADER_SIZE:], crc32c(checked))
    _PREFIX.pack_into(batch, 0, 0, header.length, _NO_LEADER_EPOCH, MAGIC, crc)
    batch[_CHECKED_FROM:HEADER_SIZE] = checked
    return batch, crc


def sequence_of(offset: int) -> int:
    """The sequence of the record that has this offset in the copy."""
    return offset & _SEQUENCE_MASK
