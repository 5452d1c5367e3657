"""The client library against a node: administration, raw batches, records, groups."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from isthmus_client.admin import cluster, configs, group_offsets, groups, topics
from isthmus_client.admin.group_offsets import Committed
from isthmus_client.admin.list_offsets import At, ListedOffset, list_offsets
from isthmus_client.batch_io import (
    Appended,
    Fetched,
    FetchFrom,
    FetchLimits,
    fetch_batches,
    fetch_from,
    produce_batches,
)
from isthmus_client.client import Client
from isthmus_client.consumer import ConsumedRecord, Consumer, GroupProtocol
from isthmus_client.errors import Refused
from isthmus_client.fetch_session import FetchSession
from isthmus_client.metadata import TopicPartition
from isthmus_client.producer import Place, Producer
from isthmus_client.requests_by_broker import results
from isthmus_model.config_resources import ResourceType
from isthmus_model.endpoints import parse_bootstrap
from isthmus_wire.compression import Compression
from isthmus_wire.errors import ErrorCode
from isthmus_wire.records import NewRecord, build_batch

from tests.node import Node

T = TypeVar("T")
POLL_SECONDS = 60.0


def against(node: Node, work: Callable[[Client], Awaitable[T]]) -> T:
    async def connected() -> T:
        async with Client(parse_bootstrap(node.bootstrap)) as client:
            return await work(client)

    return asyncio.run(connected())


async def made(client: Client, name: str, partitions: int = 1) -> list[TopicPartition]:
    assert await topics.create(client, [topics.NewTopic(name, partitions, 1)]) == {name: None}
    return [TopicPartition(name, index) for index in range(partitions)]


def code(answer: object) -> ErrorCode | None:
    return answer.code if isinstance(answer, Refused) else None


def test_topics_live_and_die(node: Node) -> None:
    async def work(client: Client) -> None:
        new = topics.NewTopic("client-life", 2, 1, configs={"retention.ms": "77777"})
        assert await topics.create(client, [new], validate_only=True) == {"client-life": None}
        assert await topics.create(client, [new]) == {"client-life": None}
        assert code((await topics.create(client, [new]))["client-life"]) is ErrorCode.topic_already_exists
        assert await topics.create_partitions(client, {"client-life": 3}) == {"client-life": None}
        described = (await topics.describe(client, ["client-life"]))["client-life"]
        assert list(described.partitions) == [0, 1, 2]
        assert "client-life" in await topics.list_topics(client)
        assert await topics.delete(client, ["client-life"]) == {"client-life": None}
        with pytest.raises(Refused, match="topic client-life: unknown_topic_or_partition"):
            await topics.describe(client, ["client-life"])

    against(node, work)


def test_configs_change_all_or_none(node: Node) -> None:
    async def work(client: Client) -> None:
        await made(client, "client-configs")
        resource = configs.Resource(ResourceType.TOPIC, "client-configs")
        good = configs.Change("retention.ms", configs.Operation.SET, "5000")
        bad = configs.Change("no.such.config", configs.Operation.SET, "1")
        assert code((await configs.alter(client, {resource: [good, bad]}))[resource]) is ErrorCode.invalid_config
        assert await retention() == (str(7 * 24 * 3600 * 1000), False)
        assert await configs.alter(client, {resource: [good]}) == {resource: None}
        assert await retention() == ("5000", True)

    async def retention() -> tuple[str | None, bool]:
        async with Client(parse_bootstrap(node.bootstrap)) as client:
            resource = configs.Resource(ResourceType.TOPIC, "client-configs")
            found = results(await configs.describe(client, [resource]))[resource]
            return next((config.value, config.is_set) for config in found if config.name == "retention.ms")

    against(node, work)


def test_batches_go_in_and_out_as_bytes(node: Node) -> None:
    batch = build_batch([NewRecord(b"k", b"v", 1000), NewRecord(None, b"w", 2000)])

    async def work(client: Client) -> None:
        first, second = await made(client, "client-raw", 2)
        absent = TopicPartition("client-raw", 7)
        answers = await produce_batches(client, {first: batch, second: batch, absent: batch})
        assert answers[first] == Appended(0, -1, 0)
        assert answers[second] == Appended(0, -1, 0)
        assert code(answers[absent]) is ErrorCode.unknown_topic_or_partition
        assert results(await produce_batches(client, {first: batch}))[first].base_offset == 2
        fetched = await fetch_batches(client, {first: FetchFrom(2), second: FetchFrom(9)})
        found = fetched[first]
        assert isinstance(found, Fetched)
        assert bytes(found.records)[21:] == batch[21:]
        assert (found.high_watermark, found.log_start_offset, found.leader_epoch) == (4, 0, 0)
        assert code(fetched[second]) is ErrorCode.offset_out_of_range

    against(node, work)


def test_a_fetch_session_leaves_out_what_has_no_news(node: Node) -> None:
    batch = build_batch([NewRecord(None, b"v", 1000)])

    async def work(client: Client) -> None:
        first, second = await made(client, "client-session", 2)
        session = FetchSession()
        limits = FetchLimits(wait_ms=0)
        leader = (await client.leaders([first]))[first]
        assert not isinstance(leader, Refused)

        async def fetch() -> list[TopicPartition]:
            wanted = {first: FetchFrom(0), second: FetchFrom(0)}
            return sorted(await fetch_from(client, leader.node_id, wanted, limits, session=session))

        assert await fetch() == [first, second]
        while await fetch():
            pass  # a new partition may come up only now, which is news
        results(await produce_batches(client, {second: batch}))
        assert await fetch() == [second]

    against(node, work)


@pytest.mark.parametrize("compression", list(Compression))
def test_records_arrive_once_and_in_order(node: Node, compression: Compression) -> None:
    name = f"client-records-{compression.name.lower()}"
    count = 2000

    async def work(client: Client) -> None:
        partitions = await made(client, name, 3)
        async with Producer(client, compression=compression, batch_bytes=4096) as producer:
            deliveries = [
                await producer.send(name, b"%d" % i, key=b"key-%d" % (i % 50), headers=[("h", b"x")])
                for i in range(count)
            ]
        places: list[Place] = [await delivery.place() for delivery in deliveries]
        async with Consumer(client) as consumer:
            await consumer.assign(dict.fromkeys(partitions, int(At.EARLIEST)))
            seen: list[ConsumedRecord] = []
            while len(seen) < count:
                records = await consumer.poll(POLL_SECONDS)
                assert records
                seen += records
        where = {Place(one.partition, one.record.offset): one.record for one in seen}
        assert len(where) == count
        assert [where[place].value for place in places] == [b"%d" % i for i in range(count)]
        assert {record.headers for record in where.values()} == {(("h", b"x"),)}

    against(node, work)


def test_acks_0_is_delivered_without_an_offset(node: Node) -> None:
    async def work(client: Client) -> None:
        (partition,) = await made(client, "client-acks-0")
        async with Producer(client, acks=0) as producer:
            delivery = await producer.send("client-acks-0", b"v")
        assert await delivery.place() == Place(partition, -1)
        async with Consumer(client) as consumer:
            await consumer.assign({partition: int(At.EARLIEST)})
            assert [one.record.value for one in await consumer.poll(POLL_SECONDS)] == [b"v"]

    against(node, work)


def test_offsets_are_queried_by_specification_and_time(node: Node) -> None:
    async def work(client: Client) -> None:
        (partition,) = await made(client, "client-offsets")
        for timestamp in (1000, 3000, 2000):
            await produce_batches(client, {partition: build_batch([NewRecord(None, b"v", timestamp)])})
        asked = {At.EARLIEST: 0, At.LATEST: 3, At.MAX_TIMESTAMP: 1, 1500: 1, 3001: -1}
        for at, offset in asked.items():
            found = (await list_offsets(client, {partition: at}))[partition]
            assert isinstance(found, ListedOffset)
            assert found.offset == offset
        assert await topics.delete_records(client, {partition: 2}) == {partition: 2}
        found = (await list_offsets(client, {partition: At.EARLIEST}))[partition]
        assert isinstance(found, ListedOffset)
        assert found.offset == 2

    against(node, work)


def test_offsets_of_a_group_without_members(node: Node) -> None:
    async def work(client: Client) -> None:
        first, second = await made(client, "client-group-offsets", 2)
        absent = TopicPartition("client-no-such-topic", 0)
        group = "client-offsets-group"
        answers = await group_offsets.commit(client, group, {first: Committed(3, metadata="m"), absent: Committed(1)})
        assert answers[first] is None
        assert code(answers[absent]) is ErrorCode.unknown_topic_or_partition
        assert await group_offsets.fetch(client, group) == {first: Committed(3, metadata="m")}
        assert await group_offsets.fetch(client, group, [second]) == {}
        assert [one.state for one in await groups.list_groups(client) if one.group_id == group] == ["Empty"]
        assert await group_offsets.delete(client, group, [first]) == {first: None}
        assert await groups.delete(client, [group]) == {group: None}

    against(node, work)


@pytest.mark.parametrize(
    ("protocol", "assignor"), [(GroupProtocol.CLASSIC, "range"), (GroupProtocol.CONSUMER, "uniform")]
)
def test_a_group_is_divided_and_goes_on_where_it_was(node: Node, protocol: GroupProtocol, assignor: str) -> None:
    async def work(client: Client) -> None:
        name = group = f"client-group-{protocol.value}"
        member: dict[str, Any] = {"group_id": group, "topics": [name], "reset": At.EARLIEST, "protocol": protocol}
        partitions = await made(client, name, 3)
        async with Producer(client) as producer:
            for index in range(30):
                await producer.send(name, b"%d" % index, partition=index % 3)
        seen: set[tuple[TopicPartition, int]] = set()
        async with Consumer(client, **member) as first:
            while len(seen) < 10:
                seen |= {(r.partition, r.record.offset) for r in await first.poll(POLL_SECONDS, most=10)}
            assert await first.commit()
            assert sorted(first.assignment) == partitions
            async with Consumer(client, **member) as second:
                shared = asyncio.Event()

                async def pump(consumer: Consumer) -> None:
                    while not shared.is_set():
                        seen.update((r.partition, r.record.offset) for r in await consumer.poll(0.1))
                        mine, others = first.assignment, second.assignment
                        if others and sorted(mine + others) == partitions and len(seen) == 30:
                            shared.set()

                async with asyncio.timeout(POLL_SECONDS):
                    await asyncio.gather(pump(first), pump(second))
                described = (await groups.describe(client, [group]))[group]
                assert isinstance(described, groups.Group)
                assert sorted(len(member.partitions) for member in described.members) == [1, 2]
                assert described.assignor == assignor
                assert code((await groups.delete(client, [group]))[group]) is ErrorCode.non_empty_group
        assert await groups.delete(client, [group]) == {group: None}

    against(node, work)


def test_the_cluster_describes_itself(node: Node) -> None:
    async def work(client: Client) -> None:
        (partition,) = await made(client, "client-cluster")
        async with Producer(client) as producer:
            await producer.send("client-cluster", b"v")
        described = await cluster.describe(client)
        assert [(b.host, b.port, b.fenced) for b in described.brokers] == [("127.0.0.1", node.port, False)]
        assert "metadata.version" in {feature.name for feature in await cluster.features(client)}
        (directory,) = await cluster.log_dirs(client)
        assert partition in {replica.partition for replica in directory.replicas if replica.size > 0}
        (state,) = results(await cluster.producers(client, [partition]))[partition]
        assert (state.epoch, state.last_sequence, state.transaction_start) == (0, 0, -1)

    against(node, work)
