"""confluent-kafka (librdkafka), unmodified, against a node."""

from collections import defaultdict
from collections.abc import Mapping
from contextlib import closing
from types import MappingProxyType
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported without saying so
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from tests.conformance.clients.waiting import DEADLINE_SECONDS, wait_until
from tests.node import Node

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
# Members of classic groups learn of a rebalance by heartbeat; for the others the broker sets the interval.
PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {"group.protocol": "classic", "heartbeat.interval.ms": 200},
    "consumer": {"group.protocol": "consumer"},
}


@pytest.fixture(scope="module")
def admin(node: Node) -> AdminClient:
    return AdminClient({"bootstrap.servers": node.bootstrap})


def create(admin: AdminClient, topic: str, partitions: int = 1, **config: str) -> str:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(DEADLINE_SECONDS)
    return topic


def produce(
    node: Node, topic: str, values: list[bytes], partition: int = 0, config: Mapping[str, Any] = MappingProxyType({})
) -> list[int]:
    """Produce, and the offsets in the order of their acknowledgement."""
    offsets: list[int] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        offset = message.offset()
        assert offset is not None
        offsets.append(offset)

    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 5, **config})
    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=delivered)
    assert producer.flush(DEADLINE_SECONDS) == 0
    return offsets


def reader(node: Node, group: str = "reader", **config: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **config,
        }
    )


def take(consumer: Consumer, count: int) -> list[Message]:
    """Exactly so many messages, none of them an error."""
    found: list[Message] = []

    def enough() -> bool:
        for message in consumer.consume(count - len(found), 0.2):
            assert message.error() is None, message.error()
            found.append(message)
        return len(found) == count

    wait_until(enough, f"{count} messages")
    return found


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_idempotent_produce_and_consume(node: Node, admin: AdminClient, compression: str) -> None:
    topic = create(admin, f"confluent-{compression}")
    values = [b"%d-" % number + b"x" * 200 for number in range(500)]
    offsets = produce(node, topic, values, 0, {"compression.type": compression, "enable.idempotence": True})
    assert offsets == list(range(500))
    with closing(reader(node)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages = take(consumer, 500)
    assert [(message.offset(), message.value()) for message in messages] == list(enumerate(values))


def test_keys_headers_and_timestamps_come_back(node: Node, admin: AdminClient) -> None:
    topic = create(admin, "confluent-headers")
    producer = Producer({"bootstrap.servers": node.bootstrap})
    headers: list[tuple[str, str | bytes | None]] = [("a", b"1"), ("a", b"2"), ("empty", b""), ("null", None)]
    producer.produce(topic, None, b"key", partition=0, timestamp=1_700_000_000_123, headers=headers)
    assert producer.flush(DEADLINE_SECONDS) == 0
    with closing(reader(node)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        (message,) = take(consumer, 1)
    assert (message.key(), message.value(), message.headers()) == (b"key", None, headers)
    assert message.timestamp() == (TIMESTAMP_CREATE_TIME, 1_700_000_000_123)
    assert message.leader_epoch() == 0


def test_log_append_time(node: Node, admin: AdminClient) -> None:
    topic = create(admin, "confluent-append-time", message_timestamp_type="LogAppendTime")
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce(topic, b"x", partition=0, timestamp=1_700_000_000_123)
    assert producer.flush(DEADLINE_SECONDS) == 0
    with closing(reader(node)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        (message,) = take(consumer, 1)
    kind, timestamp = message.timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert timestamp > 1_750_000_000_000


def test_offsets_by_timestamp_and_watermarks(node: Node, admin: AdminClient) -> None:
    topic = create(admin, "confluent-timestamps")
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(10):
        producer.produce(topic, b"x", partition=0, timestamp=1_700_000_000_000 + 1000 * number)
    assert producer.flush(DEADLINE_SECONDS) == 0
    with closing(reader(node)) as consumer:
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=DEADLINE_SECONDS) == (0, 10)
        for timestamp, offset in (
            (0, 0),
            (1_700_000_003_001, 4),
            (1_700_000_009_000, 9),
            (1_700_000_009_001, OFFSET_END),
        ):
            (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp)], DEADLINE_SECONDS)
            assert (found.error, found.offset) == (None, offset)
    specs = (
        OffsetSpec.earliest(),  # type: ignore[no-untyped-call]  # not typed there
        OffsetSpec.latest(),  # type: ignore[no-untyped-call]  # not typed there
        OffsetSpec.max_timestamp(),  # type: ignore[no-untyped-call]  # not typed there
        OffsetSpec.for_timestamp(1_700_000_003_001),
    )
    for spec, offset in zip(specs, (0, 10, 9, 4), strict=True):
        partition = TopicPartition(topic, 0)
        for isolation in IsolationLevel:
            listed = admin.list_offsets({partition: spec}, isolation_level=isolation)[partition]
            assert listed.result(DEADLINE_SECONDS).offset == offset


def assigned(consumer: Consumer) -> set[int]:
    return {partition.partition for partition in consumer.assignment()}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_shares_partitions_and_resumes_where_it_committed(
    node: Node, admin: AdminClient, protocol: str
) -> None:
    topic = create(admin, f"confluent-group-{protocol}", 4)
    group = f"confluent-{protocol}"
    for partition in range(4):
        produce(node, topic, [b"%d" % number for number in range(10)], partition)
    config = PROTOCOLS[protocol]
    with closing(reader(node, group, **config)) as first:
        first.subscribe([topic])
        messages = take(first, 40)
        read: dict[int, list[int]] = defaultdict(list)
        for message in messages:
            read[message.partition() or 0].append(message.offset() or 0)
        assert read == {partition: list(range(10)) for partition in range(4)}
        commits = [TopicPartition(topic, partition, 5 + partition, f"at {partition}") for partition in range(4)]
        first.commit(offsets=commits, asynchronous=False)
        with closing(reader(node, group, **config)) as second:
            second.subscribe([topic])

            def shared() -> bool:
                first.poll(0.05)
                second.poll(0.05)
                return len(assigned(first)) == 2 and assigned(first) | assigned(second) == {0, 1, 2, 3}

            wait_until(shared, "both members to have two partitions")
    with closing(reader(node, group, **config)) as third:
        committed = third.committed([TopicPartition(topic, partition) for partition in range(4)], DEADLINE_SECONDS)
        assert [(one.offset, one.metadata) for one in committed] == [(5 + p, f"at {p}") for p in range(4)]
        third.subscribe([topic])
        rest = take(third, 40 - 5 - 6 - 7 - 8)
        assert {(m.partition(), m.offset()) for m in rest} == {(p, o) for p in range(4) for o in range(5 + p, 10)}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_static_member_keeps_its_partitions_when_it_comes_back(node: Node, admin: AdminClient, protocol: str) -> None:
    topic = create(admin, f"confluent-static-{protocol}", 4)
    group = f"confluent-static-{protocol}"

    def member(instance: str) -> Consumer:
        consumer = reader(node, group, **PROTOCOLS[protocol], **{"group.instance.id": instance})
        consumer.subscribe([topic])
        return consumer

    one, two = member("one"), member("two")

    def settled() -> bool:
        one.poll(0.05)
        two.poll(0.05)
        return len(assigned(one)) == len(assigned(two)) == 2

    wait_until(settled, "both members to have two partitions")
    had = assigned(two)
    two.close()
    two = member("two")
    wait_until(settled, "the member that came back to have two partitions")
    assert assigned(two) == had
    one.close()
    two.close()


def test_cooperative_rebalancing_takes_only_what_moves(node: Node, admin: AdminClient) -> None:
    topic = create(admin, "confluent-cooperative", 4)
    revoked: list[int] = []
    config = {"partition.assignment.strategy": "cooperative-sticky", "heartbeat.interval.ms": 200}

    def note(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
        revoked.extend(partition.partition for partition in partitions)

    with closing(reader(node, "confluent-cooperative", **config)) as first:
        first.subscribe([topic], on_revoke=note)
        wait_until(lambda: first.poll(0.05) is None and len(assigned(first)) == 4, "all partitions for one member")
        with closing(reader(node, "confluent-cooperative", **config)) as second:
            second.subscribe([topic])

            def settled() -> bool:
                first.poll(0.05)
                second.poll(0.05)
                return len(assigned(first)) == len(assigned(second)) == 2

            wait_until(settled, "two members with two partitions each")
            assert set(revoked) == assigned(second)


def test_topics_are_created_extended_described_and_deleted(node: Node, admin: AdminClient) -> None:
    topic = create(admin, "confluent-admin", 2, cleanup_policy="compact")
    with pytest.raises(KafkaException) as refused:
        create(admin, topic)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(DEADLINE_SECONDS)
    description = admin.describe_topics(TopicCollection([topic]))[topic].result(DEADLINE_SECONDS)
    assert [(partition.id, partition.leader.id) for partition in description.partitions] == [(0, 1), (1, 1), (2, 1)]
    admin.delete_topics([topic])[topic].result(DEADLINE_SECONDS)
    assert topic not in admin.list_topics(timeout=DEADLINE_SECONDS).topics
    with pytest.raises(KafkaException) as unknown:
        admin.delete_topics([topic])[topic].result(DEADLINE_SECONDS)
    assert unknown.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_configs_are_altered_and_described(admin: AdminClient) -> None:
    topic = create(admin, "confluent-configs")

    def alter(key: str, value: str | None, operation: AlterConfigOpType) -> None:
        entry = ConfigEntry(key, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(DEADLINE_SECONDS)

    def value(key: str) -> str | None:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entry = admin.describe_configs([resource])[resource].result(DEADLINE_SECONDS)[key]
        found: str | None = entry.value
        return found

    assert value("retention.ms") == "604800000"
    alter("retention.ms", "1234567", AlterConfigOpType.SET)
    assert value("retention.ms") == "1234567"
    alter("cleanup.policy", "compact", AlterConfigOpType.APPEND)
    assert value("cleanup.policy") == "delete,compact"
    alter("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)
    assert value("cleanup.policy") == "compact"
    alter("retention.ms", None, AlterConfigOpType.DELETE)
    assert value("retention.ms") == "604800000"
    with pytest.raises(KafkaException) as refused:
        alter("retention.ms", "soon", AlterConfigOpType.SET)
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG


def test_records_are_deleted_up_to_an_offset(node: Node, admin: AdminClient) -> None:
    topic = create(admin, "confluent-delete-records")
    produce(node, topic, [b"x"] * 10)
    target = TopicPartition(topic, 0, 4)
    assert admin.delete_records([target])[target].result(DEADLINE_SECONDS).low_watermark == 4
    with closing(reader(node)) as consumer:
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=DEADLINE_SECONDS) == (4, 10)
        consumer.assign([TopicPartition(topic, 0, 0)])  # out of range: reset to the earliest
        assert [message.offset() for message in take(consumer, 6)] == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_groups_are_listed_described_altered_and_deleted(node: Node, admin: AdminClient, protocol: str) -> None:
    topic = create(admin, f"confluent-group-admin-{protocol}", 2)
    group = f"confluent-group-admin-{protocol}"
    produce(node, topic, [b"x"] * 3)
    with closing(reader(node, group, **PROTOCOLS[protocol], **{"client.id": "me"})) as consumer:
        consumer.subscribe([topic])
        take(consumer, 3)
        consumer.commit(asynchronous=False)
        description = admin.describe_consumer_groups([group])[group].result(DEADLINE_SECONDS)
        assert description.state == ConsumerGroupState.STABLE
        (member,) = description.members
        assert (member.client_id, {p.partition for p in member.assignment.topic_partitions}) == ("me", {0, 1})
        with pytest.raises(KafkaException) as refused:
            admin.delete_consumer_groups([group])[group].result(DEADLINE_SECONDS)
        assert refused.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    kind = ConsumerGroupType.CLASSIC if protocol == "classic" else ConsumerGroupType.CONSUMER
    listing = admin.list_consumer_groups(types={kind}).result(DEADLINE_SECONDS)
    assert [(one.state, one.type) for one in listing.valid if one.group_id == group] == [
        (ConsumerGroupState.EMPTY, kind)
    ]
    request = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 1)])
    admin.alter_consumer_group_offsets([request])[group].result(DEADLINE_SECONDS)
    asked = ConsumerGroupTopicPartitions(group)
    offsets = admin.list_consumer_group_offsets([asked])[group].result(DEADLINE_SECONDS)
    assert (topic, 0, 1) in [(one.topic, one.partition, one.offset) for one in offsets.topic_partitions]
    admin.delete_consumer_groups([group])[group].result(DEADLINE_SECONDS)
    remaining = admin.list_consumer_groups().result(DEADLINE_SECONDS).valid
    assert group not in {one.group_id for one in remaining}


def test_the_cluster_describes_itself(node: Node, admin: AdminClient) -> None:
    cluster = admin.describe_cluster().result(DEADLINE_SECONDS)
    assert [(one.id, one.host, one.port) for one in cluster.nodes] == [(1, "127.0.0.1", node.port)]
    assert len(cluster.cluster_id) == 22


def test_a_subscription_by_pattern_follows_new_topics(node: Node, admin: AdminClient) -> None:
    create(admin, "confluent-pattern-a")
    produce(node, "confluent-pattern-a", [b"a"])
    config = {"topic.metadata.refresh.interval.ms": 200}
    with closing(reader(node, "confluent-pattern", **config)) as consumer:
        consumer.subscribe(["^confluent-pattern-.*"])
        assert [message.topic() for message in take(consumer, 1)] == ["confluent-pattern-a"]
        consumer.commit(asynchronous=False)
        create(admin, "confluent-pattern-b")
        produce(node, "confluent-pattern-b", [b"b"])
        assert [message.topic() for message in take(consumer, 1)] == ["confluent-pattern-b"]


def test_an_unknown_topic_is_created_by_its_first_record(node: Node) -> None:
    assert produce(node, "confluent-automatic", [b"x"]) == [0]
