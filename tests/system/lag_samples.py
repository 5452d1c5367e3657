"""Samples of lag for tests, and a topic of them."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from isthmus_client.admin import topics
from isthmus_client.client import Client
from isthmus_client.producer import Producer
from isthmus_model.endpoints import parse_bootstrap
from isthmus_model.internal_topics import LAG_TOPIC
from isthmus_model.lag_samples import CopyKind, LagSample

START_MS = 1_760_000_000_000


def sample(at_ms: int, partition: int, lag_ms: int) -> LagSample:
    return LagSample(
        kind=CopyKind.LINK,
        link="atlantic",
        source_cluster="far",
        target_cluster="near",
        source_region="us",
        target_region="eu",
        source_topic="orders",
        topic="orders",
        partition=partition,
        target_broker=-1,
        source_end=10_000,
        target_end=10_000 - lag_ms,
        lag_ms=lag_ms,
        at_ms=at_ms,
    )


def samples(moments: range) -> list[LagSample]:
    """Two partitions a second, with lags of 10 ms for each second of a moment, and of a tenth of that."""
    return [
        sample(START_MS + second * 1000, partition, second * (10 if partition == 0 else 1))
        for second in moments
        for partition in (0, 1)
    ]


def records(told: Sequence[LagSample]) -> list[tuple[bytes, bytes]]:
    return [(one.key(), one.value()) for one in told]


def write(bootstrap: str, records: Iterable[tuple[bytes, bytes]], at_ms: Sequence[int] = ()) -> None:
    """Into two partitions by turns, now or at these times; the topic is made where it is not there."""

    async def written() -> None:
        async with Client(parse_bootstrap(bootstrap)) as client:
            await topics.create(client, [topics.NewTopic(LAG_TOPIC, partitions=2)])
            producer = Producer(client)
            for index, ((key, value), timestamp) in enumerate(zip_longest(records, at_ms)):
                await producer.send(LAG_TOPIC, value, key=key, partition=index % 2, timestamp=timestamp)
            await producer.flush()

    asyncio.run(written())
