"""The samples' topic, read through isthmus_client from processes of Spark, which do not wait for anything asynchronous."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from isthmus_client.admin import topics
from isthmus_client.admin.list_offsets import At, list_offsets
from isthmus_client.client import Client, parse_bootstrap
from isthmus_client.consumer import Consumer
from isthmus_client.errors import Refused
from isthmus_client.metadata import TopicPartition
from isthmus_client.scatter import results
from isthmus_wire.errors import ErrorCode

from isthmus_lag.offsets import Bounds, Kind, OffsetRange
from isthmus_lag.samples import RawRecord

T = TypeVar("T")
CLIENT_ID: Final = "isthmus-lag"
ROWS_PER_BATCH: Final = 10_000
"""Records that are in memory at once for one task, as one Arrow batch."""
SILENCE_SECONDS: Final = 120.0
"""A range of which nothing comes for so long fails its task; Spark tries that again by its own rules."""
_POLL_SECONDS: Final = 1.0


class SamplesLost(Exception):
    """The topic does not hold any more what was to be read."""


@dataclass(frozen=True, slots=True)
class Topic:
    """Where the samples are."""

    bootstrap: str
    name: str


@dataclass(frozen=True, slots=True)
class Extent:
    """The offsets that a partition holds."""

    start: int
    end: int


def _asked(topic: Topic, question: Callable[[Client], Awaitable[T]]) -> T:
    async def connected() -> T:
        async with Client(parse_bootstrap(topic.bootstrap), client_id=CLIENT_ID) as client:
            return await question(client)

    return asyncio.run(connected())


def extents(topic: Topic) -> dict[int, Extent]:
    """What each partition holds now; raises ClientError."""
    return _asked(topic, lambda client: _extents(client, topic.name))


async def _extents(client: Client, name: str) -> dict[int, Extent]:
    found = (await topics.describe(client, [name]))[name]
    wanted = [TopicPartition(name, index) for index in sorted(found.partitions)]
    starts = results(await list_offsets(client, dict.fromkeys(wanted, At.EARLIEST)))
    ends = results(await list_offsets(client, dict.fromkeys(wanted, At.LATEST)))
    return {tp.partition: Extent(starts[tp].offset, ends[tp].offset) for tp in wanted}


def resolve(topic: Topic, bounds: Bounds) -> dict[int, int]:
    """The offset that a bound comes to, by partition; a time after the last record is the end. Raises ClientError, ValueError."""

    async def question(client: Client) -> dict[int, int]:
        held = await _extents(client, topic.name)
        chosen = {partition: bounds.of(partition) for partition in held}
        times = {
            TopicPartition(topic.name, partition): bound.value
            for partition, bound in chosen.items()
            if bound.kind is Kind.TIME or bound.value < 0
        }
        found = results(await list_offsets(client, times)) if times else {}
        offsets = {tp.partition: one.offset for tp, one in found.items()}
        exact = {partition: bound.value for partition, bound in chosen.items() if partition not in offsets}
        return {partition: held[partition].end if at < 0 else at for partition, at in sorted((offsets | exact).items())}

    return _asked(topic, question)


def check_held(topic: Topic, wanted: Mapping[int, tuple[int, int]], held: Mapping[int, Extent]) -> None:
    """Raises SamplesLost when a range is not in the topic, or not whole."""
    for partition, (start, end) in wanted.items():
        extent = held.get(partition)
        if extent is None or end > extent.end or (start < end and start < extent.start):
            there = "is not there" if extent is None else f"holds offsets {extent.start} to {extent.end}"
            raise SamplesLost(
                f"offsets {start} to {end} of partition {partition} of {topic.name} were to be read, but it {there}: retention took "
                "them, or the topic was made anew. With failOnDataLoss=false what is left is read; a stream of a topic that was made "
                "anew wants another directory."
            )


def read_range(topic: Topic, wanted: OffsetRange, fail_on_loss: bool) -> Iterator[list[RawRecord]]:
    """The records, in portions of at most `ROWS_PER_BATCH`; raises ClientError, SamplesLost, TimeoutError."""
    with asyncio.Runner() as runner:
        client = Client(parse_bootstrap(topic.bootstrap), client_id=CLIENT_ID)
        try:
            runner.run(client.__aenter__())
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
                    check_held(
                        topic, {wanted.partition: (before, wanted.end)}, runner.run(_extents(client, topic.name))
                    )
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
