"""The lag of mirror topics, as the leaders of their partitions report it."""

from __future__ import annotations

from collections.abc import Sequence

from isthmus_client.append_mirrored import progress
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.metadata import TopicPartition
from isthmus_wire.extensions.mirrors import DescribedMirror, PartitionProgress


async def mirror_progress(
    client: Client, mirrors: Sequence[DescribedMirror]
) -> dict[str, list[PartitionProgress | None]]:
    """By topic, in order of partitions; None where no leader responds."""
    partitions = [TopicPartition(mirror.topic, index) for mirror in mirrors for index in range(mirror.partitions)]
    responses = await progress(client, partitions)
    by_topic: dict[str, list[PartitionProgress | None]] = {mirror.topic: [] for mirror in mirrors}
    for partition in partitions:
        response = responses[partition]
        by_topic[partition.topic].append(None if isinstance(response, ClientError) else response)
    return by_topic
