"""Read a copy in the target: its range of offsets, and the headers of its batches."""

from collections.abc import Collection
from typing import Final

from isthmus_client.admin.list_offsets import At, ListedOffset, list_offsets
from isthmus_client.batch_io import FetchFrom, FetchLimits, fetch_batches
from isthmus_client.client import Client
from isthmus_client.errors import ClientError, Refused
from isthmus_client.metadata import TopicPartition
from isthmus_wire.errors import ErrorCode
from isthmus_wire.records import BatchHeader, batches

_LIMITS: Final = FetchLimits(wait_ms=500)
_LANE: Final = "read"
_ONE_BATCH: Final = 1
"""Bytes to fetch: a broker returns at least one whole batch."""


async def batch_at(client: Client, partition: TopicPartition, offset: int) -> BatchHeader | None:
    """The header of the batch that contains this offset; None if none does, or it is not committed yet. Raises ClientError."""
    results = await fetch_batches(client, {partition: FetchFrom(offset, _ONE_BATCH)}, _LIMITS, lane=_LANE)
    result = results[partition]
    if isinstance(result, Refused) and result.code is ErrorCode.offset_out_of_range:
        return None
    if isinstance(result, ClientError):
        raise result
    return next((header for _, header in batches(result.records) if header.last_offset >= offset), None)


async def crc_at(client: Client, partition: TopicPartition, offset: int) -> int | None:
    """The checksum of the batch that begins at this offset; None if none does. Raises ClientError."""
    header = await batch_at(client, partition, offset)
    return header.crc if header is not None and header.base_offset == offset else None


async def extents(
    client: Client, partitions: Collection[TopicPartition], *, read_committed: bool = False
) -> dict[TopicPartition, tuple[int, int]]:
    """Start and end of each log; omits partitions of unknown range."""
    earliest = await list_offsets(client, dict.fromkeys(partitions, At.EARLIEST))
    latest = await list_offsets(client, dict.fromkeys(partitions, At.LATEST), read_committed=read_committed)
    return {
        partition: (start.offset, end.offset)
        for partition in partitions
        if isinstance(start := earliest[partition], ListedOffset) and isinstance(end := latest[partition], ListedOffset)
    }
