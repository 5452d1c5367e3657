"""How far mirror topics are behind their sources, as the leaders of their partitions know."""

from __future__ import annotations

from collections.abc import Sequence

from isthmus_client.append_mirrored import progress
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.metadata import TopicPartition
from isthmus_wire.extensions.mirrors import DescribedMirror, PartitionLag, PartitionProgress

_UNKNOWN = -1


async def mirror_lags(client: Client, mirrors: Sequence[DescribedMirror]) -> dict[str, list[PartitionLag]]:
    """By topic; -1 for what no leader can tell: nobody leads the partition, or no linker has told of the source yet."""
    partitions = [TopicPartition(mirror.topic, index) for mirror in mirrors for index in range(mirror.partitions)]
    told = await progress(client, partitions)
    lags: dict[str, list[PartitionLag]] = {mirror.topic: [] for mirror in mirrors}
    for partition in partitions:
        lags[partition.topic].append(_lag(partition.partition, told[partition]))
    return lags


def _lag(index: int, told: PartitionProgress | ClientError) -> PartitionLag:
    if isinstance(told, ClientError):
        return PartitionLag(index=index, lag=_UNKNOWN, last_source_fetch_offset=_UNKNOWN)
    source, copy = told.source_high_watermark, told.log_end_offset
    lag = max(source - copy, 0) if source >= 0 else _UNKNOWN
    return PartitionLag(index=index, lag=lag, last_source_fetch_offset=copy)
