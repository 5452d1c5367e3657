"""Kafka Streams with the streams group protocol: instances killed and replaced, and the coordinator lost under them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from isthmus_wire.apis import ApiKey

from tests.conformance.clients.java import run
from tests.conformance.oracle.talk import MAIN, Talk, Target, node
from tests.kafka import running_kafka
from tests.node import COMBINED, Cluster, running_cluster, running_node
from tests.system.ledger import wait_until
from tests.system.word_count import INPUT, OUTPUT, Counts, WordCount, expected_counts, send_lines

APPLICATION: Final = "word-count"
SETTINGS: Final = {
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.initial.rebalance.delay.ms": "500",
    "offsets.topic.num.partitions": "4",
    "auto.create.topics.enable": "false",
}
PARTITIONS: Final = 4
THREADS: Final = 2
TASKS: Final = 2 * PARTITIONS
"""Of the subtopology that splits lines, and of the one that counts words."""
REPARTITION: Final = f"{APPLICATION}-words-repartition"
CHANGELOG: Final = f"{APPLICATION}-counts-changelog"


@contextmanager
def broker(kind: str, directory: Path) -> Iterator[Talk]:
    """One node of that kind, with the application's topics and a standby for each of its stores."""
    nodes = running_kafka(directory, SETTINGS) if kind == "apache-kafka" else running_node(directory, SETTINGS)
    with nodes as started:
        talk = Talk(Target("127.0.0.1", started.port, directory))
        try:
            for topic in (INPUT, OUTPUT):
                talk.topic(topic, PARTITIONS)
            talk.group(APPLICATION)
            set_standbys(started.bootstrap)
            yield talk
        finally:
            talk.close()


def set_standbys(bootstrap: str) -> None:
    of_group = ("--entity-type", "groups", "--entity-name", APPLICATION)
    run(
        "kafka-configs",
        "--bootstrap-server",
        bootstrap,
        "--alter",
        *of_group,
        "--add-config",
        "streams.num.standby.replicas=1",
    )


def described(talk: Talk, on: str = MAIN) -> Any:
    fields: dict[str, Any] = {"group_ids": (APPLICATION,), "include_authorized_operations": False}
    (group,) = talk.quiet(ApiKey.STREAMS_GROUP_DESCRIBE, on=on, **fields)["groups"]
    return group


def tasks(members: Any, role: str) -> list[tuple[str, str, int]]:
    """The process, subtopology and partition of each task."""
    return sorted(
        (member["process_id"], entry["subtopology_id"], partition)
        for member in members
        for entry in member["assignment"][role]
        for partition in entry["partitions"]
    )


def await_spread(describe: Callable[[], Any], processes: int) -> Any:
    """Wait until all threads of so many processes have settled; returns the group."""
    group: Any = None

    def is_spread() -> bool:
        nonlocal group
        group = describe()
        members = group["members"]
        return (
            group["group_state"] == "Stable"
            and len(members) == processes * THREADS
            and len({member["process_id"] for member in members}) == processes
        )

    wait_until(is_spread, f"{processes} processes", lambda: group)
    return group


@pytest.mark.parametrize("kind", ["apache-kafka", "isthmus"])
def test_an_instance_is_killed_and_replaced(kind: str, tmp_path: Path) -> None:
    with broker(kind, tmp_path / "broker") as talk:
        bootstrap = f"127.0.0.1:{talk.target.port}"
        instances = [WordCount(bootstrap, APPLICATION, tmp_path, number) for number in (1, 2, 3)]
        counts = Counts(bootstrap)
        try:
            for instance in instances[:2]:
                instance.start()
            send_lines(bootstrap, range(1, 400))
            wait_until(lambda: counts.are(expected_counts(range(1, 400))), "the first counts", lambda: counts.of_words)
            check_assignment(await_spread(lambda: described(talk), 2))
            instances[0].kill()
            send_lines(bootstrap, range(400, 800))
            instances[2].start()
            wait_until(lambda: counts.are(expected_counts(range(1, 800))), "all counts", lambda: counts.of_words)
            check_assignment(await_spread(lambda: described(talk), 2))
            check_internal_topics(talk)
        finally:
            counts.close()
            for instance in instances:
                instance.kill()


def check_assignment(group: Any) -> None:
    """Every task is active once, in one of two processes, and every store has its standby in the other."""
    active, standby = tasks(group["members"], "active_tasks"), tasks(group["members"], "standby_tasks")
    assert len({task[1:] for task in active}) == len(active) == TASKS
    stores = {task[1:]: task[0] for task in active if task[1] == "1"}
    assert len(standby) == PARTITIONS
    assert all(process != stores[subtopology, partition] for process, subtopology, partition in standby)
    assert len({task[0] for task in active}) == 2


def check_internal_topics(talk: Talk) -> None:
    """The broker has created them with the settings of the application."""
    for name, policy in ((REPARTITION, "delete"), (CHANGELOG, "compact")):
        named = [{"topic_id": None, "name": name}]
        (topic,) = talk.quiet(ApiKey.METADATA, topics=named, allow_auto_topic_creation=False)["topics"]
        assert (topic["error_code"], len(topic["partitions"])) == ("none", PARTITIONS)
        resource = {"resource_type": 2, "resource_name": name, "configuration_keys": ["cleanup.policy"]}
        answer = talk.quiet(
            ApiKey.DESCRIBE_CONFIGS, resources=[resource], include_synonyms=False, include_documentation=False
        )
        assert answer["results"][0]["configs"][0]["value"] == policy


REPLICATED: Final = {
    "offsets.topic.replication.factor": "3",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "group.streams.session.timeout.ms": "45000",
}


def test_the_coordinator_is_killed(tmp_path: Path) -> None:
    """The next one knows the group from its log: no member joins again, and every task stays where it is."""
    with running_cluster(tmp_path / "cluster", [COMBINED] * 3, settings=SETTINGS | REPLICATED) as cluster:
        for topic in (INPUT, OUTPUT):
            what = ("--create", "--topic", topic, "--partitions", str(PARTITIONS))
            run("kafka-topics", "--bootstrap-server", cluster.bootstrap, *what)
        set_standbys(cluster.bootstrap)
        instances = [WordCount(cluster.bootstrap, APPLICATION, tmp_path, number) for number in (1, 2)]
        counts = Counts(cluster.bootstrap)
        try:
            for instance in instances:
                instance.start()
            send_lines(cluster.bootstrap, range(1, 400))
            wait_until(lambda: counts.are(expected_counts(range(1, 400))), "the first counts", lambda: counts.of_words)
            before = await_spread(lambda: at_coordinator(cluster), 2)
            cluster.nodes[coordinator(cluster)].kill()
            send_lines(cluster.bootstrap, range(400, 800))
            wait_until(lambda: counts.are(expected_counts(range(1, 800))), "all counts", lambda: counts.of_words)
            after = await_spread(lambda: at_coordinator(cluster), 2)
            check_assignment(after)
            for role in ("active_tasks", "standby_tasks"):
                assert tasks(after["members"], role) == tasks(before["members"], role)
            assert after["group_epoch"] == before["group_epoch"]
        finally:
            counts.close()
            for instance in instances:
                instance.kill()


@contextmanager
def running_nodes(cluster: Cluster) -> Iterator[Talk]:
    """Talk to the nodes that run."""
    ports = {number: each.port for number, each in cluster.nodes.items() if each.running}
    talk = Talk(Target("127.0.0.1", next(iter(ports.values())), cluster.nodes[1].directory, ports))
    try:
        yield talk
    finally:
        talk.close()


def coordinator(cluster: Cluster) -> int:
    """The broker that coordinates the application's group."""
    with running_nodes(cluster) as talk:
        answer = talk.settle(lambda: talk.quiet(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=(APPLICATION,)))
        return int(answer["coordinators"][0]["node_id"])


def at_coordinator(cluster: Cluster) -> Any:
    """The group as its coordinator describes it."""
    number = coordinator(cluster)
    with running_nodes(cluster) as talk:
        return described(talk, node(number))
