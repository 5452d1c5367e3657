"""The samples' topic, read through isthmus_client from processes of Spark, which do not wait for anything asynchronous."""

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
from isthmus_lag.retained_range import Extent, Held, check_held, check_same
from isthmus_lag.samples import RawRecord

T = TypeVar("T")
CLIENT_ID: Final = "isthmus-lag"
ROWS_PER_BATCH: Final = 10_000
"""Records that are in memory at once for one task, as one Arrow batch."""
SILENCE_SECONDS: Final = 120.0
"""A range of which nothing comes for so long fails its task; Spark tries that again by its own rules."""
_POLL_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Topic:
    """Where the samples are."""

    bootstrap: str
    name: str


def _asked(topic: Topic, question: Callable[[Client], Awaitable[T]]) -> T:
    async def connected() -> T:
        async with Client(parse_bootstrap(topic.bootstrap), client_id=CLIENT_ID) as client:
            return await question(client)

    return asyncio.run(connected())


def look(topic: Topic) -> Held:
    """What the topic holds now; raises ClientError."""
    return _asked(topic, lambda client: _look(client, topic.name))


async def _look(client: Client, name: str) -> Held:
    found = (await topics.describe(client, [name]))[name]
    wanted = [TopicPartition(name, index) for index in sorted(found.partitions)]
    starts = results(await list_offsets(client, dict.fromkeys(wanted, At.EARLIEST)))
    ends = results(await list_offsets(client, dict.fromkeys(wanted, At.LATEST)))
    return Held(_id_of(found.topic_id), {tp.partition: Extent(starts[tp].offset, ends[tp].offset) for tp in wanted})


def _id_of(told: UUID | None) -> str | None:
    return None if told is None else str(told)


def resolve(topic: Topic, bounds: Bounds) -> Position:
    """The offsets that bounds come to; raises ClientError, ValueError."""

    async def question(client: Client) -> Position:
        held = await _look(client, topic.name)
        chosen = bounds.over(held.extents)
        times = {
            TopicPartition(topic.name, partition): bound.value
            for partition, bound in chosen.items()
            if bound.kind is Kind.TIME or bound.value < 0
        }
        found = results(await list_offsets(client, times)) if times else {}
        offsets = {partition: bound.value for partition, bound in chosen.items()}
        for place, one in found.items():
            if one.offset < 0 and bounds.strict:
                raise ValueError(
                    f"partition {place.partition} has no record at or after {times[place]}: with {STRATEGY}=latest it is read from its end"
                )
            offsets[place.partition] = one.offset if one.offset >= 0 else held.extents[place.partition].end
        return Position(held.topic_id, dict(sorted(offsets.items())))

    return _asked(topic, question)


def read_range(
    topic: Topic, topic_id: str | None, wanted: OffsetRange, fail_on_loss: bool
) -> Iterator[list[RawRecord]]:
    """The records, in portions of at most `ROWS_PER_BATCH`; raises ClientError, SamplesLost, TimeoutError.

    None when the topic was made anew since the range was planned, and that is no error.
    """
    with asyncio.Runner() as runner:
        client = Client(parse_bootstrap(topic.bootstrap), client_id=CLIENT_ID)
        try:
            runner.run(client.__aenter__())
            position = Position(topic_id, {wanted.partition: wanted.start})
            there = _id_of(runner.run(topics.describe(client, [topic.name]))[topic.name].topic_id)
            if fail_on_loss:
                check_same(topic.name, position, there)
            if position.is_of(there):
                yield from _portions(runner, client, topic, wanted, fail_on_loss)
        finally:
            client.close()


def _portions(
    runner: asyncio.Runner, client: Client, topic: Topic, wanted: OffsetRange, fail_on_loss: bool
) -> Iterator[list[RawRecord]]:
    place = TopicPartition(topic.name, wanted.partition)
    consumer = Consumer(client, reset=None if fail_on_loss else At.EARLIEST)
    consumer.seek(place, wanted.start)
    silent = 0.0
    try:
        while (before := consumer.position(place)) < wanted.end:
            try:
                records = runner.run(consumer.poll(_POLL_SECONDS, ROWS_PER_BATCH))
            except Refused as refused:
                if refused.code is ErrorCode.offset_out_of_range:
                    held = runner.run(_look(client, topic.name))
                    check_held(topic.name, {wanted.partition: (before, wanted.end)}, held)
                raise
            portion = [
                RawRecord(wanted.partition, record.offset, record.timestamp, record.value)
                for _, record in records
                if wanted.start <= record.offset < wanted.end
            ]
            if portion:
                yield portion
            silent = silent + _POLL_SECONDS if consumer.position(place) == before else 0.0
            if silent >= SILENCE_SECONDS:
                raise TimeoutError(f"nothing came of partition {place} from offset {before} on for {silent:.0f} s")
    finally:
        runner.run(consumer.close())
