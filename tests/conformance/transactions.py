"""Clusters, producers and readers for tests of transactions."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from isthmus_client.admin import topics
from isthmus_client.admin.list_offsets import At, list_offsets
from isthmus_client.client import Client
from isthmus_client.consumer import Consumer
from isthmus_client.metadata import TopicPartition
from isthmus_client.requests_by_broker import results
from isthmus_client.transactional_producer import TransactionalProducer
from isthmus_model.endpoints import parse_bootstrap
from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import millis
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest

from tests.kafka import running_kafka
from tests.node import NO_RETENTION_CHECK, running_node

T = TypeVar("T")
SECONDS = 120.0
SETTINGS = {
    **NO_RETENTION_CHECK,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
}
RUNNING: dict[str, Callable[[Path, dict[str, str]], AbstractContextManager[Any]]] = {
    "isthmus": running_node,
    "kafka": running_kafka,
}
_UPGRADE = 1
_SAFE_DOWNGRADE = 2


class Target(NamedTuple):
    """A running cluster of one node and the level of its feature transaction.version."""

    bootstrap: str
    version: int

    def run(self, work: Callable[[Client], Awaitable[T]]) -> T:
        async def connected() -> T:
            async with asyncio.timeout(SECONDS), self.client() as client:
                return await work(client)

        return asyncio.run(connected())

    def client(self, operation_seconds: float = 60.0) -> Client:
        return Client(parse_bootstrap(self.bootstrap), operation_seconds=operation_seconds)


@contextmanager
def running_target(kind: str, version: int, directory: Path) -> Iterator[Target]:
    """A target of one node, of Isthmus or Apache Kafka, with that level of transaction.version."""
    with RUNNING[kind](directory, SETTINGS) as node:
        target = Target(node.bootstrap, version)
        target.run(lambda client: set_transaction_version(client, version))
        yield target


async def set_transaction_version(client: Client, version: int) -> None:
    """Finalize this level of transaction.version; connections that are made afterwards report it."""
    current = await finalized(client)
    if current == version:
        return
    update = entity(
        FeatureUpdateKey,
        feature="transaction.version",
        max_version_level=version,
        upgrade_type=_UPGRADE if version > current else _SAFE_DOWNGRADE,
    )
    request = entity(UpdateFeaturesRequest, timeout=millis(30_000), feature_updates=(update,), validate_only=False)
    response = await client.send_to_controller(ApiKey.UPDATE_FEATURES, request, lambda r: [r.error_code])
    assert response.error_code is ErrorCode.none
    async with asyncio.timeout(SECONDS):
        while await finalized(client) != version:  # noqa: ASYNC110 - another process changes it
            await asyncio.sleep(0.1)


async def finalized(client: Client) -> int:
    """The level that a new connection reports."""
    for endpoint in client.endpoints():
        client.disconnect(endpoint)
    features = (await client.any_connection()).features.finalized_features
    return next((f.max_version_level for f in features if f.name == "transaction.version"), 0)


async def made(client: Client, name: str, partitions: int = 1) -> list[TopicPartition]:
    assert await topics.create(client, [topics.NewTopic(name, partitions, 1)]) == {name: None}
    return [TopicPartition(name, index) for index in range(partitions)]


@asynccontextmanager
async def producing(client: Client, name: str, timeout_ms: int = 60_000) -> AsyncIterator[TransactionalProducer]:
    async with TransactionalProducer(client, name, timeout_ms=timeout_ms, linger_seconds=0) as producer:
        await producer.init_transactions()
        yield producer


async def ends(client: Client, partitions: Sequence[TopicPartition], *, committed: bool) -> dict[TopicPartition, int]:
    latest = dict.fromkeys(partitions, int(At.LATEST))
    listed = await list_offsets(client, latest, read_committed=committed)
    return {partition: one.offset for partition, one in results(listed).items()}


async def settle(client: Client, partitions: Sequence[TopicPartition]) -> None:
    """Wait until no transaction is open: the markers are written after the response."""
    async with asyncio.timeout(SECONDS):
        while await ends(client, partitions, committed=True) != await ends(client, partitions, committed=False):  # noqa: ASYNC110 - another process changes it
            await asyncio.sleep(0.02)


async def values(client: Client, partitions: Sequence[TopicPartition], *, committed: bool = True) -> list[bytes | None]:
    """Everything up to the current end, by partition."""
    end = await ends(client, partitions, committed=committed)
    read: list[tuple[TopicPartition, bytes | None]] = []
    async with Consumer(client, read_committed=committed, reset=None) as consumer:
        await consumer.assign(dict.fromkeys(partitions, int(At.EARLIEST)))
        while any(consumer.position(tp) < end[tp] for tp in partitions):
            read += [(one.partition, one.record.value) for one in await consumer.poll(1.0)]
        assert {tp: consumer.position(tp) for tp in partitions} == end
    return [value for _, value in sorted(read, key=lambda one: one[0])]


async def settled(client: Client, partitions: Sequence[TopicPartition]) -> list[bytes | None]:
    """The committed values after the last transaction."""
    await settle(client, partitions)
    return await values(client, partitions)
