"""Looking at a copy in the target: where it begins and ends, and the headers of its batches."""

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
_LANE: Final = "look"
_ONE_BATCH: Final = 1
"""Bytes asked for: a broker answers with one whole batch even so."""


async def batch_at(client: Client, partition: TopicPartition, offset: int) -> BatchHeader | None:
    """The header of the batch that holds this offset; None when none does, or it is not committed yet. Raises ClientError."""
    answers = await fetch_batches(client, {partition: FetchFrom(offset, _ONE_BATCH)}, _LIMITS, lane=_LANE)
    answer = answers[partition]
    if isinstance(answer, Refused) and answer.code is ErrorCode.offset_out_of_range:
        return None
    if isinstance(answer, ClientError):
        raise answer
    return next((header for _, header in batches(answer.records) if header.last_offset >= offset), None)


async def crc_at(client: Client, partition: TopicPartition, offset: int) -> int | None:
    """The checksum of the batch that begins at this offset; None when none begins there. Raises ClientError."""
    header = await batch_at(client, partition, offset)
    return header.crc if header is not None and header.base_offset == offset else None


async def extents(
    client: Client, partitions: Collection[TopicPartition], *, read_committed: bool = False
) -> dict[TopicPartition, tuple[int, int]]:
    """Start and end of each log; those that cannot be told now are left out."""
    earliest = await list_offsets(client, dict.fromkeys(partitions, At.EARLIEST))
    latest = await list_offsets(client, dict.fromkeys(partitions, At.LATEST), read_committed=read_committed)
    return {
        partition: (start.offset, end.offset)
        for partition in partitions
        if isinstance(start := earliest[partition], ListedOffset) and isinstance(end := latest[partition], ListedOffset)
    }
