"""Convert batches of the source to batches that the target accepts from a producer.

Only the header is rewritten: the offset, the producer and the sequence, without transactional flags, since the target has no transaction.
Records stay unchanged, compressed or not. A batch is decoded only if necessary: compaction removed records from its middle, the copy begins
within it, it has log append time, or its records have no timestamp. Such records get the time at which they were read, as with MirrorMaker,
since the target's responses identify a batch by its timestamp.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from isthmus_wire.aborted import AbortedTransactions
from isthmus_wire.errors import CorruptBatch
from isthmus_wire.records import (
    DELETE_HORIZON_BIT,
    FOREIGN_BITS,
    MAGIC,
    NO_PRODUCER,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    KeptRecord,
    batches,
    checksum_matches,
    readdress,
    rebuild_batch,
    records_to_keep,
)

from isthmus_mirror.core.limits import SEGMENTS_MAX
from isthmus_mirror.core.offset_map import Run

_SEQUENCE_MASK: Final = 0x7FFFFFFF


class Piece(NamedTuple):
    """Records of the source that form one batch of the copy; `runs` are their source offsets."""

    batch: memoryview
    header: BatchHeader
    runs: tuple[Run, ...]
    """Their offsets in the copy count from 0."""
    next: int
    """The source offset after its last record."""


class Skipped(NamedTuple):
    """Nothing more to copy up to this offset, which follows a batch of this epoch."""

    next: int
    epoch: int
    marker_of: int = NO_PRODUCER
    """The producer whose transaction a marker has ended."""


class Unusable(NamedTuple):
    """Why nothing from here on can be copied."""

    reason: str


def pieces(
    data: memoryview, start: int, aborted: Sequence[tuple[int, int]], at_ms: int, *, read_committed: bool
) -> Iterator[Piece | Skipped | Unusable]:
    """The batches of a fetch from offset `start`; omits an incomplete batch at the end. Raises CorruptBatch."""
    transactions = AbortedTransactions(aborted if read_committed else ())
    for position, header in batches(data):
        if header.magic != MAGIC:
            yield Unusable(
                f"the batch at offset {header.base_offset} has message format {header.magic}; only format 2 can be copied"
            )
            return
        if not checksum_matches(data, header, position):
            raise CorruptBatch(f"the batch at offset {header.base_offset} has a wrong checksum")
        following = header.last_offset + 1
        if not transactions.hides(data, header, position) and following > start:
            yield from _kept(data[position : position + header.size], header, start, at_ms)
        if following > start:
            marker_of = header.producer_id if header.is_control else NO_PRODUCER
            yield Skipped(following, header.leader_epoch, marker_of)


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
    """Split records into parts with at most the gaps that one progress record can have."""
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
    """Rebuild one batch of these records, without gaps."""
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
        attributes=header.attributes & ~(TIMESTAMP_TYPE_BIT | DELETE_HORIZON_BIT),
    )
    data = memoryview(bytearray(rebuild_batch(fresh, closed, None)))
    runs = [
        Run(record.offset, index)
        for index, record in enumerate(records)
        if index == 0 or record.offset != records[index - 1].offset + 1
    ]
    return Piece(data, next(batches(data))[1], tuple(runs), records[-1].offset + 1)


def addressed(piece: Piece, producer_id: int, base: int) -> tuple[memoryview, int]:
    """The batch for the target's offset `base`, and its checksum. Modified in place if it is writable.

    The sequence is derived from the offset, so the target accepts the batch only there, from any sender.
    """
    header = piece.header
    batch = memoryview(bytearray(piece.batch)) if piece.batch.readonly else piece.batch
    crc = readdress(
        batch,
        attributes=header.attributes & ~FOREIGN_BITS,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence_of(base),
    )
    return batch, crc


def sequence_of(offset: int) -> int:
    """The sequence of the record at this offset of the copy."""
    return offset & _SEQUENCE_MASK
