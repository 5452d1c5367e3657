"""The destination of a link on real processes: copies that are the source byte for byte, killed leaders, failover without the source."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as At
from isthmus_client.admin.links import create_link, describe_links
from isthmus_client.admin.mirrors import alter_mirrors, create_mirror, describe_mirrors, raise_leader_epochs, refusal
from isthmus_client.admin.topics import NewTopic, create, create_partitions, delete_records, describe
from isthmus_client.append_mirrored import Batches, LogEnd, append_mirrored, progress
from isthmus_client.client import Client
from isthmus_client.errors import ClientError, Refused
from isthmus_client.metadata import TopicPartition
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.mirrors import MirrorAction
from isthmus_wire.records import NewRecord, batches, build_batch, build_control_batch

from tests.conformance.clients.java import run as run_java
from tests.node import COMBINED, NO_RETENTION_CHECK, Cluster, Node, running_node
from tests.process import ISTHMUS
from tests.system.mirroring import connected, copy, log_of
from tests.system.quorums import await_fenced, await_in_sync, query
from tests.system.test_quorum_tools import as_apache_kafka

PARTITIONS = 2
RECORDS = 300
ORDERS = [TopicPartition("orders", index) for index in range(PARTITIONS)]
SETTINGS = {
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "broker.session.timeout.ms": "3000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    **NO_RETENTION_CHECK,
}


@contextmanager
def destination(directory: Path) -> Iterator[Cluster]:
    cluster = Cluster(directory, [COMBINED] * 3, settings=SETTINGS)
    cluster.format()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()


def fill(bootstrap: str, topic: str, compression: str, count: int = RECORDS) -> None:
    """Idempotent records of a real client, in many batches."""
    config = {"enable.idempotence": True, "compression.type": compression, "batch.num.messages": 20}
    producer = Producer({"bootstrap.servers": bootstrap, **config})
    for number in range(count):
        producer.produce(topic, f"{compression}-{number}" * 9, str(number), partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def produced(bootstrap: str, topic: str, value: str, partition: int = 0) -> KafkaError | None:
    """The outcome of one record for a real client."""
    heard: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        heard.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 20_000})
    producer.produce(topic, value, partition=partition, on_delivery=delivered)
    producer.flush(30)
    (error,) = heard
    return error


def values(bootstrap: str, topic: str, partition: int, count: int) -> list[str]:
    """What a real client reads from the beginning."""
    config = {
        "group.id": "reader",
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "log_level": 2,
    }
    consumer = Consumer({"bootstrap.servers": bootstrap, **config})
    consumer.assign([At(topic, partition, 0)])
    try:
        found: list[str] = []
        while len(found) < count:
            message = consumer.poll(30)
            assert message is not None, f"only {len(found)} of {count}"
            error, value = message.error(), message.value()
            if error is not None:
                raise KafkaException(error)
            assert value is not None
            found.append(value.decode())
        return found
    finally:
        consumer.close()


def isthmus(*arguments: str, bootstrap: str, status: int = 0) -> str:
    """What the command says."""
    done = subprocess.run(
        [ISTHMUS, "link", *arguments, "-b", bootstrap], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


async def logs(client: Client, partitions: list[TopicPartition]) -> list[bytes]:
    return [await log_of(client, partition) for partition in partitions]


def test_a_copy_survives_killed_leaders_and_fails_over_without_its_source(tmp_path: Path) -> None:
    source = Node(tmp_path / "source")
    source.start()
    try:
        with destination(tmp_path / "destination") as cluster:
            query(source.bootstrap, lambda client: create(client, [NewTopic("orders", PARTITIONS, 1)]))
            isthmus("create", "west", "--source", source.bootstrap, bootstrap=cluster.bootstrap)
            isthmus("mirror", "create", "west", "orders", bootstrap=cluster.bootstrap)
            for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
                fill(source.bootstrap, "orders", compression)
            original = asyncio.run(_copied_while_leaders_die(source, cluster))
            await_in_sync(cluster.bootstrap, "orders", {1, 2, 3})
            everything = [values(source.bootstrap, "orders", index, 5 * RECORDS // PARTITIONS) for index in range(2)]
            source.kill()
            _refuses_clients(cluster)

            cluster.end()
            cluster.start()  # from snapshots and logs
            assert asyncio.run(_read(cluster, ORDERS)) == original
            refused = isthmus("mirror", "promote", "orders", bootstrap=cluster.bootstrap, status=1)
            assert "the source position of partition 0 is stale" in refused
            survivor = _one_node_of_three(cluster)
            told = json.loads(isthmus("mirror", "failover", "--link", "west", "-o", "json", bootstrap=survivor))
            assert [(one["topic"], one["error"]) for one in told] == [("orders", None)]
            _takes_clients(survivor, everything, original)
    finally:
        source.kill()


async def _copied_while_leaders_die(source: Node, cluster: Cluster) -> list[bytes]:
    """Every few appends the leader of a partition is killed, and the last one killed comes back."""
    appends, dead = 0, list[int]()
    async with connected(source.bootstrap) as there, connected(cluster.bootstrap) as here:

        def kill_one() -> None:
            nonlocal appends
            appends += 1
            if appends % 8 or appends > 24:
                return
            if dead:
                cluster.start(dead.pop())
            known = here.view.leader(ORDERS[0])
            if known is not None and cluster.nodes[known.leader].running:
                cluster.nodes[known.leader].kill()
                dead.append(known.leader)

        await copy(there, here, "west", ORDERS, after_append=kill_one, max_bytes=2_000)
        assert appends > 24, "leaders were killed in between"
        if dead:
            cluster.start(dead.pop())
        original = await logs(there, ORDERS)
        assert await logs(here, ORDERS) == original
        codecs = {header.compression for data in original for _, header in batches(data)}
        assert codecs == {0, 1, 2, 3, 4}
    return original


async def _read(cluster: Cluster, partitions: list[TopicPartition]) -> list[bytes]:
    async with connected(cluster.bootstrap) as client:
        return await logs(client, partitions)


def _refuses_clients(cluster: Cluster) -> None:
    error = produced(cluster.bootstrap, "orders", "mine")
    assert error is not None
    assert error.code() == KafkaError.POLICY_VIOLATION
    grown = query(cluster.bootstrap, lambda client: create_partitions(client, {"orders": 5}))
    assert grown["orders"] is not None
    assert grown["orders"].code is ErrorCode.policy_violation
    shortened = query(cluster.bootstrap, lambda client: delete_records(client, {ORDERS[0]: 1}))
    refused = shortened[ORDERS[0]]
    assert isinstance(refused, Refused)
    assert refused.code is ErrorCode.policy_violation


def _one_node_of_three(cluster: Cluster) -> str:
    """The address of one node, after another was killed."""
    await_in_sync(cluster.bootstrap, "orders", {1, 2, 3})
    cluster.nodes[3].kill()
    await_fenced(cluster.nodes[1].bootstrap, 3)
    return cluster.nodes[1].bootstrap


def _takes_clients(bootstrap: str, everything: list[list[str]], original: list[bytes]) -> None:
    for index, known in enumerate(everything):
        assert produced(bootstrap, "orders", f"own-{index}", index) is None
        assert values(bootstrap, "orders", index, len(known) + 1) == [*known, f"own-{index}"]

    async def after() -> None:
        async with connected(bootstrap) as client:
            topic = (await describe(client, ["orders"]))["orders"]
            assert min(partition.leader_epoch for partition in topic.partitions.values()) >= 10
            for partition, before in zip(ORDERS, original, strict=True):
                now = await log_of(client, partition)
                assert now.startswith(before)
                epochs = [header.leader_epoch for _, header in batches(now)]
                assert epochs == sorted(epochs)
                assert epochs[-1] >= 10
            (mirror,) = await describe_mirrors(client)
            assert mirror.state == "STOPPED"

    asyncio.run(after())


def crafted(base: int, *payload: bytes, epoch: int, **fields: Any) -> bytes:
    return build_batch([NewRecord(b"k", one, 5_000) for one in payload], base_offset=base, leader_epoch=epoch, **fields)


def test_gaps_epochs_and_open_transactions_of_a_source(tmp_path: Path) -> None:
    """Batches as a compacted source with other leaders has them, on three replicas, through a crash of all of them and a failover."""
    marker = build_control_batch(
        1, bytes(6), timestamp=5_000, base_offset=61, leader_epoch=9, producer_id=7, producer_epoch=2
    )
    transaction = {"attributes": 0x10, "producer_epoch": 2, "base_sequence": 0}
    data = (
        crafted(40, b"a", b"b", epoch=3, compression=4)
        + crafted(50, b"c", epoch=9)
        + crafted(60, b"d", epoch=9, producer_id=7, **transaction)
        + marker
        + crafted(70, b"open", epoch=9, producer_id=8, **transaction)
    )
    t0 = TopicPartition("t", 0)
    with running_node(tmp_path / "source") as source, destination(tmp_path / "destination") as cluster:
        query(source.bootstrap, lambda client: create(client, [NewTopic("t", 1, 1)]))

        async def begun() -> None:
            async with connected(cluster.bootstrap) as client:
                link_id = await create_link(client, "west", {"bootstrap.servers": source.bootstrap})
                assert link_id is not None
                await create_mirror(client, "west", "t")
                await client.refresh(["t"])
                wanted = {t0: Batches(0, data, 71, 9, start_offset=40)}
                refused = await _appended(client, link_id, wanted, ErrorCode.fenced_leader_epoch)
                assert refused.log_end == 0
                assert await raise_leader_epochs(client, {t0: 19}) == {"t": None}
                end = await _appended(client, link_id, wanted, ErrorCode.none)
                assert (end.log_start, end.log_end, end.last_epoch) == (40, 71, 9)

        asyncio.run(begun())
        await_in_sync(cluster.bootstrap, "t", {1, 2, 3})
        cluster.end()
        cluster.start()

        async def ended() -> None:
            async with connected(cluster.bootstrap) as client:
                told = (await progress(client, [t0]))[t0]
                assert not isinstance(told, ClientError)
                assert (told.log_start_offset, told.log_end_offset, told.last_epoch) == (40, 71, 9)
                (altered,) = (await alter_mirrors(client, MirrorAction.FAILOVER, ["t"])).values()
                assert refusal(altered) is None

        asyncio.run(ended())
        assert values(cluster.bootstrap, "t", 0, 4) == ["a", "b", "c", "d"]
        assert produced(cluster.bootstrap, "t", "own") is None
        assert values(cluster.bootstrap, "t", 0, 5) == ["a", "b", "c", "d", "own"]


async def _appended(client: Client, link_id: Any, wanted: dict[TopicPartition, Batches], code: ErrorCode) -> LogEnd:
    """The outcome, once no election and no change of epochs is in the way."""
    async with asyncio.timeout(30):
        while True:
            (end,) = (await append_mirrored(client, link_id, wanted)).values()
            found = ErrorCode.none
            if isinstance(end, LogEnd) and end.refused is not None:
                found = end.refused.code
            if isinstance(end, LogEnd) and found is code:
                return end
            await asyncio.sleep(0.02)


def test_a_broker_of_apache_kafka_follows_links_and_copies(tmp_path: Path) -> None:
    """It replays and keeps their records, replicates the copy from its leader, and has it in its own history of epochs."""
    cluster = Cluster(tmp_path / "destination", ["controller", "broker", "broker"])
    cluster.format()
    try:
        cluster.start(1, 2)
        own = cluster.nodes[2]
        with running_node(tmp_path / "source") as source, as_apache_kafka(cluster, 3) as kafka:
            await_fenced(own.bootstrap, 3, fenced=False)
            query(source.bootstrap, lambda client: create(client, [NewTopic("orders", PARTITIONS, 1)]))
            isthmus("create", "west", "--source", source.bootstrap, bootstrap=own.bootstrap)
            isthmus("mirror", "create", "west", "orders", "-r", "2", bootstrap=own.bootstrap)
            await_in_sync(own.bootstrap, "orders", {2, 3})
            fill(source.bootstrap, "orders", "lz4")

            async def copied() -> TopicPartition:
                async with connected(source.bootstrap) as there, connected(own.bootstrap) as here:
                    await here.refresh(["orders"])
                    (led,) = [tp for tp in ORDERS if (known := here.view.leader(tp)) and known.leader == 2]
                    await copy(there, here, "west", [led])
                    assert await log_of(here, led) == await log_of(there, led)
                    return led

            led = asyncio.run(copied())
            await_in_sync(own.bootstrap, "orders", {2, 3})
            assert run_java("kafka-topics", "--bootstrap-server", kafka.bootstrap, "--list") == ["orders"]
            isthmus("mirror", "failover", "orders", bootstrap=own.bootstrap)
            assert produced(own.bootstrap, "orders", "own", led.partition) is None
            await_in_sync(own.bootstrap, "orders", {2, 3})
            assert kafka.stop() in (0, 143)
            data = cluster.nodes[3].directory / "data"
            assert (data / f"orders-{led.partition}" / "00000000000000000000.log").read_bytes() == asyncio.run(
                _read(cluster, [led])
            )[0]
            (metadata,) = (data / "__cluster_metadata-0").glob("0*.log")
            dumped = run_java("kafka-dump-log", "--files", str(metadata), "--cluster-metadata-decoder")
            assert [line for line in dumped if "link/west" in line and "source.cluster.id" in line]
            assert [line for line in dumped if "mirror/orders" in line and "STOPPED" in line]
            kafka.start()
            await_fenced(own.bootstrap, 3, fenced=False)
            await_in_sync(own.bootstrap, "orders", {2, 3})
    finally:
        cluster.end()


def reported(*arguments: str, bootstrap: str) -> Any:
    """The JSON output of a command."""
    return json.loads(isthmus(*arguments, "-o", "json", bootstrap=bootstrap))


def test_the_commands(tmp_path: Path) -> None:
    with running_node(tmp_path / "source") as source, running_node(tmp_path / "destination") as node:
        do = partial(isthmus, bootstrap=node.bootstrap)
        say = partial(reported, bootstrap=node.bootstrap)
        query(source.bootstrap, lambda client: create(client, [NewTopic("orders", PARTITIONS, 1)]))
        own = do("create", "me", "--source", node.bootstrap, status=1)
        assert own.startswith("isthmus: link me: invalid_request: The source is cluster ")
        assert "cannot be queried" in do("create", "no", "--source", "127.0.0.1:1", status=1)
        with_prefix = ("--source", source.bootstrap, "--config", "cluster.link.prefix=w.")
        assert do("create", "west", *with_prefix, "--dry-run") == "link west can be created\n"
        assert do("create", "west", *with_prefix) == "link west created\n"
        assert do("alter", "west", "--config", "consumer.offset.sync.ms=2000") == "link west altered\n"
        (link,) = say("describe", "west")
        assert (link["state"], link["error"], link["mirror_topics"]) == ("ACTIVE", "NO_ERROR", [])
        assert {"config": "consumer.offset.sync.ms", "value": "2000", "default": False} in link["configs"]

        created = do("mirror", "create", "west", "orders", "nothing", status=1)
        assert created.startswith("isthmus: mirror topic nothing: unknown_topic_or_partition")
        (mirror,) = say("mirror", "list")
        assert (mirror["topic"], mirror["source_topic"], mirror["state"]) == ("w.orders", "orders", "ACTIVE")
        for action, state in (("pause", "PAUSED"), ("resume", "ACTIVE")):
            (altered,) = say("mirror", action, "w.orders")
            assert altered == {"topic": "w.orders", "error": None, "error_message": None, "lags": []}
            assert [one["state"] for one in say("mirror", "list", "--link", "west")] == [state]
        (described,) = say("mirror", "describe", "w.orders")
        assert [(one["partition"], one["lag"], one["log_end"]) for one in described["lags"]] == [
            (0, None, 0),
            (1, None, 0),
        ]
        assert "still copies 1 topic(s): w.orders" in do("delete", "west", status=1)
        asyncio.run(_level(node.bootstrap))
        (promoted,) = say("mirror", "promote", "--link", "west")
        assert promoted["error"] is None
        assert [lag["lag"] for lag in promoted["lags"]] == [0, 0]
        assert say("mirror", "list")[0]["state"] == "PENDING_STOPPED"
        assert do("delete", "west", "--force") == "link west deleted\n"
        assert say("list") == say("mirror", "list") == []
        assert produced(node.bootstrap, "w.orders", "own") is None


async def _level(bootstrap: str) -> None:
    """Report to the leader that an empty source has no more records."""
    async with connected(bootstrap) as client:
        (link,) = await describe_links(client)
        assert link.link_id is not None
        await client.refresh(["w.orders"])
        news = {TopicPartition("w.orders", index): Batches(0, source_high_watermark=0) for index in range(PARTITIONS)}
        assert all(
            isinstance(end, LogEnd) and end.refused is None
            for end in (await append_mirrored(client, link.link_id, news)).values()
        )
