"""kafka-python, unmodified, against a node."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.conformance.clients.kafka_python import (
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    NewTopic,
    OffsetAndMetadata,
    TopicAlreadyExistsError,
    TopicPartition,
)
from tests.conformance.clients.waiting import DEADLINE_SECONDS, wait_until
from tests.node import Node

# For snappy it wants a package of its own; the other clients test that.
COMPRESSIONS = (None, "gzip", "lz4", "zstd")


@pytest.fixture(scope="module")
def admin(node: Node) -> Iterator[KafkaAdminClient]:
    with closing(KafkaAdminClient(bootstrap_servers=node.bootstrap)) as client:
        yield client


def consumer_of(node: Node, *topics: str, **config: Any) -> KafkaConsumer:
    settings = {"enable_auto_commit": False, "auto_offset_reset": "earliest", "heartbeat_interval_ms": 200, **config}
    consumer = KafkaConsumer(*topics, bootstrap_servers=node.bootstrap, **settings)
    # A leader of this client's assigns from the metadata it has, and assigns nothing while it has none.
    wait_until(lambda: all(consumer.partitions_for_topic(topic) for topic in topics), "the metadata of its topics")
    return consumer


def take(consumer: KafkaConsumer, count: int) -> list[Any]:
    found: list[Any] = []

    def enough() -> bool:
        for messages in consumer.poll(timeout_ms=100).values():
            found.extend(messages)
        return len(found) >= count

    wait_until(enough, f"{count} messages")
    assert len(found) == count
    return found


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_idempotent_produce_and_consume(node: Node, admin: KafkaAdminClient, compression: str | None) -> None:
    topic = f"kafka-python-{compression}"
    admin.create_topics([NewTopic(topic, 1, 1)])
    values = [b"%d-" % number + b"x" * 200 for number in range(500)]
    config = {"compression_type": compression, "enable_idempotence": True, "linger_ms": 5}
    with closing(KafkaProducer(bootstrap_servers=node.bootstrap, **config)) as producer:
        sent = [producer.send(topic, value, key=b"k", partition=0, headers=[("h", b"1")]) for value in values]
        assert [one.get(DEADLINE_SECONDS).offset for one in sent] == list(range(500))
    with closing(consumer_of(node, topic)) as consumer:
        messages = take(consumer, 500)
    assert [(message.offset, message.value) for message in messages] == list(enumerate(values))
    assert {(message.key, tuple(message.headers)) for message in messages} == {(b"k", (("h", b"1"),))}


def test_offsets_by_timestamp(node: Node, admin: KafkaAdminClient) -> None:
    topic = "kafka-python-timestamps"
    admin.create_topics([NewTopic(topic, 1, 1)])
    with closing(KafkaProducer(bootstrap_servers=node.bootstrap)) as producer:
        for number in range(10):
            producer.send(topic, b"x", partition=0, timestamp_ms=1_700_000_000_000 + 1000 * number)
    partition = TopicPartition(topic, 0)
    with closing(consumer_of(node)) as consumer:
        consumer.assign([partition])
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 10}
        found = consumer.offsets_for_times({partition: 1_700_000_003_001})[partition]
        assert (found.offset, found.timestamp) == (4, 1_700_000_004_000)
        assert consumer.offsets_for_times({partition: 1_700_000_009_001}) == {partition: None}


def test_a_group_shares_partitions_and_resumes_where_it_committed(node: Node, admin: KafkaAdminClient) -> None:
    topic, group = "kafka-python-group", "kafka-python-group"
    admin.create_topics([NewTopic(topic, 4, 1)])
    partitions = [TopicPartition(topic, number) for number in range(4)]
    with closing(KafkaProducer(bootstrap_servers=node.bootstrap)) as producer:
        for partition in partitions:
            for number in range(10):
                producer.send(topic, b"%d" % number, partition=partition.partition)
    with closing(consumer_of(node, topic, group_id=group)) as first:
        messages = take(first, 40)
        assert {(m.partition, m.offset) for m in messages} == {(p, o) for p in range(4) for o in range(10)}
        first.commit({p: OffsetAndMetadata(5 + p.partition, f"at {p.partition}", 0) for p in partitions})
        with closing(consumer_of(node, topic, group_id=group)) as second:

            def shared() -> bool:
                first.poll(timeout_ms=50)
                second.poll(timeout_ms=50)
                return len(first.assignment()) == len(second.assignment()) == 2

            wait_until(shared, "both members to have two partitions")
            assert first.assignment() | second.assignment() == set(partitions)
    with closing(consumer_of(node, topic, group_id=group)) as third:
        committed = [third.committed(partition, metadata=True) for partition in partitions]
        assert committed == [OffsetAndMetadata(5 + number, f"at {number}", 0) for number in range(4)]
        rest = take(third, 5 + 4 + 3 + 2)
        assert {(m.partition, m.offset) for m in rest} == {(p, o) for p in range(4) for o in range(5 + p, 10)}


def test_a_static_member_comes_back(node: Node, admin: KafkaAdminClient) -> None:
    topic = "kafka-python-static"
    admin.create_topics([NewTopic(topic, 2, 1)])
    config = {"group_id": "kafka-python-static", "group_instance_id": "one"}
    for _ in range(2):
        with closing(consumer_of(node, topic, **config)) as consumer:
            wait_until(lambda: consumer.poll(timeout_ms=50) == {} and len(consumer.assignment()) == 2, "its partitions")


def test_administration(node: Node, admin: KafkaAdminClient) -> None:
    topic, group = "kafka-python-admin", "kafka-python-admin"
    admin.create_topics([NewTopic(topic, 1, 1, topic_configs={"retention.ms": "1234567"})])
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(topic, 1, 1)])
    admin.create_partitions({topic: 3})
    (described,) = admin.describe_topics([topic])
    assert sorted(one["partition_index"] for one in described["partitions"]) == [0, 1, 2]
    with closing(KafkaProducer(bootstrap_servers=node.bootstrap)) as producer:
        for _ in range(5):
            producer.send(topic, b"x", partition=0)
    partition = TopicPartition(topic, 0)
    assert admin.delete_records({partition: 3})[partition]["low_watermark"] == 3
    with closing(consumer_of(node, topic, group_id=group)) as consumer:
        assert [message.offset for message in take(consumer, 2)] == [3, 4]
        consumer.commit()
    assert admin.list_group_offsets(group)[group][partition].offset == 5
    configs = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])["topic"][topic]
    assert {name: config["value"] for name, config in configs.items()} == {"retention.ms": "1234567"}
    listed = {one["group_id"]: (one["group_state"], one["group_type"]) for one in admin.list_groups()}
    assert listed[group] == ("Empty", "classic")
    described = admin.describe_groups([group])[group]
    assert (described["group_state"], described["members"]) == ("Empty", [])
    assert admin.delete_groups([group]) == {group: "OK"}
    ((directory,),) = [broker["log_dirs"] for broker in admin.describe_log_dirs()]
    assert [len(one["partitions"]) for one in directory["topics"] if one["name"] == topic] == [3]
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
