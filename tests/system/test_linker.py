"""The linker on real processes: byte-for-byte copies through failures of any process; assignment, states, tasks and promotions."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position
from isthmus_client.admin import group_offsets
from isthmus_client.admin.configs import Change, Config, Operation, Resource, alter, describe
from isthmus_client.admin.topics import NewTopic, create, create_partitions, delete, delete_records
from isthmus_client.errors import ClientError
from isthmus_client.metadata import TopicPartition
from isthmus_model.config_resources import ResourceType
from isthmus_wire.extensions.mirrors import MirrorError

from tests.kafka import KafkaNode, fetch, running_kafka
from tests.node import COMBINED, Node, running_cluster, running_node
from tests.system.ledger import PARTITIONS, Ledger, wait_until
from tests.system.linker import (
    Linker,
    assert_identical,
    await_committed,
    await_level,
    await_mirrors,
    await_states,
    extents,
    link,
    running_linker,
    settings,
)
from tests.system.quorums import kill_a_leader, query, wait_for

ALL_GROUPS = json.dumps({"groupFilters": [{"name": "*", "patternType": "LITERAL", "filterType": "INCLUDE"}]})
SYNC_OFFSETS = {
    "consumer.offset.sync.enable": "true",
    "consumer.offset.sync.ms": "1000",
    "consumer.offset.group.filters": ALL_GROUPS,
}
SOURCE_ID = "aXN0aG11cy1vdGhlci1vbg"
RF3 = {"min.insync.replicas": "2", "default.replication.factor": "3", "offsets.topic.replication.factor": "3"}


def same(topic: str, partitions: int, prefix: str = "") -> dict[TopicPartition, TopicPartition]:
    return {TopicPartition(topic, i): TopicPartition(prefix + topic, i) for i in range(partitions)}


def make(bootstrap: str, topic: str, partitions: int, replicas: int = 1, **configs: str) -> None:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    refused = query(bootstrap, lambda client: create(client, [NewTopic(topic, partitions, replicas, configs=named)]))
    assert refused == {topic: None}


def fill(bootstrap: str, topic: str, partitions: int, count: int, **config: str) -> None:
    named = {key.replace("_", "."): value for key, value in config.items()}
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 20, "log_level": 2, **named})
    for number in range(count):
        producer.produce(topic, f"{topic}-{number}" * 5, str(number % 50), partition=number % partitions)
    assert producer.flush(60) == 0


def transact(bootstrap: str, topic: str) -> None:
    """One transaction that is committed, one that is aborted, one that stays open."""
    for number, end in enumerate(("commit_transaction", "abort_transaction", "flush")):
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"t{number}", "log_level": 2})
        producer.init_transactions(60)
        producer.begin_transaction()
        for record in range(30):
            producer.produce(topic, f"{end}-{record}", partition=record % PARTITIONS)
        assert producer.flush(60) == 0
        getattr(producer, end)(60)


def commit(bootstrap: str, group: str, offsets: dict[TopicPartition, int]) -> None:
    """What a consumer that has stopped leaves behind."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 2})
    try:
        consumer.commit(
            offsets=[Position(*partition, offset) for partition, offset in offsets.items()], asynchronous=False
        )
    finally:
        consumer.close()


@contextmanager
def two_nodes(directory: Path) -> Iterator[tuple[Node, Node]]:
    with running_node(directory / "source") as source, running_node(directory / "destination") as destination:
        yield source, destination


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaNode]:
    fetch()
    with running_kafka(tmp_path / "kafka", {"log.cleaner.backoff.ms": "200"}) as node:
        yield node


def test_a_copy_of_apache_kafka_is_byte_for_byte_the_source(tmp_path: Path, kafka: KafkaNode) -> None:
    make(kafka.bootstrap, "orders", PARTITIONS)
    for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
        fill(kafka.bootstrap, "orders", PARTITIONS, 300, compression_type=compression, enable_idempotence="true")
    transact(kafka.bootstrap, "orders")
    _make_compacted(kafka.bootstrap)
    make(kafka.bootstrap, "cut", 1)
    fill(kafka.bootstrap, "cut", 1, 400)
    query(kafka.bootstrap, lambda client: delete_records(client, {TopicPartition("cut", 0): 133}))
    make(kafka.bootstrap, "emptied", 1)
    fill(kafka.bootstrap, "emptied", 1, 40)
    query(kafka.bootstrap, lambda client: delete_records(client, {TopicPartition("emptied", 0): -1}))
    with running_node(tmp_path / "destination") as node, running_linker(tmp_path, node.bootstrap):
        link(node.bootstrap, "create", "west", "--source", kafka.bootstrap)
        link(node.bootstrap, "mirror", "create", "west", "orders", "compacted", "cut", "emptied")
        partitions = same("orders", PARTITIONS) | same("compacted", 1) | same("cut", 1) | same("emptied", 1)
        await_level(kafka.bootstrap, node.bootstrap, partitions)
        assert_identical(kafka.bootstrap, node.bootstrap, partitions)
        assert extents(node.bootstrap, partitions.values()) == extents(kafka.bootstrap, partitions)
        fill(kafka.bootstrap, "orders", PARTITIONS, 500, compression_type="zstd")
        await_level(kafka.bootstrap, node.bootstrap, partitions)
        assert_identical(kafka.bootstrap, node.bootstrap, partitions)


def _make_compacted(bootstrap: str) -> None:
    """A log with holes, made by Kafka's own cleaner."""
    make(bootstrap, "compacted", 1, cleanup_policy="compact", segment_bytes="1048576", min_cleanable_dirty_ratio="0.01")
    fill(bootstrap, "compacted", 1, 40_000)
    # Of several segments only the newest stays as it was written.
    wait_until(lambda: _log_size(bootstrap) < 2 << 20, "Kafka's cleaner")


def _log_size(bootstrap: str) -> int:
    from isthmus_client.admin.cluster import log_dirs

    directories = query(bootstrap, log_dirs)
    return sum(r.size for directory in directories for r in directory.replicas if r.partition.topic == "compacted")


def test_after_failures_under_load_the_copy_is_complete_and_groups_are_at_the_same_record(tmp_path: Path) -> None:
    with (
        running_cluster(tmp_path / "source", [COMBINED] * 3, settings=RF3, cluster_id=SOURCE_ID) as source,
        running_cluster(tmp_path / "destination", [COMBINED] * 3, settings=RF3) as destination,
        running_linker(tmp_path, destination.bootstrap, "one") as one,
        running_linker(tmp_path, destination.bootstrap, "two"),
    ):
        make(source.bootstrap, "ledger", PARTITIONS, 3)
        link(destination.bootstrap, "create", "west", "--source", source.bootstrap, *settings(SYNC_OFFSETS))
        link(destination.bootstrap, "mirror", "create", "west", "ledger")
        partitions = same("ledger", PARTITIONS)
        load = Ledger(source.bootstrap, "ledger")
        load.wait_for(500)
        one.kill()
        load.wait_for(load.total() + 500)
        for cluster in (source, destination):
            kill_a_leader(cluster, "ledger", load)
        one.start()
        load.wait_for(load.total() + 500)
        load.finish()
        await_level(source.bootstrap, destination.bootstrap, partitions)
        load.check()
        assert_identical(source.bootstrap, destination.bootstrap, partitions)
        middle = {
            partition: end // 2
            for partition, (_, end) in zip(partitions, extents(source.bootstrap, partitions), strict=True)
        }
        commit(source.bootstrap, "readers", middle)
        await_committed(destination.bootstrap, "readers", middle)


def test_workers_share_the_partitions_and_take_over_from_a_dead_one(tmp_path: Path) -> None:
    with two_nodes(tmp_path) as (source, destination), running_linker(tmp_path, destination.bootstrap, "one") as one:
        make(source.bootstrap, "orders", 6)
        link(destination.bootstrap, "create", "west", "--source", source.bootstrap)
        link(destination.bootstrap, "mirror", "create", "west", "orders")
        everything = {("orders", index) for index in range(6)}
        wait_until(lambda: one.copied() == everything, "one worker with everything")
        two = Linker(tmp_path, destination.bootstrap, "two")
        two.start()
        try:
            wait_until(lambda: len(one.copied()) == len(two.copied()) == 3, "two workers with a half each")
            assert one.copied() | two.copied() == everything
        finally:
            two.kill()
        wait_until(lambda: one.copied() == everything, "the other half")
        fill(source.bootstrap, "orders", 6, 300)
        await_level(source.bootstrap, destination.bootstrap, same("orders", 6))


def test_pause_resume_promote_and_failover(tmp_path: Path) -> None:
    with two_nodes(tmp_path) as (source, destination), running_linker(tmp_path, destination.bootstrap) as linker:
        for topic in ("orders", "promoted"):
            make(source.bootstrap, topic, 1)
            fill(source.bootstrap, topic, 1, 100)
        link(destination.bootstrap, "create", "west", "--source", source.bootstrap, *settings(SYNC_OFFSETS))
        link(destination.bootstrap, "mirror", "create", "west", "orders", "promoted")
        both = same("orders", 1) | same("promoted", 1)
        await_level(source.bootstrap, destination.bootstrap, both)
        link(destination.bootstrap, "mirror", "pause", "orders")
        wait_until(lambda: linker.copied() == {("promoted", 0)}, "a worker that leaves a paused topic alone")
        fill(source.bootstrap, "orders", 1, 50)
        assert extents(destination.bootstrap, [TopicPartition("orders", 0)]) == [(0, 100)]
        link(destination.bootstrap, "mirror", "resume", "orders")
        await_level(source.bootstrap, destination.bootstrap, both)
        commit(source.bootstrap, "readers", {TopicPartition("promoted", 0): 77})
        link(destination.bootstrap, "mirror", "promote", "promoted")
        await_states(destination.bootstrap, {"promoted": "STOPPED", "orders": "ACTIVE"})
        await_committed(destination.bootstrap, "readers", {TopicPartition("promoted", 0): 77})
        fill(destination.bootstrap, "promoted", 1, 10)
        linker.kill()
        source.kill()
        link(destination.bootstrap, "mirror", "failover", "orders")
        await_states(destination.bootstrap, {"orders": "STOPPED"})
        fill(destination.bootstrap, "orders", 1, 10)
        assert [end for _, end in extents(destination.bootstrap, both.values())] == [160, 110]


def test_a_paused_link_copies_nothing_and_says_so(tmp_path: Path) -> None:
    with two_nodes(tmp_path) as (source, destination), running_linker(tmp_path, destination.bootstrap) as linker:
        make(source.bootstrap, "orders", 1)
        link(destination.bootstrap, "create", "west", "--source", source.bootstrap, *settings(SYNC_OFFSETS))
        link(destination.bootstrap, "mirror", "create", "west", "orders")
        wait_until(lambda: linker.copied() == {("orders", 0)}, "a worker that copies")
        link(destination.bootstrap, "alter", "west", "--config", "cluster.link.paused=true")
        wait_until(lambda: linker.copied() == set(), "a worker that rests")
        fill(source.bootstrap, "orders", 1, 50)
        wait_until(lambda: _tasks(destination)["ConsumerOffsetSync"] == ("LINK_PAUSED", "NO_ERROR"), "resting tasks")
        assert extents(destination.bootstrap, [TopicPartition("orders", 0)]) == [(0, 0)]
        link(destination.bootstrap, "alter", "west", "--config", "cluster.link.paused=false")
        await_level(source.bootstrap, destination.bootstrap, same("orders", 1))


def _tasks(destination: Node) -> dict[str, tuple[str, str]]:
    (told,) = json.loads(link(destination.bootstrap, "describe", "west", "-o", "json"))
    return {task["task"]: (task["state"], task["error"]) for task in told["tasks"]}


@pytest.mark.parametrize(("start", "extent"), [("latest", (130, 130)), ("2023-01-01T00:00:00Z", (100, 130))])
def test_a_copy_may_begin_late(tmp_path: Path, start: str, extent: tuple[int, int]) -> None:
    with two_nodes(tmp_path) as (source, destination), running_linker(tmp_path, destination.bootstrap):
        make(source.bootstrap, "orders", 1, retention_ms="-1")
        producer = Producer({"bootstrap.servers": source.bootstrap, "log_level": 2})
        for number in range(130):
            producer.produce("orders", "x", timestamp=1_600_000_000_000 if number < 100 else 1_700_000_000_000)
            if number == 99:
                producer.flush(30)  # a copy begins with a whole batch
        assert producer.flush(30) == 0
        begin = settings({"mirror.start.offset.spec": start})
        link(destination.bootstrap, "create", "west", "--source", source.bootstrap, *begin)
        link(destination.bootstrap, "mirror", "create", "west", "orders")
        orders = TopicPartition("orders", 0)
        await_level(source.bootstrap, destination.bootstrap, {orders: orders})
        assert extents(destination.bootstrap, [orders]) == [extent]
        fill(source.bootstrap, "orders", 1, 20)
        await_level(source.bootstrap, destination.bootstrap, {orders: orders})
        assert extents(destination.bootstrap, [orders]) == [(extent[0], 150)]


def test_active_groups_keep_their_offsets_and_lag_is_reported(tmp_path: Path) -> None:
    with two_nodes(tmp_path) as (source, destination), running_linker(tmp_path, destination.bootstrap):
        make(source.bootstrap, "orders", 1)
        fill(source.bootstrap, "orders", 1, 100)
        orders = TopicPartition("orders", 0)
        link(destination.bootstrap, "create", "west", "--source", source.bootstrap, *settings(SYNC_OFFSETS))
        link(destination.bootstrap, "mirror", "create", "west", "orders")
        await_level(source.bootstrap, destination.bootstrap, {orders: orders})
        reader = Consumer({"bootstrap.servers": destination.bootstrap, "group.id": "readers", "log_level": 2})
        reader.subscribe(["orders"])
        try:
            wait_until(lambda: reader.poll(0.1) is None and bool(reader.assignment()), "a member at the destination")
            commit(source.bootstrap, "readers", {orders: 40})
            in_use = ("IN_ERROR", "CONSUMER_GROUP_IN_USE_ERROR")
            wait_until(lambda: _tasks(destination)["ConsumerOffsetSync"] == in_use, "a group that is in use")
            assert query(destination.bootstrap, lambda client: group_offsets.fetch(client, "readers", [orders])) == {}
        finally:
            reader.close()
        await_committed(destination.bootstrap, "readers", {orders: 40})
        wait_until(lambda: _tasks(destination)["ConsumerOffsetSync"] == ("ACTIVE", "NO_ERROR"), "a task without error")
        samples = Consumer(
            {
                "bootstrap.servers": destination.bootstrap,
                "group.id": "lag",
                "auto.offset.reset": "earliest",
                "log_level": 2,
            }
        )
        samples.subscribe(["__isthmus_lag"])
        found: list[dict[str, object]] = []
        try:
            wait_until(lambda: bool(found) or _take(samples, found), "a sample of lag")
        finally:
            samples.close()
        told = {
            key: found[0][key] for key in ("kind", "link", "topic", "partition", "source_end", "target_end", "lag_ms")
        }
        assert told == {
            "kind": "link", "link": "west", "topic": "orders", "partition": 0, "source_end": 100, "target_end": 100, "lag_ms": 0
        }  # fmt: skip


def _take(consumer: Consumer, found: list[dict[str, object]]) -> bool:
    """Whether a sample reports a caught-up copy."""
    message = consumer.poll(0.2)
    value = None if message is None or message.error() is not None else message.value()
    if value is not None and json.loads(value)["target_end"] == 100:
        found.append(json.loads(value))
    return bool(found)


def test_topics_that_end_or_grow_at_the_source(tmp_path: Path) -> None:
    with two_nodes(tmp_path) as (source, destination), running_linker(tmp_path, destination.bootstrap):
        for topic in ("gone", "anew", "grown"):
            make(source.bootstrap, topic, 2)
            fill(source.bootstrap, topic, 2, 100)
        link(
            destination.bootstrap, "create", "west", "--source", source.bootstrap,
            *settings({"cluster.link.retry.timeout.ms": "1000"}),
        )  # fmt: skip
        link(destination.bootstrap, "mirror", "create", "west", "gone", "anew", "grown")
        everything = same("gone", 2) | same("anew", 2) | same("grown", 2)
        await_level(source.bootstrap, destination.bootstrap, everything)
        query(source.bootstrap, lambda client: create_partitions(client, {"grown": 3}))
        query(source.bootstrap, lambda client: delete(client, ["gone", "anew"]))
        make(source.bootstrap, "anew", 2)
        fill(source.bootstrap, "anew", 2, 300)
        found = await_states(destination.bootstrap, {"gone": "FAILED", "anew": "FAILED"})
        assert found["gone"].mirror_error == MirrorError.SOURCE_TOPIC_MAY_BE_DELETED
        assert found["anew"].mirror_error == MirrorError.SOURCE_TOPIC_ID_CHANGED
        assert extents(destination.bootstrap, same("anew", 2).values()) == [(0, 50), (0, 50)]
        await_mirrors(destination.bootstrap, lambda found: found["grown"].partitions == 3)
        fill(source.bootstrap, "grown", 3, 300)
        await_level(source.bootstrap, destination.bootstrap, same("grown", 3))


def test_an_unreachable_source_is_reported_and_recovers(tmp_path: Path) -> None:
    with two_nodes(tmp_path) as (source, destination), running_linker(tmp_path, destination.bootstrap):
        make(source.bootstrap, "orders", 1)
        fill(source.bootstrap, "orders", 1, 100)
        quick = {"availability.check.ms": "1000", "availability.check.consecutive.failure.threshold": "2"}
        link(destination.bootstrap, "create", "west", "--source", source.bootstrap, *settings(quick))
        link(destination.bootstrap, "mirror", "create", "west", "orders")
        await_level(source.bootstrap, destination.bootstrap, same("orders", 1))
        source.kill()
        await_states(destination.bootstrap, {"orders": "SOURCE_UNAVAILABLE"})
        (told,) = json.loads(link(destination.bootstrap, "describe", "west", "-o", "json"))
        assert (told["state"], told["error"]) == ("UNAVAILABLE", "BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR")
        source.start()
        await_states(destination.bootstrap, {"orders": "ACTIVE"})
        fill(source.bootstrap, "orders", 1, 100)
        await_level(source.bootstrap, destination.bootstrap, same("orders", 1))


def test_a_linker_inside_a_node_makes_mirrors_by_itself_and_keeps_their_configs_and_groups(tmp_path: Path) -> None:
    everything = {"name": "or", "patternType": "PREFIXED", "filterType": "INCLUDE"}
    but = {"name": "orphans", "patternType": "LITERAL", "filterType": "EXCLUDE"}
    tasks = {
        "auto.create.mirror.topics.enable": "true",
        "auto.create.mirror.topics.filters": json.dumps({"topicFilters": [everything, but]}),
        "topic.config.sync.ms": "1000",
        "cluster.link.prefix": "west.",
        "consumer.group.prefix.enable": "true",
        **SYNC_OFFSETS,
    }
    with running_node(tmp_path / "source") as source, _node_with_linker(tmp_path / "destination") as destination:
        for topic in ("orders", "orphans", "other"):
            make(source.bootstrap, topic, 2)
        fill(source.bootstrap, "orders", 2, 200)
        link(destination.bootstrap, "create", "west", "--source", source.bootstrap, *settings(tasks))
        assert sorted(await_states(destination.bootstrap, {"west.orders": "ACTIVE"})) == ["west.orders"]
        await_level(source.bootstrap, destination.bootstrap, same("orders", 2, "west."))
        commit(source.bootstrap, "readers", {TopicPartition("orders", 1): 60})
        await_committed(destination.bootstrap, "west.readers", {TopicPartition("west.orders", 1): 60})
        resource = Resource(ResourceType.TOPIC, "orders")
        changes = [
            Change("retention.ms", Operation.SET, "7200000"),
            Change("max.message.bytes", Operation.SET, "5000000"),
        ]
        query(source.bootstrap, lambda client: alter(client, {resource: changes}))
        mirror = Resource(ResourceType.TOPIC, "west.orders")
        wait_for(
            destination.bootstrap,
            lambda client: describe(client, [mirror]),
            lambda found: {("retention.ms", "7200000"), ("max.message.bytes", "5000000")} <= _set(found[mirror]),
        )


def _set(configs: list[Config] | ClientError) -> set[tuple[str, str | None]]:
    assert not isinstance(configs, ClientError), configs
    return {(config.name, config.value) for config in configs if config.is_set}


@contextmanager
def _node_with_linker(directory: Path) -> Iterator[Node]:
    roles = {
        "process.roles": "broker,controller,linker",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "offsets.topic.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    node = Node(directory, roles)
    node.settings["controller.quorum.voters"] = f"1@127.0.0.1:{node.controller_port}"
    node.start()
    try:
        yield node
    finally:
        assert node.stop() == 0
