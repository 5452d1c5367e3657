"""aiokafka, unmodified, against a node."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import OffsetOutOfRangeError, TopicAlreadyExistsError
from aiokafka.structs import OffsetAndMetadata

from tests.conformance.clients.waiting import DEADLINE_SECONDS
from tests.node import Node

COMPRESSIONS = (None, "gzip", "snappy", "lz4", "zstd")


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine to its end, or to the deadline."""
    asyncio.run(asyncio.wait_for(test(), DEADLINE_SECONDS))


@asynccontextmanager
async def administrating(node: Node) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=node.bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def create(node: Node, topic: str, partitions: int = 1) -> None:
    async with administrating(node) as admin:
        await admin.create_topics([NewTopic(topic, partitions, 1)])


@asynccontextmanager
async def producing(node: Node, **config: Any) -> AsyncIterator[AIOKafkaProducer]:
    async with AIOKafkaProducer(bootstrap_servers=node.bootstrap, **config) as producer:
        yield producer


@asynccontextmanager
async def consuming(node: Node, *topics: str, **config: Any) -> AsyncIterator[AIOKafkaConsumer]:
    settings = {"enable_auto_commit": False, "auto_offset_reset": "earliest", "heartbeat_interval_ms": 200, **config}
    async with AIOKafkaConsumer(*topics, bootstrap_servers=node.bootstrap, **settings) as consumer:
        yield consumer


async def take(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    return [await consumer.getone() for _ in range(count)]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_idempotent_produce_and_consume(node: Node, compression: str | None) -> None:
    async def test() -> None:
        topic = f"aiokafka-{compression}"
        await create(node, topic)
        values = [b"%d-" % number + b"x" * 200 for number in range(500)]
        async with producing(node, compression_type=compression, enable_idempotence=True) as producer:
            sent = [await producer.send(topic, value, key=b"k", partition=0, headers=[("h", b"1")]) for value in values]
            assert [(await one).offset for one in sent] == list(range(500))
        async with consuming(node, topic) as consumer:
            messages = await take(consumer, 500)
        assert [(message.offset, message.value) for message in messages] == list(enumerate(values))
        assert {(message.key, message.headers) for message in messages} == {(b"k", (("h", b"1"),))}

    run(test)


def test_offsets_by_timestamp(node: Node) -> None:
    async def test() -> None:
        topic = "aiokafka-timestamps"
        await create(node, topic)
        async with producing(node) as producer:
            for number in range(10):
                await producer.send_and_wait(topic, b"x", partition=0, timestamp_ms=1_700_000_000_000 + 1000 * number)
        partition = TopicPartition(topic, 0)
        async with consuming(node) as consumer:
            consumer.assign([partition])
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 10}
            found = await consumer.offsets_for_times({partition: 1_700_000_003_001})
            assert (found[partition].offset, found[partition].timestamp) == (4, 1_700_000_004_000)
            assert await consumer.offsets_for_times({partition: 1_700_000_009_001}) == {partition: None}

    run(test)


def test_a_group_shares_partitions_and_resumes_where_it_committed(node: Node) -> None:
    async def test() -> None:
        topic, group = "aiokafka-group", "aiokafka-group"
        partitions = [TopicPartition(topic, number) for number in range(4)]
        await create(node, topic, 4)
        async with producing(node) as producer:
            for partition in partitions:
                for number in range(10):
                    await producer.send_and_wait(topic, b"%d" % number, partition=partition.partition)
        async with consuming(node, topic, group_id=group) as first:
            messages = await take(first, 40)
            assert {(m.partition, m.offset) for m in messages} == {(p, o) for p in range(4) for o in range(10)}
            await first.commit({p: OffsetAndMetadata(5 + p.partition, f"at {p.partition}") for p in partitions})
            async with consuming(node, topic, group_id=group) as second:
                while len(first.assignment()) != 2 or len(second.assignment()) != 2:
                    await asyncio.gather(first.getmany(timeout_ms=50), second.getmany(timeout_ms=50))
                assert first.assignment() | second.assignment() == set(partitions)
        async with consuming(node, topic, group_id=group) as third:
            assert [await third.committed(partition) for partition in partitions] == [5, 6, 7, 8]
            rest = await take(third, 5 + 4 + 3 + 2)
            assert {(m.partition, m.offset) for m in rest} == {(p, o) for p in range(4) for o in range(5 + p, 10)}

    run(test)


def test_a_static_member_comes_back(node: Node) -> None:
    async def test() -> None:
        topic = "aiokafka-static"
        await create(node, topic, 2)
        config = {"group_id": "aiokafka-static", "group_instance_id": "one"}
        async with consuming(node, topic, **config) as first:
            had = first.assignment()
        async with consuming(node, topic, **config) as again:
            assert again.assignment() == had == {TopicPartition(topic, 0), TopicPartition(topic, 1)}

    run(test)


def test_reading_out_of_range_is_an_error_of_its_own(node: Node) -> None:
    async def test() -> None:
        topic = "aiokafka-range"
        await create(node, topic)
        partition = TopicPartition(topic, 0)
        async with consuming(node, auto_offset_reset="none") as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 100)
            with pytest.raises(OffsetOutOfRangeError):
                await consumer.getone()

    run(test)


def test_administration(node: Node) -> None:
    async def test() -> None:
        topic, group = "aiokafka-admin", "aiokafka-admin"
        async with administrating(node) as admin, producing(node) as producer:
            await admin.create_topics([NewTopic(topic, 1, 1, topic_configs={"retention.ms": "1234567"})])
            ((refused, code, _),) = (await admin.create_topics([NewTopic(topic, 1, 1)])).topic_errors
            assert (refused, code) == (topic, TopicAlreadyExistsError.errno)
            await admin.create_partitions({topic: NewPartitions(3)})
            (described,) = await admin.describe_topics([topic])
            assert [one["partition"] for one in described["partitions"]] == [0, 1, 2]
            resource = ConfigResource(ConfigResourceType.TOPIC, topic)
            (answer,) = await admin.describe_configs([resource])
            ((_code, _message, _kind, name, entries),) = answer.resources
            assert name == topic
            assert {entry[0]: entry[1] for entry in entries}["retention.ms"] == "1234567"
            for _ in range(5):
                await producer.send_and_wait(topic, b"x", partition=0)
            partition = TopicPartition(topic, 0)
            assert await admin.delete_records({partition: RecordsToDelete(3)}) == {partition: 3}
            async with consuming(node, topic, group_id=group) as consumer:
                assert [message.offset for message in await take(consumer, 2)] == [3, 4]
                await consumer.commit()
            assert (group, "consumer") in await admin.list_consumer_groups()
            offsets = await admin.list_consumer_group_offsets(group)
            assert offsets[partition].offset == 5
            await admin.delete_topics([topic])
            assert topic not in await admin.list_topics()

    run(test)
