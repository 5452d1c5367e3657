"""Decode fetched batches into the records that a consumer may read. Pure.

Control batches are never returned, and with `read_committed` aborted transactions neither.
"""

from collections.abc import Iterator, Sequence

from isthmus_wire.aborted import AbortedTransactions
from isthmus_wire.compression import Bytes
from isthmus_wire.errors import CorruptBatch
from isthmus_wire.records import BatchHeader, Record, batches, checksum_matches, iterate_records


def visible_records(
    data: Bytes, start: int, aborted: Sequence[tuple[int, int]], *, read_committed: bool
) -> Iterator[tuple[Record | None, int]]:
    """Each visible record from offset `start` on, with the offset after it; None if only the position advances.

    Raises CorruptBatch.
    """
    transactions = AbortedTransactions(aborted if read_committed else ())
    for position, header in batches(data):
        if not checksum_matches(data, header, position):
            raise CorruptBatch(f"the batch at offset {header.base_offset} has a wrong checksum")
        end = header.last_offset + 1
        if not transactions.hides(data, header, position):
            yield from _records(data, position, header, start)
        if end > start:
            yield None, end


def _records(data: Bytes, position: int, header: BatchHeader, start: int) -> Iterator[tuple[Record | None, int]]:
    for record in iterate_records(data, position):
        if record.offset >= start:
            yield record, record.offset + 1
