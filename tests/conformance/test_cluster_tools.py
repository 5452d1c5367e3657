"""Apache Kafka's tools for clusters of several nodes: reassignment with throttles, elections, features, endpoints, verification."""

import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.conformance.clients.java import run
from tests.kafka import HOME
from tests.node import COMBINED, Cluster, running_cluster

DEADLINE_SECONDS = 60.0
TOPIC = "moving"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three combined nodes and a broker."""
    directory = tmp_path_factory.mktemp("cluster-tools")
    settings = {"min.insync.replicas": "2", "controller.quorum.fetch.timeout.ms": "6000"}
    with running_cluster(directory, [COMBINED] * 3 + ["broker"], settings=settings) as cluster:
        yield cluster


def at(cluster: Cluster) -> tuple[str, str]:
    return ("--bootstrap-server", cluster.bootstrap)


def described(cluster: Cluster, *more: str) -> dict[int, dict[str, str]]:
    """The fields of each partition of the topic."""
    lines = run("kafka-topics", *at(cluster), "--describe", "--topic", TOPIC, *more)
    rows = [dict(re.findall(r"(\w+): ([\d,]*)", line)) for line in lines if "\tPartition: " in line]
    return {int(row["Partition"]): row for row in rows}


def write(path: Path, document: object) -> str:
    path.write_text(json.dumps(document))
    return str(path)


def test_partitions_move_under_a_throttle_that_is_gone_afterwards(cluster: Cluster, tmp_path: Path) -> None:
    run("kafka-topics", *at(cluster), "--create", "--topic", TOPIC, "--replica-assignment", "1:2:3,2:3:1,3:1:2")
    wanted = write(tmp_path / "topics.json", {"version": 1, "topics": [{"topic": TOPIC}]})
    reassign = ("kafka-reassign-partitions", *at(cluster))
    generated = run(*reassign, "--generate", "--topics-to-move-json-file", wanted, "--broker-list", "2,3,4")
    plan = json.loads(generated[generated.index("Proposed partition reassignment configuration") + 1])
    assert {tuple(sorted(partition["replicas"])) for partition in plan["partitions"]} == {(2, 3, 4)}
    file = ("--reassignment-json-file", write(tmp_path / "plan.json", plan))
    executed = run(*reassign, "--execute", *file, "--throttle", "50000000")
    assert executed[-2:] == [
        "The inter-broker throttle limit was set to 50000000 B/s",
        f"Successfully started partition reassignments for {TOPIC}-0,{TOPIC}-1,{TOPIC}-2",
    ]
    deadline = time.monotonic() + DEADLINE_SECONDS
    verified: list[str] = []
    while not any("Clearing topic-level throttles" in line for line in verified):
        assert time.monotonic() < deadline, verified
        verified = run(*reassign, "--verify", *file)
    assert verified[1:4] == [f"Reassignment of partition {TOPIC}-{index} is completed." for index in range(3)]
    assert run(*reassign, "--list") == ["No partition reassignments found."]
    for row in described(cluster).values():
        assert set(row["Replicas"].split(",")) == set(row["Isr"].split(",")) == {"2", "3", "4"}
    head = run("kafka-topics", *at(cluster), "--describe", "--topic", TOPIC)[0]
    assert "throttled" not in head
    configs = run("kafka-configs", *at(cluster), "--describe", "--entity-type", "brokers")
    assert [line for line in configs if "throttled" in line] == []


def test_a_move_that_its_throttle_holds_up_is_listed_and_cancelled(cluster: Cluster, tmp_path: Path) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for _ in range(2_000):
        producer.produce(TOPIC, bytes(1024), partition=0)
    producer.flush(DEADLINE_SECONDS)
    before = described(cluster)[0]["Replicas"]
    *kept, gone = before.split(",")
    target = [*map(int, kept), 1]
    plan = {"version": 1, "partitions": [{"topic": TOPIC, "partition": 0, "replicas": target}]}
    file = ("--reassignment-json-file", write(tmp_path / "slow.json", plan))
    reassign = ("kafka-reassign-partitions", *at(cluster))
    run(*reassign, "--execute", *file, "--throttle", "1000")
    assert run(*reassign, "--list") == [
        "Current partition reassignments:",
        f"{TOPIC}-0: replicas: {','.join(kept)},1,{gone}. adding: 1. removing: {gone}.",
    ]
    run(*reassign, "--cancel", *file)
    assert run(*reassign, "--list") == ["No partition reassignments found."]
    assert described(cluster)[0]["Replicas"] == before


def test_leadership_goes_back_to_preferred_replicas(cluster: Cluster) -> None:
    leaders = {index: row["Replicas"].split(",")[0] for index, row in described(cluster).items()}
    cluster.nodes[2].kill()
    deadline = time.monotonic() + DEADLINE_SECONDS
    while any(row["Leader"] == "2" for row in described(cluster).values()):
        assert time.monotonic() < deadline
    behind = described(cluster, "--under-replicated-partitions")
    assert set(behind) == {0, 1, 2}
    cluster.start(2)
    while described(cluster, "--under-replicated-partitions"):
        assert time.monotonic() < deadline
    run("kafka-leader-election", *at(cluster), "--election-type", "preferred", "--all-topic-partitions")
    assert {index: row["Leader"] for index, row in described(cluster).items()} == leaders


def test_endpoints_and_features(cluster: Cluster) -> None:
    head, *rows = run("kafka-cluster", "list-endpoints", *at(cluster))
    assert head.split() == ["ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"]
    assert [row.split()[0] for row in rows] == ["1", "2", "3", "4"]
    assert all("unfenced" in row for row in rows)
    features = run("kafka-features", *at(cluster), "describe")
    assert any(re.match(r"Feature: metadata.version.*FinalizedVersionLevel: 4.3-IV0", line) for line in features)


def test_replicas_are_verified(cluster: Cluster) -> None:
    topic = "verified"
    run("kafka-topics", *at(cluster), "--create", "--topic", topic, "--partitions", "2", "--replication-factor", "3")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(500):
        producer.produce(topic, bytes(100), partition=number % 2)
    producer.flush(DEADLINE_SECONDS)
    options = ("--broker-list", cluster.bootstrap, "--topics-include", topic, "--report-interval-ms", "200")
    command = [str(HOME / "bin" / "kafka-replica-verification.sh"), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as verification:
        give_up = threading.Timer(DEADLINE_SECONDS, verification.kill)
        give_up.start()
        assert verification.stdout is not None
        reports = (line for line in verification.stdout if "max lag is" in line)
        assert any(re.search(rf"max lag is 0 for partition {topic}-\d at offset 250 among 2", line) for line in reports)
        give_up.cancel()
        verification.kill()
