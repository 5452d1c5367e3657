"""The mirror on real processes: every record once through failures of any process, exact offset translation, and MirrorMaker's formats."""

import asyncio
import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from isthmus_client.admin import group_offsets
from isthmus_client.admin.group_offsets import Committed
from isthmus_client.admin.topics import delete
from isthmus_client.client import Client
from isthmus_client.metadata import TopicPartition
from isthmus_wire.records import batches

from tests.kafka import KafkaNode, fetch, running_kafka
from tests.node import COMBINED, running_cluster, running_node
from tests.system.ledger import PARTITIONS, Ledger, wait_until
from tests.system.linker import await_committed, extents
from tests.system.mirroring import log_of
from tests.system.mirrors import MirrorProcess, contents, running_mirror, without_offsets
from tests.system.quorums import kill_a_leader, query
from tests.system.test_linker import RF3, SOURCE_ID, fill, make, transact

QUICK = {
    "west->east.enabled": "true",
    "west->east.topics": "orders",
    "refresh.topics.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
}


def both(partitions: int, prefix: str = "west.") -> dict[TopicPartition, TopicPartition]:
    return {TopicPartition("orders", i): TopicPartition(f"{prefix}orders", i) for i in range(partitions)}


def assert_copied(source: str, target: str, partitions: dict[TopicPartition, TopicPartition]) -> None:
    """Wait until the copies have as many records, and compare them all."""
    theirs = [without_offsets(one) for one in asyncio.run(contents(source, list(partitions)))]
    counts = [len(one) for one in theirs]

    def is_level() -> bool:
        return [end - start for start, end in extents(target, list(partitions.values()))] == counts

    wait_until(is_level, f"copies with {counts} records")
    ours = [without_offsets(one) for one in asyncio.run(contents(target, list(partitions.values())))]
    assert ours == theirs


def commit(bootstrap: str, group: str, offsets: dict[TopicPartition, int]) -> None:
    """What a group that has stopped leaves behind."""
    wanted = {partition: Committed(offset) for partition, offset in offsets.items()}
    refused = query(bootstrap, lambda client: group_offsets.commit(client, group, wanted))
    assert set(refused.values()) == {None}


def await_topic(bootstrap: str, topic: str) -> None:
    async def with_client(client: Client) -> bool:
        return topic in (await client.refresh([topic])).topics

    wait_until(lambda: bool(query(bootstrap, with_client)), f"topic {topic}")


def ready(mirror: MirrorProcess) -> dict[str, str]:
    try:
        with urllib.request.urlopen(f"{mirror.url}/health/ready") as answer:
            told: dict[str, str] = json.load(answer)
    except urllib.error.HTTPError as error:
        told = json.load(error)
    return told


def batch_count(bootstrap: str, partition: TopicPartition) -> int:
    async def count(client: Client) -> int:
        await client.metadata_of({partition.topic})
        return sum(1 for _ in batches(await log_of(client, partition)))

    return query(bootstrap, count)


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaNode]:
    fetch()
    with running_kafka(tmp_path / "kafka") as node:
        yield node


@pytest.mark.parametrize("from_kafka", [True, False], ids=["from Apache Kafka", "to Apache Kafka"])
def test_records_come_once_and_offsets_are_theirs(tmp_path: Path, kafka: KafkaNode, from_kafka: bool) -> None:
    with running_node(tmp_path / "node") as node:
        west, east = (kafka.bootstrap, node.bootstrap) if from_kafka else (node.bootstrap, kafka.bootstrap)
        make(west, "orders", PARTITIONS)
        for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
            fill(west, "orders", PARTITIONS, 300, compression_type=compression)
        if from_kafka:
            transact(west, "orders")
        with running_mirror(tmp_path / "mirror", {"west": west, "east": east}, QUICK) as mirror:
            await_topic(east, "west.orders")
            assert_copied(west, east, both(PARTITIONS))
            assert ready(mirror) == {"status": "ready"}
            ends = extents(west, list(both(PARTITIONS)))
            commit(west, "readers", dict.fromkeys(both(PARTITIONS), 70))
            commit(west, "done", {partition: end for partition, (_, end) in zip(both(PARTITIONS), ends, strict=True)})
            await_committed(east, "readers", dict.fromkeys(both(PARTITIONS).values(), 70))
            copied = extents(east, list(both(PARTITIONS).values()))
            await_committed(
                east, "done", {copy: end for copy, (_, end) in zip(both(PARTITIONS).values(), copied, strict=True)}
            )
            mirror.kill()
            fill(west, "orders", PARTITIONS, 300)
            mirror.start()
            assert_copied(west, east, both(PARTITIONS))


def test_small_batches_come_joined_to_apache_kafka_unless_its_topic_wants_them_small(
    tmp_path: Path, kafka: KafkaNode
) -> None:
    with running_node(tmp_path / "node") as node:
        make(node.bootstrap, "orders", 1)
        make(node.bootstrap, "notes", 1, max_message_bytes="500")
        for topic in ("orders", "notes"):
            fill(node.bootstrap, topic, 1, 400, batch_num_messages="1")
        clusters = {"west": node.bootstrap, "east": kafka.bootstrap}
        with running_mirror(tmp_path / "mirror", clusters, QUICK | {"west->east.topics": "orders,notes"}):
            for topic in ("orders", "notes"):
                await_topic(kafka.bootstrap, f"west.{topic}")
                copy = TopicPartition(f"west.{topic}", 0)
                assert_copied(node.bootstrap, kafka.bootstrap, {TopicPartition(topic, 0): copy})
        assert batch_count(node.bootstrap, TopicPartition("orders", 0)) == 400
        assert batch_count(kafka.bootstrap, TopicPartition("west.orders", 0)) < 400
        assert batch_count(kafka.bootstrap, TopicPartition("west.notes", 0)) == 400


def write_keys(bootstrap: str, rounds: range) -> None:
    """The same hundred keys again and again, 2.5 MB in 25 rounds."""
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 20, "log_level": 2})
    for number in rounds:
        for key in range(100):
            producer.produce("orders", f"{number:08}" * 128, str(key), partition=0)
    assert producer.flush(60) == 0


def newest(bootstrap: str, topic: str) -> dict[bytes | None, bytes | None]:
    """What compaction must leave."""
    (records,) = asyncio.run(contents(bootstrap, [TopicPartition(topic, 0)]))
    return {record.key: record.value for record in records}


def is_compacted(bootstrap: str, topic: str) -> bool:
    """Whether most of the records are gone."""
    partition = TopicPartition(topic, 0)
    ((start, end),) = extents(bootstrap, [partition])
    return len(asyncio.run(contents(bootstrap, [partition]))[0]) < (end - start) // 2


def test_a_copy_goes_on_after_it_was_compacted(tmp_path: Path) -> None:
    """Batches that its progress names are others then, or gone."""
    never, often = {"log.cleaner.backoff.ms": "86400000"}, {"log.cleaner.backoff.ms": "100"}
    with running_node(tmp_path / "west", never) as west, running_node(tmp_path / "east", often) as east:
        size = str(1 << 20)
        make(
            west.bootstrap, "orders", 1, cleanup_policy="compact", segment_bytes=size, min_cleanable_dirty_ratio="0.01"
        )

        def is_level() -> bool:
            return newest(east.bootstrap, "west.orders") == newest(west.bootstrap, "orders")

        with running_mirror(tmp_path / "mirror", {"west": west.bootstrap, "east": east.bootstrap}, QUICK) as mirror:
            await_topic(east.bootstrap, "west.orders")
            for first in (0, 25, 50):
                write_keys(west.bootstrap, range(first, first + 25))
                wait_until(is_level, "the newest records")
                mirror.kill()
                wait_until(lambda: is_compacted(east.bootstrap, "west.orders"), "a copy that was compacted")
                mirror.start()
            write_keys(west.bootstrap, range(75, 76))
            wait_until(is_level, "the newest records")
            assert ready(mirror) == {"status": "ready"}


def test_a_deleted_copy_is_created_again(tmp_path: Path) -> None:
    with running_node(tmp_path / "west") as west, running_node(tmp_path / "east") as east:
        make(west.bootstrap, "orders", 2)
        fill(west.bootstrap, "orders", 2, 300)
        with running_mirror(tmp_path / "mirror", {"west": west.bootstrap, "east": east.bootstrap}, QUICK) as mirror:
            await_topic(east.bootstrap, "west.orders")
            assert_copied(west.bootstrap, east.bootstrap, both(2))
            mirror.kill()
            assert query(east.bootstrap, lambda client: delete(client, ["west.orders"])) == {"west.orders": None}
            mirror.start()
            await_topic(east.bootstrap, "west.orders")
            assert_copied(west.bootstrap, east.bootstrap, both(2))
            assert query(east.bootstrap, lambda client: delete(client, ["west.orders"])) == {"west.orders": None}
            fill(west.bootstrap, "orders", 2, 300)
            await_topic(east.bootstrap, "west.orders")
            assert_copied(west.bootstrap, east.bootstrap, both(2))


def test_sigkill_of_every_process_under_load(tmp_path: Path) -> None:
    with (
        running_cluster(tmp_path / "west", [COMBINED] * 3, settings=RF3, cluster_id=SOURCE_ID) as west,
        running_cluster(tmp_path / "east", [COMBINED] * 3, settings=RF3) as east,
    ):
        make(west.bootstrap, "orders", PARTITIONS, 3)
        clusters = {"west": west.bootstrap, "east": east.bootstrap}
        with (
            running_mirror(tmp_path / "one", clusters, QUICK) as one,
            running_mirror(tmp_path / "two", clusters, QUICK) as two,
        ):
            load = Ledger(west.bootstrap, "orders")
            load.wait_for(500)
            await_topic(east.bootstrap, "west.orders")
            one.kill()
            load.wait_for(load.total() + 500)
            one.start()
            two.signal(signal.SIGSTOP)
            kill_a_leader(west, "orders", load)
            two.signal(signal.SIGCONT)
            kill_a_leader(east, "west.orders", load)
            two.kill()
            two.start()
            load.wait_for(load.total() + 500)
            load.finish()
            assert_copied(west.bootstrap, east.bootstrap, both(PARTITIONS))


def test_a_mirror_to_itself_and_a_copy_that_is_no_copy_are_refused(tmp_path: Path) -> None:
    with running_node(tmp_path / "west") as west, running_node(tmp_path / "east") as east:
        clusters = {"west": west.bootstrap, "east": west.bootstrap}
        with running_mirror(tmp_path / "self", clusters, QUICK) as mirror:
            wait_until(lambda: "a cluster cannot be mirrored to itself" in ready(mirror).get("reason", ""), "a refusal")
        for node in (west, east):
            make(node.bootstrap, "orders", 1)
            fill(node.bootstrap, "orders", 1, 10)
        clusters = {"west": west.bootstrap, "east": east.bootstrap}
        identity = {**QUICK, "replication.policy.class": "IdentityReplicationPolicy"}
        with running_mirror(tmp_path / "same", clusters, identity) as mirror:
            reason = "orders-0 is not copied: the copy has 10 offsets without recorded progress"
            wait_until(lambda: reason in ready(mirror).get("reason", ""), "a refusal")
        assert extents(east.bootstrap, [TopicPartition("orders", 0)]) == [(0, 10)]


def test_identity_names_never_go_back_and_heartbeats_never_pile_up(tmp_path: Path) -> None:
    with running_node(tmp_path / "west") as west, running_node(tmp_path / "east") as east:
        make(west.bootstrap, "orders", 1)
        fill(west.bootstrap, "orders", 1, 10)
        clusters = {"west": west.bootstrap, "east": east.bootstrap}
        there = {**QUICK, "west->east.replication.policy.class": "IdentityReplicationPolicy"}
        back = {
            "east->west.enabled": "true",
            "east->west.topics": "orders.*",
            "east->west.replication.policy.class": "IdentityReplicationPolicy",
            "refresh.topics.interval.seconds": "1",
        }
        same = {TopicPartition("orders", 0): TopicPartition("orders", 0)}
        with (
            running_mirror(tmp_path / "there", clusters, there),
            running_mirror(tmp_path / "back", clusters, back) as mirror,
        ):
            assert_copied(west.bootstrap, east.bootstrap, same)
            reason = "east->west: orders-0 is not copied"
            wait_until(lambda: reason in ready(mirror).get("reason", ""), "a refusal")
            await_topic(west.bootstrap, "east.heartbeats")
            await_topic(east.bootstrap, "west.heartbeats")
            fill(west.bootstrap, "orders", 1, 10)
            assert_copied(west.bootstrap, east.bootstrap, same)
        assert extents(west.bootstrap, list(same)) == [(0, 20)]
        for node in (west, east):
            names = query(node.bootstrap, _names)
            assert [name for name in names if name.count("heartbeats") and name.count(".") > 1] == []


async def _names(client: Client) -> list[str]:
    return sorted((await client.refresh(None)).topics)


def test_lag_is_reported(tmp_path: Path) -> None:
    with running_node(tmp_path / "west") as west, running_node(tmp_path / "east") as east:
        make(west.bootstrap, "orders", 1)
        fill(west.bootstrap, "orders", 1, 100)
        with running_mirror(tmp_path / "mirror", {"west": west.bootstrap, "east": east.bootstrap}, QUICK):
            settings = {"bootstrap.servers": east.bootstrap, "group.id": "lag", "auto.offset.reset": "earliest"}
            await_topic(east.bootstrap, "__isthmus_lag")
            samples = Consumer({**settings, "log_level": 2})
            samples.subscribe(["__isthmus_lag"])
            found: list[dict[str, object]] = []
            try:
                wait_until(lambda: _take(samples, found), "a sample of lag")
            finally:
                samples.close()
        named = ("kind", "link", "source_topic", "topic", "partition", "source_end", "target_end", "lag_ms")
        assert {key: found[0][key] for key in named} == {
            "kind": "mirror", "link": "west->east", "source_topic": "orders", "topic": "west.orders", "partition": 0,
            "source_end": 100, "target_end": 100, "lag_ms": 0,
        }  # fmt: skip


def _take(consumer: Consumer, found: list[dict[str, object]]) -> bool:
    """Whether a sample came of the copy with everything."""
    message = consumer.poll(0.2)
    value = None if message is None or message.error() is not None else message.value()
    if value is not None and (told := json.loads(value))["topic"] == "west.orders" and told["target_end"] == 100:
        found.append(told)
    return bool(found)
