"""Decode fetched batches into the records that a consumer may read. Pure.

Read-committed skips records of aborted transactions: the broker lists these with their first offsets; a marker in the log ends each.
"""

from collections.abc import Iterator, Sequence

from isthmus_wire.compression import Bytes
from isthmus_wire.errors import CorruptBatch
from isthmus_wire.records import BatchHeader, Record, batches, checksum_matches, iterate_records

_ABORT = b"\0\0"  # the type in a marker's key


def visible_records(
    data: Bytes, start: int, aborted: Sequence[tuple[int, int]], *, read_committed: bool
) -> Iterator[tuple[Record | None, int]]:
    """Each visible record from offset `start` on, with the offset after it; None if only the position advances.

    Raises CorruptBatch.
    """
    coming = sorted(aborted, key=lambda one: one[1], reverse=True)
    hidden: set[int] = set()
    for position, header in batches(data):
        if not checksum_matches(data, header, position):
            raise CorruptBatch(f"the batch at offset {header.base_offset} has a wrong checksum")
        while coming and coming[-1][1] <= header.last_offset:
            hidden.add(coming.pop()[0])
        end = header.last_offset + 1
        if header.is_control:
            if _is_abort(data, position):
                hidden.discard(header.producer_id)
        elif not (read_committed and header.is_transactional and header.producer_id in hidden):
            yield from _records(data, position, header, start)
        if end > start:
            yield None, end


def _records(data: Bytes, position: int, header: BatchHeader, start: int) -> Iterator[tuple[Record | None, int]]:
    for record in iterate_records(data, position):
        if record.offset >= start:
            yield record, record.offset + 1


def _is_abort(data: Bytes, position: int) -> bool:
    return any(record.key is not None and record.key[2:4] == _ABORT for record in iterate_records(data, position))
