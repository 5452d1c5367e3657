"""Observability of nodes: metrics and health over HTTP, samples of lag and load in topics."""

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from isthmus_client.admin.topics import NewTopic, create
from isthmus_model.internal_topics import LAG_TOPIC, LOAD_TOPIC
from isthmus_model.load_samples import LoadSample
from prometheus_client.parser import text_string_to_metric_families

from tests.node import COMBINED, Cluster
from tests.ports import free_ports
from tests.system.ledger import wait_until
from tests.system.quorums import query

RECORDS = 200
VALUE = bytes(1000)
ACTIVE_CONTROLLER = "kafka_controller_kafkacontroller_activecontrollercount"
ELECTIONS_SECONDS = 5
"""Time for more than one election."""


@pytest.fixture(scope="module")
def ports() -> list[int]:
    return free_ports(3)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, ports: list[int]) -> Iterator[Cluster]:
    settings = {"isthmus.samples.interval.ms": "500"}
    made = Cluster(
        tmp_path_factory.mktemp("observed"), [COMBINED] * 3, racks=["west/a", "east/a", "east/b"], settings=settings
    )
    for node, port in zip(made.nodes.values(), ports, strict=True):
        node.settings = {**node.settings, "isthmus.http.listen": f"127.0.0.1:{port}"}
    made.format()
    try:
        made.start()
        query(made.bootstrap, lambda client: create(client, [NewTopic("t", assignments={0: (1, 2, 3)})]))
        producer = Producer({"bootstrap.servers": made.bootstrap, "linger.ms": 0})
        for _ in range(RECORDS):
            producer.produce("t", VALUE, partition=0)
        assert producer.flush(60) == 0
        yield made
    finally:
        made.end()


def metrics(port: int) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def samples_of(bootstrap: str, topic: str) -> Iterator[bytes]:
    """Records of a topic of samples as they come, until the caller has enough."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "s", "auto.offset.reset": "earliest"})
    deadline = time.monotonic() + 120
    found: list[int] = []
    last = b""
    try:

        def exists() -> bool:
            """Each request may go to another broker, whose metadata may not have a new topic yet."""
            found[:] = consumer.list_topics(topic, timeout=30).topics[topic].partitions
            return bool(found)

        wait_until(exists, f"topic {topic}")
        consumer.assign([TopicPartition(topic, index, 0) for index in found])
        while time.monotonic() < deadline:
            for message in consumer.consume(100, 0.1):
                assert message.error() is None, message.error()
                last = message.value() or b""
                yield last
    finally:
        consumer.close()
    raise AssertionError(f"partitions {found} of {topic} had nothing more for the test after {last!r}")


def test_metrics_say_what_was_produced_and_how_it_is_replicated(cluster: Cluster, ports: list[int]) -> None:
    topic, partition = (("topic", "t"),), (("partition", "0"), ("topic", "t"))
    told = metrics(ports[0])
    assert told["kafka_server_brokertopicmetrics_messagesin_total", topic] == RECORDS
    assert told["kafka_server_brokertopicmetrics_bytesin_total", topic] > RECORDS * len(VALUE)
    assert told["kafka_server_brokertopicmetrics_replicationbytesout_total", topic] == pytest.approx(
        2 * told["kafka_server_brokertopicmetrics_bytesin_total", topic]
    )
    assert told["kafka_server_brokertopicmetrics_bytesout_total", topic] == 0
    assert told["kafka_cluster_partition_insyncreplicascount", partition] == 3
    assert told["kafka_log_log_logendoffset", partition] == RECORDS
    assert told["kafka_server_replicamanager_underminisrpartitioncount", ()] == 0
    assert told["kafka_network_requestmetrics_requests_total", (("request", "produce"),)] > 0
    assert sum(metrics(port)[ACTIVE_CONTROLLER, ()] for port in ports) == 1


def test_health_distinguishes_a_serving_node_from_one_without_a_quorum(cluster: Cluster, ports: list[int]) -> None:
    """A follower reports that it has no quorum, and keeps to it through all its elections."""

    def health(path: str) -> tuple[int, Any]:
        try:
            with urlopen(f"http://127.0.0.1:{follower}/health/{path}", timeout=30) as answer:
                return answer.status, json.load(answer)
        except HTTPError as refused:
            return refused.code, json.load(refused)

    follower = next(port for port in ports if not metrics(port)[ACTIVE_CONTROLLER, ()])
    wait_until(lambda: health("ready") == (200, {"status": "ready"}), "the node is ready")
    others = [node for node, port in zip(cluster.nodes.values(), ports, strict=True) if port != follower]
    for node in others:
        node.kill()
    without_quorum = 503, {"status": "not ready", "reason": "no active controller is reachable"}
    wait_until(lambda: health("ready") == without_quorum, "the node reports that it has no quorum")
    for _ in range(ELECTIONS_SECONDS * 10):
        assert health("ready") == without_quorum
        time.sleep(0.1)
    assert health("live") == (200, {"status": "live"})
    for node in others:
        node.launch()
    for node in others:
        node.await_ready()
    wait_until(lambda: health("ready")[0] == 200, "the node is ready again")


def test_samples_of_lag_report_every_follower_with_its_region(cluster: Cluster) -> None:
    samples: dict[int, dict[str, Any]] = {}
    for value in samples_of(cluster.bootstrap, LAG_TOPIC):
        sample = json.loads(value)
        if sample["topic"] == "t" and sample["source_end"] == sample["target_end"] == RECORDS:
            samples[sample["target_broker"]] = sample
        if len(samples) == 2:  # two followers; on a slow machine any broker may lead by now
            break
    for broker, sample in samples.items():
        assert (sample["kind"], sample["lag_records"], sample["lag_ms"]) == ("follower", 0, 0)
        assert sample["target_region"] == ("west" if broker == 1 else "east")


def test_samples_of_load_report_sizes_and_leaders(cluster: Cluster) -> None:
    loads: dict[int, dict[str, Any]] = defaultdict(dict)
    for value in samples_of(cluster.bootstrap, LOAD_TOPIC):
        sample = LoadSample.parse(value)
        for replica in sample.replicas:
            if replica.topic == "t" and replica.size > RECORDS * len(VALUE):
                loads[sample.broker] = {"leader": replica.is_leader, "size": replica.size, "rack": sample.rack}
        if len(loads) == 3 and any(load["leader"] for load in loads.values()):
            break  # the first sample of each broker may be from a moment when another one led
    assert {load["size"] for load in loads.values()} == {loads[1]["size"]}
    assert {broker: load["rack"] for broker, load in loads.items()} == {1: "west/a", 2: "east/a", 3: "east/b"}
