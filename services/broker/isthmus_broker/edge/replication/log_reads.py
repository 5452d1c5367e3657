"""Reads a range of a log for a fetch: its position in a segment. The bytes are read from the file when the response is sent."""

from collections.abc import Callable
from typing import NamedTuple

from isthmus_wire.errors import ErrorCode
from isthmus_wire.fetch import FetchedPartition, FetchPartition

from isthmus_broker.core.replica.fetch_position import response
from isthmus_broker.edge.replication.file_range import FileRange
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.storage.files import DiskFailure
from isthmus_broker.edge.storage.segment_source import PendingRead, SegmentSource, Slice


class LogReader(NamedTuple):
    """Reads logs for fetches; a directory whose file cannot be read goes offline, as one that cannot be written does."""

    fail: Callable[[Partition, DiskFailure], None]

    def __call__(
        self,
        replica: Partition,
        part: FetchPartition,
        upper: int,
        room: int,
        *,
        at_least_one: bool,
        read_committed: bool,
    ) -> FetchedPartition | PendingRead:
        """The records from the fetch's offset, which is in the log, up to `upper`; or a read that is not complete yet."""
        log = replica.log
        assert log is not None
        try:
            return _read(log, part, upper, room, at_least_one=at_least_one, read_committed=read_committed)
        except DiskFailure as failure:
            self.fail(replica, failure)
            return FetchedPartition(part.partition, ErrorCode.kafka_storage_error.value)


def _read(
    log: SegmentSource, part: FetchPartition, upper: int, room: int, *, at_least_one: bool, read_committed: bool
) -> FetchedPartition | PendingRead:
    part_of_log = log.read(part.fetch_offset, min(part.max_bytes, max(room, 0)), upper, at_least_one=at_least_one)
    if not isinstance(part_of_log, Slice):
        return part_of_log
    records = (FileRange(part_of_log.segment, part_of_log.position, part_of_log.size),) if part_of_log.size else ()
    aborted = None
    if read_committed:
        rows = log.aborted_in(part.fetch_offset, part_of_log) if part_of_log.size else ()
        aborted = [(row.producer_id, row.first_offset) for row in rows]
    return response(log, part, aborted=aborted, records=records)
