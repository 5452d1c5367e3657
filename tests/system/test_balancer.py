"""The balancer on real clusters: an added broker gets its share under load, and throttles never outlive a run; Apache Kafka as well."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from isthmus_client.admin import cluster as cluster_admin
from isthmus_client.admin import configs, topics
from isthmus_client.admin.configs import Resource
from isthmus_client.admin.topics import NewTopic
from isthmus_client.client import Client
from isthmus_model.config_resources import ResourceType

from tests.edge.api.server import running_api
from tests.kafka import KafkaNode
from tests.node import COMBINED, Cluster
from tests.process import ISTHMUS
from tests.system.ledger import PARTITIONS, Ledger, wait_until
from tests.system.quorums import query

BROKERS: Final = (1, 2, 3, 4)
ADDED: Final = 4
RECORDS: Final = 3_000
VALUE: Final = bytes(1_000)
CONSTRAINTS: Final = json.dumps(
    {
        "version": 1,
        "replicas": [{"count": 2, "constraints": {"region": "w"}}],
        "observers": [{"count": 1, "constraints": {"region": "e"}}],
    }
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Four brokers, one of them empty; samples are published every half second."""
    settings = {"isthmus.samples.interval.ms": "500", "min.insync.replicas": "1"}
    made = Cluster(
        tmp_path, [COMBINED, "broker", "broker", "broker"], racks=["w/a", "w/b", "e/a", "w/c"], settings=settings
    )
    made.format()
    try:
        made.start()
        yield made
    finally:
        made.end()


def isthmus(*arguments: str, status: int = 0) -> str:
    done = subprocess.run([ISTHMUS, *arguments], capture_output=True, text=True, timeout=240)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def throttles(bootstrap: str, *names: str) -> dict[str, str | None]:
    """What is set of throttling, on brokers and topics."""

    async def with_client(client: Client) -> dict[str, str | None]:
        resources = [Resource(ResourceType.BROKER, str(broker)) for broker in BROKERS]
        resources += [Resource(ResourceType.TOPIC, name) for name in names]
        found: dict[str, str | None] = {}
        for resource, values in (await configs.describe(client, resources)).items():
            assert isinstance(values, list), values
            found |= {f"{resource}: {c.name}": c.value for c in values if c.is_set and "throttled" in c.name}
        return found

    return query(bootstrap, with_client)


def hosts(bootstrap: str, topic: str) -> list[tuple[int, ...]]:
    async def with_client(client: Client) -> list[tuple[int, ...]]:
        found = (await topics.describe(client, [topic]))[topic]
        return [known.replicas for _, known in sorted(found.partitions.items())]

    return query(bootstrap, with_client)


def fill(bootstrap: str, topic: str, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 2})
    for number in range(RECORDS):
        producer.produce(topic, VALUE, key=str(number).encode(), partition=number % partitions)
    assert producer.flush(120) == 0


def count(bootstrap: str, topic: str, partitions: int) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "count", "log_level": 2})
    try:
        places = [TopicPartition(topic, index) for index in range(partitions)]
        return sum(consumer.get_watermark_offsets(place, timeout=60)[1] for place in places)
    finally:
        consumer.close()


def test_a_broker_that_was_added_gets_its_share_under_load_and_observers_stay_where_they_belong(
    cluster: Cluster,
) -> None:
    bare = [NewTopic("bare", assignments={n: (1 + n % 2, 3) for n in range(6)})]
    placed = NewTopic(
        "placed", assignments=dict.fromkeys(range(6), (1, 2, 3)), configs={"isthmus.placement.constraints": CONSTRAINTS}
    )
    ledger_topic = NewTopic("ledger", assignments=dict.fromkeys(range(PARTITIONS), (1, 2)))
    query(cluster.bootstrap, lambda client: topics.create(client, [*bare, placed, ledger_topic]))
    fill(cluster.bootstrap, "bare", 6)
    ledger = Ledger(cluster.bootstrap, "ledger")
    try:
        ledger.wait_for(200)
        wait_until(
            lambda: not json.loads(isthmus("balance", "plan", "-b", cluster.bootstrap, "-o", "json"))["unknown_loads"],
            "samples of all",
        )
        plan: dict[str, Any] = json.loads(
            isthmus("balance", "execute", "-b", cluster.bootstrap, "--throttle", "5000000", "-o", "json")
        )
        before, after = ({load["broker"]: load["replicas"] for load in plan[when]} for when in ("before", "after"))
        assert before[ADDED] < after[ADDED]
        assert after[ADDED] >= sum(after.values()) / len(BROKERS) * 0.8
        assert all(move["reason"] and move["goal"] for move in plan["moves"])
        for target in plan["targets"]:
            assert hosts(cluster.bootstrap, target["topic"])[target["partition"]] == tuple(target["replicas"])
        ledger.wait_for(ledger.total() + 200)
        ledger.finish()
        ledger.check()
    finally:
        ledger.stop()
    assert all(replicas[2] == 3 for replicas in hosts(cluster.bootstrap, "placed")), (
        "the only broker of the observers' region"
    )
    assert count(cluster.bootstrap, "bare", 6) == RECORDS
    assert throttles(cluster.bootstrap, "bare", "placed", "ledger") == {}


def test_throttles_of_a_run_that_was_killed_are_lifted_by_the_next_and_an_operators_own_come_back(
    cluster: Cluster,
) -> None:
    query(
        cluster.bootstrap,
        lambda client: topics.create(client, [NewTopic("slow", assignments=dict.fromkeys(range(24), (1, 2)))]),
    )
    fill(cluster.bootstrap, "slow", 24)
    isthmus("config", "set", "broker", "2", "leader.replication.throttled.rate=123456789", "-b", cluster.bootstrap)
    own = throttles(cluster.bootstrap, "slow")
    assert list(own.values()) == ["123456789"]
    run = subprocess.Popen([ISTHMUS, "balance", "execute", "-b", cluster.bootstrap, "--throttle", "1000"])
    try:
        wait_until(lambda: len(throttles(cluster.bootstrap, "slow")) > 2, "throttles of the run")
    finally:
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
    assert len(throttles(cluster.bootstrap, "slow")) > 2, "no instance was running to remove them"
    assert "were removed" in isthmus("balance", "clean-up", "-b", cluster.bootstrap)
    assert throttles(cluster.bootstrap, "slow") == own
    assert "no throttles of an earlier run" in isthmus("balance", "clean-up", "-b", cluster.bootstrap)


def test_a_run_that_is_broken_off_takes_back_what_is_under_way(cluster: Cluster) -> None:
    query(
        cluster.bootstrap,
        lambda client: topics.create(client, [NewTopic("slow", assignments=dict.fromkeys(range(24), (1, 2)))]),
    )
    fill(cluster.bootstrap, "slow", 24)
    before = hosts(cluster.bootstrap, "slow")
    run = subprocess.Popen([ISTHMUS, "balance", "execute", "-b", cluster.bootstrap, "--throttle", "1000"])
    wait_until(lambda: "slow" in isthmus("partition", "moves", "-b", cluster.bootstrap), "partitions on their way")
    run.send_signal(signal.SIGINT)
    assert run.wait(120) != 0
    assert throttles(cluster.bootstrap, "slow") == {}
    wait_until(
        lambda: all(set(now) <= {1, 2, 4, 3} and len(now) == 2 for now in hosts(cluster.bootstrap, "slow")),
        "whole assignments",
    )
    assert "slow" not in isthmus("partition", "moves", "-b", cluster.bootstrap)
    assert [set(now) for now in hosts(cluster.bootstrap, "slow")] == [set(then) for then in before]


def test_of_two_balancers_one_works_and_fills_an_empty_broker_by_itself(cluster: Cluster, tmp_path: Path) -> None:
    query(
        cluster.bootstrap,
        lambda client: topics.create(client, [NewTopic("t", assignments=dict.fromkeys(range(8), (1, 2)))]),
    )
    fill(cluster.bootstrap, "t", 8)
    command = [str(ISTHMUS), "balancer", "-b", cluster.bootstrap, "--mode", "any-uneven-load", "--interval", "1"]
    with (tmp_path / "log").open("wb") as log:
        running = [subprocess.Popen(command, stdout=log, stderr=log) for _ in range(2)]
        try:
            wait_until(
                lambda: any(ADDED in replicas for replicas in hosts(cluster.bootstrap, "t")),
                "replicas on the new broker",
            )
            running[0].send_signal(signal.SIGKILL)
            wait_until(lambda: throttles(cluster.bootstrap, "t") == {}, "throttles gone")
        finally:
            for process in running:
                process.kill()
                process.wait()
    assert count(cluster.bootstrap, "t", 8) == RECORDS


def test_apache_kafka_is_balanced_by_the_sizes_of_its_files(tmp_path: Path) -> None:
    first = KafkaNode(tmp_path / "first")
    second = KafkaNode(tmp_path / "second")
    common = {"controller.quorum.voters": first.settings["controller.quorum.voters"]}
    broker = {"process.roles": "broker", "node.id": "2", "listeners": f"PLAINTEXT://127.0.0.1:{second.port}", **common}
    second.settings = {**second.settings, **broker}
    try:
        first.start()
        second.start()
        wait_until(lambda: len(query(first.bootstrap, cluster_admin.describe).brokers) == 2, "both brokers")
        query(first.bootstrap, lambda c: topics.create(c, [NewTopic("t", assignments=dict.fromkeys(range(8), (1,)))]))
        fill(first.bootstrap, "t", 8)
        plan = json.loads(isthmus("balance", "execute", "-b", first.bootstrap, "--throttle", "0", "-o", "json"))
        assert [load["replicas"] for load in plan["after"]] == [4, 4]
        assert {load["disk"] > RECORDS * len(VALUE) for load in plan["before"]} == {True, False}
        assert sorted(hosts(first.bootstrap, "t")) == [(1,)] * 4 + [(2,)] * 4
        assert count(first.bootstrap, "t", 8) == RECORDS
    finally:
        second.kill()
        first.kill()


def test_a_plan_is_shown_and_carried_out_by_rest(cluster: Cluster, tmp_path: Path) -> None:
    query(
        cluster.bootstrap,
        lambda client: topics.create(client, [NewTopic("t", assignments=dict.fromkeys(range(8), (1, 2)))]),
    )
    fill(cluster.bootstrap, "t", 8)
    with running_api(tmp_path / "api") as api:
        cluster_id = api.register("c", cluster.bootstrap)
        wanted = api.request("POST", f"/api/v1/clusters/{cluster_id}/balancer/plans", {})
        assert wanted.status == 200, wanted
        plan = wanted.body
        before, after = ({load["broker"]: load["replicas"] for load in plan[when]} for when in ("before", "after"))
        assert before[ADDED] < after[ADDED]
        assert plan["moves"][0]["reason"]
        task = {
            "kind": "execute-plan",
            "cluster_id": cluster_id,
            "partitions": plan["targets"],
            "bytes_per_second": 5_000_000,
        }
        begun = api.request("POST", "/api/v1/tasks", task)
        assert begun.status == 202, begun
        path = f"/api/v1/tasks/{begun.body['task_id']}"
        ended = api.await_that(path, lambda one: one["state"] != "OPEN")
        assert (ended["state"], ended["done"]) == ("DONE", 1), ended
        missing = api.request("POST", f"/api/v1/clusters/{cluster_id}/balancer/plans", {"leaving": [77]})
        assert (missing.status, missing.body["message"]) == (404, "There is no broker 77.")
    for target in plan["targets"]:
        assert hosts(cluster.bootstrap, target["topic_name"])[target["partition_id"]] == tuple(target["broker_ids"])
    assert throttles(cluster.bootstrap, "t") == {}
    assert count(cluster.bootstrap, "t", 8) == RECORDS
