"""A node opens what Apache Kafka wrote, and Apache Kafka what a node wrote: records, configs, committed offsets and groups."""

import subprocess
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Protocol

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]  # re-exported without saying so
from confluent_kafka.cimpl import NewTopic
from isthmus_wire.apis import ApiKey

from tests.conformance.clients.java import run
from tests.conformance.clients.waiting import DEADLINE_SECONDS, wait_until
from tests.conformance.oracle.exchanges.streams_groups import beat, configure, join, part, topology_of
from tests.conformance.oracle.talk import Talk, Target
from tests.kafka import CLUSTER_ID, KafkaNode
from tests.node import Node
from tests.process import ISTHMUS

TOPIC = "kept"
STREAMS = "kept-streams"
RECORDS = 100
# Features that Apache Kafka finalizes by default and a node does not have.
UNKNOWN_FEATURES = ("share.version",)


class Server(Protocol):
    """Either of the two."""

    bootstrap: str

    def start(self) -> object: ...
    def stop(self) -> int: ...


def pair(directory: Path, settings: Mapping[str, str] | None = None) -> tuple[KafkaNode, Node, Path]:
    """Both over one directory, at the same addresses, with the properties that both take."""
    kafka, node = KafkaNode(directory, settings), Node(directory)
    node.settings, node.port, node.bootstrap = dict(kafka.settings), kafka.port, kafka.bootstrap
    properties = directory / "format.properties"
    directory.mkdir(exist_ok=True)
    properties.write_text("".join(f"{key}={value}\n" for key, value in kafka.settings.items()))
    return kafka, node, properties


def fill(server: Server) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    wanted = NewTopic(TOPIC, 2, 1, config={"retention.ms": "1234567890"})
    admin.create_topics([wanted])[TOPIC].result(DEADLINE_SECONDS)
    producer = Producer({"bootstrap.servers": server.bootstrap, "enable.idempotence": True, "compression.type": "zstd"})
    for number in range(RECORDS):
        producer.produce(TOPIC, b"%d" % number, partition=number % 2)
    assert producer.flush(DEADLINE_SECONDS) == 0
    with closing(reader(server)) as consumer:
        offsets = [TopicPartition(TOPIC, 0, 7, "note")]
        wait_until(lambda: coordinated(lambda: consumer.commit(offsets=offsets, asynchronous=False)), "a commit")


def join_streams_group(server: Server) -> None:
    """A member of a streams group, which is not stopped."""
    with closing(talk_to(server)) as talk:
        talk.group(STREAMS)
        configure(talk, STREAMS, initial_rebalance_delay_ms="0")
        joined = join(talk, STREAMS, "m", topology_of(part("0", TOPIC)))
        assert [status["status_detail"] for status in joined["status"]] == []


def check_streams_group(server: Server) -> None:
    """The member continues with the other server as if nothing had happened."""
    with closing(talk_to(server)) as talk:
        talk.group(STREAMS)
        answer = beat(talk, STREAMS, "m", 2)
        assert (answer["error_code"], answer["member_epoch"], answer["active_tasks"]) == ("none", 2, None)
        (group,) = talk.quiet(ApiKey.STREAMS_GROUP_DESCRIBE, group_ids=(STREAMS,), include_authorized_operations=False)[
            "groups"
        ]
        (member,) = group["members"]
        assert (group["group_state"], group["group_epoch"]) == ("Stable", 2)
        assert member["assignment"]["active_tasks"] == [{"subtopology_id": "0", "partitions": [0, 1]}]


def talk_to(server: Server) -> Talk:
    return Talk(Target("127.0.0.1", int(server.bootstrap.rpartition(":")[2]), Path()))


def reader(server: Server) -> Consumer:
    return Consumer({"bootstrap.servers": server.bootstrap, "group.id": "kept", "enable.auto.commit": False})


def check(server: Server) -> None:
    with closing(reader(server)) as consumer:
        found: list[TopicPartition] = []
        asked = [TopicPartition(TOPIC, 0)]
        wait_until(
            lambda: coordinated(lambda: found.extend(consumer.committed(asked, DEADLINE_SECONDS))), "committed offsets"
        )
        assert [one.offset for one in found] == [7]
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in (0, 1)])
        values: dict[int, list[int]] = {0: [], 1: []}

        def all_read() -> bool:
            for message in consumer.consume(RECORDS, 0.2):
                assert message.error() is None, message.error()
                values[message.partition() or 0].append(int(message.value() or b""))
            return sum(map(len, values.values())) == RECORDS

        wait_until(all_read, "all records")
    assert values == {partition: list(range(partition, RECORDS, 2)) for partition in (0, 1)}
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC)
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    described = admin.describe_configs([resource])[resource].result(DEADLINE_SECONDS)
    assert described["retention.ms"].value == "1234567890"


def coordinated(action: Callable[[], object]) -> bool:
    """Whether the group's coordinator responded; false while it still loads."""
    try:
        action()
    except KafkaException as refused:
        if refused.args[0].code() in (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS):
            return False
        raise
    return True


def write_then_read(first: Server, second: Server) -> None:
    try:
        first.start()
        fill(first)
        check(first)
        join_streams_group(first)
        check_streams_group(first)
        assert first.stop() in (0, 143)  # a JVM that SIGTERM ends says so
        second.start()
        check(second)
        check_streams_group(second)
    finally:
        first.stop()
        second.stop()


def format_by(writer: str, properties: Path) -> None:
    """Format the directory as that system does."""
    if writer == "Isthmus":
        command = [str(ISTHMUS), "storage", "format", "-t", CLUSTER_ID, "-c", str(properties)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return
    without = [argument for feature in UNKNOWN_FEATURES for argument in ("--feature", f"{feature}=0")]
    run("kafka-storage", "format", "-t", CLUSTER_ID, "-c", str(properties), *without)


@pytest.mark.parametrize("writer", ["Apache Kafka", "Isthmus"])
def test_a_directory_changes_hands(tmp_path: Path, writer: str) -> None:
    kafka, node, properties = pair(tmp_path / "both")
    format_by(writer, properties)
    if writer == "Isthmus":
        write_then_read(node, kafka)
    else:
        write_then_read(kafka, node)
