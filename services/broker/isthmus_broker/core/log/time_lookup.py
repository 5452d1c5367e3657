"""Finding a record by its timestamp within a batch."""

from typing import NamedTuple

from isthmus_wire.compression import Bytes
from isthmus_wire.errors import CorruptBatch
from isthmus_wire.records import BatchHeader, iterate_records

from isthmus_broker.core.log.append_check import OPENED_FACTOR


class TimestampOffset(NamedTuple):
    """A record's timestamp and offset, and the leader epoch of its batch."""

    timestamp: int
    offset: int
    leader_epoch: int


def first_at(
    batch: Bytes, header: BatchHeader, timestamp: int, from_offset: int, max_message_bytes: int
) -> TimestampOffset | None:
    """The first record at or after `from_offset` that is not earlier than `timestamp`.

    Records that cannot be read, or that decompress to too much, count as one at the start of the batch with its max timestamp: a batch that
    one client wrote must not fail the lookups of the others.
    """
    limit = OPENED_FACTOR * max(max_message_bytes, header.size)
    try:
        for record in iterate_records(batch, limit=limit):
            if record.timestamp >= timestamp and record.offset >= from_offset:
                return TimestampOffset(record.timestamp, record.offset, header.leader_epoch)
    except CorruptBatch:
        return TimestampOffset(header.max_timestamp, max(header.base_offset, from_offset), header.leader_epoch)
    return None
