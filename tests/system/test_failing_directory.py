"""A log directory fails under load: its partitions go offline and say so, the others are served; without any directory the node ends."""

import shutil
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from isthmus_wire.apis import ApiKey

from tests.conformance.oracle.talk import Talk, Target
from tests.node import Cluster, Node
from tests.system.ledger import PARTITIONS, wait_until

TOPIC = "t"
RECORD = b"x" * 10_000


class Load:
    """Writes to every partition and keeps what each write came to."""

    def __init__(self, bootstrap: str) -> None:
        self.outcomes: dict[int, str] = {}
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "retries": 0,
                "message.timeout.ms": 1500,
                "topic.metadata.refresh.interval.ms": 100,
                "log_level": 2,
            }
        )

    def write(self, partitions: set[int], records: int = 20) -> None:
        """A round of records."""
        for partition in sorted(partitions):
            for _ in range(records):
                self._producer.produce(TOPIC, RECORD, partition=partition, on_delivery=self._delivered)
        self._producer.flush(60)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        partition = message.partition()
        assert partition is not None
        self.outcomes[partition] = "" if error is None else error.name()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path, {"metadata.log.dir": str(tmp_path / "metadata"), "log.segment.bytes": str(1 << 20)})
    node.settings["log.dirs"] = f"{tmp_path / 'one'},{tmp_path / 'two'}"
    node.start()
    try:
        yield node
    finally:
        node.stop()


def partitions_in(directory: Path) -> set[int]:
    return {int(path.name.rpartition("-")[2]) for path in directory.glob(f"{TOPIC}-*")}


def create(node: Node) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 2})
    for created in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        created.result(30)


def send_request(node: Node, api: ApiKey, **values: Any) -> Any:
    with closing(Talk(Target("127.0.0.1", node.port, node.directory))) as talk:
        return talk.quiet(api, **values)


def test_a_failed_directory_takes_only_its_own_partitions_offline_and_the_last_one_the_node(node: Node) -> None:
    create(node)
    one, two = node.directory / "one", node.directory / "two"
    there, gone = partitions_in(one), partitions_in(two)
    assert len(there) == len(gone) == PARTITIONS // 2
    load = Load(node.bootstrap)
    load.write(there | gone)
    assert set(load.outcomes.values()) == {""}
    shutil.rmtree(two)  # what an unmounted disk looks like: files that are open live on, and none can be made
    wait_until(lambda: fails(load, gone), "the directory to fail")
    wait_until(lambda: offline(node) == gone, "its partitions to be offline")
    load.write(there)
    assert {load.outcomes[partition] for partition in there} == {""}
    described = send_request(node, ApiKey.DESCRIBE_LOG_DIRS, topics=None)
    errors = {Path(entry["log_dir"]).name: entry["error_code"] for entry in described["results"]}
    assert errors == {"one": "none", "two": "kafka_storage_error"}
    assert f"log directory {two} failed: taking its {len(gone)} partitions offline" in node.log()
    shutil.rmtree(one)
    wait_until(lambda: fails(load, there) and ended(node), "the node to end")
    assert "every log directory has failed; the last one: " in node.log()
    assert "Traceback" not in node.log()


def test_a_full_disk_fails_its_directory(node: Node) -> None:
    """Uses /dev/full, which is always full, as a full disk."""
    create(node)
    node.stop()
    two = node.directory / "two"
    gone = partitions_in(two)
    for path in two.glob(f"{TOPIC}-*/*.log"):
        path.unlink()
        path.symlink_to("/dev/full")
    node.start()
    load = Load(node.bootstrap)
    wait_until(lambda: fails(load, gone), "the directory to fail")
    wait_until(lambda: offline(node) == gone, "its partitions to be offline")
    there = set(range(PARTITIONS)) - gone
    load.write(there)
    assert {load.outcomes[partition] for partition in there} == {""}
    assert "No space left on device" in node.log()


def test_a_broker_that_cannot_report_a_failed_directory_in_time_ends(tmp_path: Path) -> None:
    settings = {
        "log.dir.failure.timeout.ms": "2000",
        "broker.session.timeout.ms": "1500",
        "broker.heartbeat.interval.ms": "300",
        "log.segment.bytes": str(1 << 20),
    }
    cluster = Cluster(tmp_path, ("controller", "broker"), settings=settings)
    broker = cluster.nodes[2]
    broker.settings["log.dirs"] = f"{broker.directory / 'one'},{broker.directory / 'two'}"
    broker.settings["metadata.log.dir"] = str(broker.directory / "metadata")
    cluster.format()
    try:
        cluster.start()
        create(broker)
        one, two = broker.directory / "one", broker.directory / "two"
        wait_until(lambda: len(partitions_in(one) | partitions_in(two)) == PARTITIONS, "the logs of every partition")
        cluster.nodes[1].signal(signal.SIGSTOP)
        gone = partitions_in(two)
        shutil.rmtree(broker.directory / "two")
        load = Load(broker.bootstrap)
        wait_until(lambda: fails(load, gone) and ended(broker), "the node to end")
        assert "could not be reported to the controller for 2 s (log.dir.failure.timeout.ms)" in broker.log()
    finally:
        cluster.end()


def fails(load: Load, partitions: set[int]) -> bool:
    load.write(partitions)
    return all(load.outcomes[partition] for partition in partitions)


def offline(node: Node) -> set[int]:
    wanted = [{"topic_id": None, "name": TOPIC}]
    answer = send_request(node, ApiKey.METADATA, topics=wanted, allow_auto_topic_creation=False)
    return {
        partition["partition_index"]
        for topic in answer["topics"]
        for partition in topic["partitions"]
        if partition["leader_id"] == -1 and partition["offline_replicas"] == [1]
    }


def ended(node: Node) -> bool:
    return "stopped after an error" in node.log()
