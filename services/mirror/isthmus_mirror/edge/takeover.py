"""Take over a copy that MirrorMaker made: find the source's offset at which it ended.

MirrorMaker's offset syncs give the offsets of one record on both sides, every hundred records or so. From the newest one on, the records of
source and copy are compared: a source record is copied if it is the next one that the copy has. Records that others wrote, or that
MirrorMaker copied again after a restart, are passed over.
"""

from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from isthmus_client.batch_io import FetchFrom, FetchLimits, fetch_batches
from isthmus_client.batch_reader import visible_records
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.metadata import TopicPartition
from isthmus_model.mirror_maker import OffsetSync, parse_offset_sync
from isthmus_wire.errors import CorruptBatch
from isthmus_wire.records import Record

from isthmus_mirror.core.settings import FlowSettings
from isthmus_mirror.core.written import Written, merged
from isthmus_mirror.edge.destination_reads import extents
from isthmus_mirror.edge.targets import Assignment, Route

_LIMITS: Final = FetchLimits(wait_ms=100, read_committed=True)
_LANE: Final = "takeover"
_PARTITION: Final = 0


class CannotTakeOver(Exception):
    """Nothing shows where the copy ended; the message says what to do."""


class TakenOver(NamedTuple):
    """The records that are copied, from the newest offset sync on, and the source's offset to continue at."""

    written: tuple[Written, ...]
    position: int


async def taken_over(route: Route, assignment: Assignment, settings: FlowSettings) -> TakenOver | None:
    """Where MirrorMaker's copy ended; None for a topic of the target that MirrorMaker did not write.

    Raises CannotTakeOver, and ClientError.
    """
    sync = await _newest_sync(route, assignment, settings)
    theirs = ours = None
    if sync is not None:
        theirs = _records(route.source, assignment.source, sync.upstream_offset)
        ours = _records(route.target, assignment.target, sync.offset)
    if sync is None or theirs is None or ours is None or not await _is_true(sync, theirs, ours):
        if assignment.source.topic == assignment.target.topic:
            return None
        raise CannotTakeOver(
            "the copy has records, and neither progress nor MirrorMaker's offset syncs show where they end: "
            "delete it, or copy with IdentityReplicationPolicy"
        )
    copied = [Written(sync.upstream_offset, sync.offset, 1, settings.source)]
    position = sync.upstream_offset + 1
    expected = await anext(theirs, None)
    async for record in ours:
        if expected is None:
            break
        if _content(record) == _content(expected):
            copied.append(Written(expected.offset, record.offset, 1, settings.source))
            position = expected.offset + 1
            expected = await anext(theirs, None)
    return TakenOver(tuple(merged(copied)), position)


async def _is_true(sync: OffsetSync, theirs: AsyncIterator[Record], ours: AsyncIterator[Record]) -> bool:
    """Whether both sides have the same record at the offsets of a sync: it may be of a copy that was deleted."""
    first, copied = await anext(theirs, None), await anext(ours, None)
    if first is None or copied is None:
        return False
    is_there = (first.offset, copied.offset) == (sync.upstream_offset, sync.offset)
    return is_there and _content(first) == _content(copied)


def _content(record: Record) -> Record:
    return record._replace(offset=0)


async def _newest_sync(route: Route, assignment: Assignment, settings: FlowSettings) -> OffsetSync | None:
    naming, newest = settings.naming, None
    client, name = (
        (route.source, naming.offset_syncs_at_source)
        if settings.offset_syncs_at_source
        else (route.target, naming.offset_syncs_at_target)
    )
    if name not in (await client.metadata_of([name])).topics:
        return None
    async for record in _records(client, TopicPartition(name, _PARTITION), 0):
        sync = parse_offset_sync(record.key, record.value)
        if sync is not None and TopicPartition(sync.topic, sync.partition) == assignment.source:
            newest = sync
    return newest


async def _records(client: Client, partition: TopicPartition, start: int) -> AsyncIterator[Record]:
    """The committed records from this offset to the current end. Raises ClientError."""
    await client.metadata_of([partition.topic])
    first, end = (await extents(client, [partition], read_committed=True))[partition]
    position = max(start, first)
    while position < end:
        response = (await fetch_batches(client, {partition: FetchFrom(position)}, _LIMITS, lane=_LANE))[partition]
        if isinstance(response, ClientError):
            raise response
        try:
            for record, following in visible_records(response.records, position, response.aborted, read_committed=True):
                if record is not None:
                    yield record
                position = following
        except CorruptBatch as error:
            raise ClientError(f"the records of {partition} cannot be read: {error}") from error
