"""The last records of a topic."""

from __future__ import annotations

from isthmus_client.admin import topics as topic_admin
from isthmus_client.admin.list_offsets import At, list_offsets
from isthmus_client.client import Client
from isthmus_client.consumer import ConsumedRecord, Consumer
from isthmus_client.metadata import TopicPartition
from isthmus_client.requests_by_broker import results

_POLL_SECONDS = 1.0


async def read_tail(client: Client, topic: str, most: int) -> list[ConsumedRecord]:
    """The records within the last `most` offsets of each partition, up to the current log end offset."""
    described = (await topic_admin.describe(client, [topic]))[topic]
    partitions = [TopicPartition(topic, index) for index in described.partitions]
    firsts = results(await list_offsets(client, dict.fromkeys(partitions, At.EARLIEST)))
    ends = results(await list_offsets(client, dict.fromkeys(partitions, At.LATEST)))
    starts = {
        partition: start
        for partition in partitions
        if (start := max(firsts[partition].offset, ends[partition].offset - most)) < ends[partition].offset
    }
    records: list[ConsumedRecord] = []
    async with Consumer(client) as consumer:
        await consumer.assign(starts)
        while any(consumer.position(partition) < ends[partition].offset for partition in starts):
            records.extend(await consumer.poll(_POLL_SECONDS))
    return records
