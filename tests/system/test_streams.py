"""Kafka Streams with the streams group protocol: instances killed and replaced, and the coordinator lost under them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from isthmus_wire.apis import ApiKey

from tests.conformance.clients.java import run
from tests.conformance.oracle.talk import Talk, Target
from tests.kafka import running_kafka
from tests.node import running_node
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
    with nodes as node:
        talk = Talk(Target("127.0.0.1", node.port, directory))
        try:
            for topic in (INPUT, OUTPUT):
                talk.topic(topic, PARTITIONS)
            talk.group(APPLICATION)
            set_standbys(node.bootstrap)
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


def described(talk: Talk) -> Any:
    (group,) = talk.quiet(ApiKey.STREAMS_GROUP_DESCRIBE, group_ids=(APPLICATION,), include_authorized_operations=False)[
        "groups"
    ]
    return group


def tasks(members: Any, role: str) -> list[tuple[str, str, int]]:
    """The process, subtopology and partition of each task."""
    return sorted(
        (member["process_id"], entry["subtopology_id"], partition)
        for member in members
        for entry in member["assignment"][role]
        for partition in entry["partitions"]
    )


def is_spread_over(group: Any, processes: int) -> bool:
    """Whether all threads of so many processes have settled."""
    members = group["members"]
    return (
        group["group_state"] == "Stable"
        and len(members) == processes * THREADS
        and len({member["process_id"] for member in members}) == processes
    )


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
            wait_until(lambda: is_spread_over(described(talk), 2), "two instances", lambda: described(talk))
            check_assignment(described(talk))
            instances[0].kill()
            send_lines(bootstrap, range(400, 800))
            instances[2].start()
            wait_until(lambda: counts.are(expected_counts(range(1, 800))), "all counts", lambda: counts.of_words)
            wait_until(lambda: is_spread_over(described(talk), 2), "the replacement", lambda: described(talk))
            check_assignment(described(talk))
            check_internal_topics(talk)
        finally:
            counts.close()
            for instance in instances:
                instance.kill()


def check_assignment(group: Any) -> None:
    """Every task is active once, and every store has its standby in the other process."""
    active, standby = tasks(group["members"], "active_tasks"), tasks(group["members"], "standby_tasks")
    assert len({task[1:] for task in active}) == len(active) == TASKS
    stores = {task[1:]: task[0] for task in active if task[1] == "1"}
    assert len(standby) == PARTITIONS
    assert all(process != stores[subtopology, partition] for process, subtopology, partition in standby)
    shares = [sum(task[0] == process for task in active + standby) for process in {task[0] for task in active}]
    assert max(shares) - min(shares) <= 1


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
