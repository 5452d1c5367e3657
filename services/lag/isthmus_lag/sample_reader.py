"""Read the samples' topic through isthmus_client from Spark's synchronous code."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar
from uuid import UUID

from isthmus_client.admin import topics
from isthmus_client.admin.list_offsets import At, list_offsets
from isthmus_client.client import Client
from isthmus_client.consumer import Consumer
from isthmus_client.errors import Refused
from isthmus_client.metadata import TopicPartition
from isthmus_client.requests_by_broker import results
from isthmus_model.endpoints import parse_bootstrap
from isthmus_wire.errors import ErrorCode

from isthmus_lag.offsets import STRATEGY, Bounds, Kind, OffsetRange, Position
from isthmus_lag.retained_range import Extent, RetainedTopic, check_retained, check_same
from isthmus_lag.samples import RawRecord

T = TypeVar("T")
CLIENT_ID: Final = "isthmus-lag"
ROWS_PER_BATCH: Final = 10_000
"""Records of one Arrow batch, and the most that one task keeps in memory."""
STALL_TIMEOUT_SECONDS: Final = 120.0
"""A task fails if it receives no records for this time; Spark may retry it."""
_POLL_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Topic:
    """The topic of the samples, and its cluster."""

    bootstrap: str
    name: str


def _with_client(topic: Topic, query: Callable[[Client], Awaitable[T]]) -> T:
    async def connected() -> T:
        async with Client(parse_bootstrap(topic.bootstrap), client_id=CLIENT_ID) as client:
            return await query(client)

    return asyncio.run(connected())


def read_retained(topic: Topic) -> RetainedTopic:
    """Read the current id and retained offsets of the topic; raises ClientError."""
    return _with_client(topic, lambda client: _read_retained(client, topic.name))


async def _read_retained(client: Client, name: str) -> RetainedTopic:
    description = (await topics.describe(client, [name]))[name]
    partitions = [TopicPartition(name, index) for index in sorted(description.partitions)]
    starts = results(await list_offsets(client, dict.fromkeys(partitions, At.EARLIEST)))
    ends = results(await list_offsets(client, dict.fromkeys(partitions, At.LATEST)))
    return RetainedTopic(
        _id_of(description.topic_id), {tp.partition: Extent(starts[tp].offset, ends[tp].offset) for tp in partitions}
    )


def _id_of(topic_id: UUID | None) -> str | None:
    return None if topic_id is None else str(topic_id)


def resolve(topic: Topic, bounds: Bounds) -> Position:
    """Resolve bounds to offsets; raises ClientError, ValueError."""

    async def query(client: Client) -> Position:
        retained = await _read_retained(client, topic.name)
        chosen = bounds.over(retained.extents)
        times = {
            TopicPartition(topic.name, partition): bound.value
            for partition, bound in chosen.items()
            if bound.kind is Kind.TIME or bound.value < 0
        }
        listed = results(await list_offsets(client, times)) if times else {}
        offsets = {partition: bound.value for partition, bound in chosen.items()}
        for partition, listing in listed.items():
            if listing.offset < 0 and bounds.strict:
                raise ValueError(
                    f"partition {partition.partition} has no record at or after {times[partition]}; {STRATEGY}=latest reads it from its end"
                )
            offsets[partition.partition] = (
                listing.offset if listing.offset >= 0 else retained.extents[partition.partition].end
            )
        return Position(retained.topic_id, dict(sorted(offsets.items())))

    return _with_client(topic, query)


def read_range(
    topic: Topic, topic_id: str | None, to_read: OffsetRange, fail_on_loss: bool
) -> Iterator[list[RawRecord]]:
    """Read the records in batches of at most `ROWS_PER_BATCH`; raises ClientError, SamplesLost, TimeoutError.

    Without `fail_on_loss`, reads no records if the topic was recreated since the range was planned.
    """
    with asyncio.Runner() as runner:
        client = Client(parse_bootstrap(topic.bootstrap), client_id=CLIENT_ID)
        try:
            runner.run(client.__aenter__())
            position = Position(topic_id, {to_read.partition: to_read.start})
            current_id = _id_of(runner.run(topics.describe(client, [topic.name]))[topic.name].topic_id)
            if fail_on_loss:
                check_same(topic.name, position, current_id)
            if position.is_of(current_id):
                yield from _batches(runner, client, topic, to_read, fail_on_loss)
        finally:
            client.close()


def _batches(
    runner: asyncio.Runner, client: Client, topic: Topic, to_read: OffsetRange, fail_on_loss: bool
) -> Iterator[list[RawRecord]]:
    partition = TopicPartition(topic.name, to_read.partition)
    consumer = Consumer(client, reset=None if fail_on_loss else At.EARLIEST)
    consumer.seek(partition, to_read.start)
    stalled = 0.0
    try:
        while (before := consumer.position(partition)) < to_read.end:
            try:
                records = runner.run(consumer.poll(_POLL_SECONDS, ROWS_PER_BATCH))
            except Refused as refused:
                if refused.code is ErrorCode.offset_out_of_range:
                    retained = runner.run(_read_retained(client, topic.name))
                    check_retained(topic.name, {to_read.partition: (before, to_read.end)}, retained)
                raise
            batch = [
                RawRecord(to_read.partition, record.offset, record.timestamp, record.value)
                for _, record in records
                if to_read.start <= record.offset < to_read.end
            ]
            if batch:
                yield batch
            stalled = stalled + _POLL_SECONDS if consumer.position(partition) == before else 0.0
            if stalled >= STALL_TIMEOUT_SECONDS:
                raise TimeoutError(
                    f"received no records of partition {partition} from offset {before} for {stalled:.0f} s"
                )
    finally:
        runner.run(consumer.close())
