"""`isthmus group` and a streams group, of a node and of Apache Kafka."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.oracle.exchanges import COMMON
from tests.conformance.oracle.talk import Talk
from tests.conformance.oracle.talk import Target as Address
from tests.conformance.streams import Application
from tests.kafka import KafkaNode, running_kafka
from tests.node import Node, running_node
from tests.process import ISTHMUS

ALL_TASKS = {"0": [0, 1], "1": [0, 1]}


@pytest.fixture(params=["isthmus", "kafka"])
def application(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Application]]:
    """A bootstrap server, and an application with one member."""
    node: AbstractContextManager[Node] | AbstractContextManager[KafkaNode] = (
        running_node(tmp_path, COMMON) if request.param == "isthmus" else running_kafka(tmp_path, COMMON)
    )
    with node as running:
        talk = Talk(Address("127.0.0.1", running.port, tmp_path))
        yield running.bootstrap, Application(talk, "app")
        talk.close()


def isthmus(bootstrap: str, *arguments: str) -> str:
    done = subprocess.run([ISTHMUS, *arguments, "-b", bootstrap], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_streams_group_is_described(application: tuple[str, Application]) -> None:
    bootstrap, app = application
    (described,) = json.loads(isthmus(bootstrap, "group", "describe", "app", "-o", "json"))
    (member,) = described.pop("members")
    offsets: list[dict[str, Any]] = described.pop("offsets")
    assert described == {
        "group": "app",
        "type": "streams",
        "state": "Stable",
        "protocol": "streams",
        "assignor": "",
        "coordinator": 1,
        "epoch": app.epoch,
        "assignment_epoch": app.epoch,
        "topology": {
            "epoch": 0,
            "subtopologies": [
                {
                    "subtopology": "0",
                    "sources": [app.input],
                    "repartition_sources": [],
                    "changelogs": [],
                    "repartition_sinks": [app.repartition],
                },
                {
                    "subtopology": "1",
                    "sources": [],
                    "repartition_sources": [app.repartition],
                    "changelogs": [app.changelog],
                    "repartition_sinks": [],
                },
            ],
        },
        "lag": None,
    }
    assert member == {
        "member": "m",
        "instance": None,
        "client": "oracle",
        "host": "/127.0.0.1",
        "rack": None,
        "epoch": app.epoch,
        "topics": [app.input, app.repartition],
        "partitions": [f"{topic}-{index}" for topic in (app.input, app.repartition) for index in (0, 1)],
        "process": "p",
        "topology_epoch": 0,
        "endpoint": None,
        "active": ALL_TASKS,
        "standby": {},
        "warmup": {},
        "target_active": ALL_TASKS,
        "target_standby": {},
        "target_warmup": {},
    }
    assert [(row["topic"], row["partition"], row["committed"], row["lag"], row["member"]) for row in offsets] == [
        (app.input, 0, 0, 0, "m"),
        (app.input, 1, 0, 0, "m"),
        (app.repartition, 0, None, None, "m"),
        (app.repartition, 1, None, None, "m"),
    ]


def test_tables_show_the_topology_and_the_tasks(application: tuple[str, Application]) -> None:
    bootstrap, app = application
    lines = [line.split() for line in isthmus(bootstrap, "group", "describe", "app").splitlines()]
    epoch = str(app.epoch)
    assert f"epoch {epoch} assignment epoch {epoch} topology epoch 0" in " ".join(lines[0])
    assert "lag at least 0, 2 of 4 partitions unknown" in " ".join(lines[0])
    assert ["app", "0", app.input, "-", "-", app.repartition] in lines
    assert ["app", "1", "-", app.repartition, app.changelog, "-"] in lines
    assert ["app", "m", "oracle", "/127.0.0.1", "p", epoch, "0:[0,1],1:[0,1]", "-", "-"] in lines
    assert ["app", app.input, "0", "0", "0", "0", "m"] in lines
    assert ["app", "streams", "Stable", "streams"] in [
        line.split() for line in isthmus(bootstrap, "group", "list", "--type", "streams").splitlines()
    ]


def test_a_group_without_members_keeps_its_topology(application: tuple[str, Application]) -> None:
    bootstrap, app = application
    app.leave()
    (described,) = json.loads(isthmus(bootstrap, "group", "describe", "app", "-o", "json"))
    assert (described["state"], described["members"]) == ("Empty", [])
    assert [part["subtopology"] for part in described["topology"]["subtopologies"]] == ["0", "1"]
    reset = isthmus(bootstrap, "group", "reset-offsets", "app", "--topic", app.input, "--to-latest", "-o", "json")
    assert [row["topic"] for row in json.loads(reset)] == [app.input, app.input]


def test_standby_tasks_are_those_of_other_processes(application: tuple[str, Application]) -> None:
    bootstrap, app = application
    app.share_with("n", "q")
    (described,) = json.loads(isthmus(bootstrap, "group", "describe", "app", "-o", "json"))
    members = sorted(described["members"], key=lambda member: str(member["process"]))
    assert [member["process"] for member in members] == ["p", "q"]
    active, standby = ([member[kind].get("1", []) for member in members] for kind in ("active", "standby"))
    assert sorted(active) == [[0], [1]]
    assert standby == active[::-1], "only the tasks of subtopology 1 have state"
    for member in members:
        assert member["partitions"] == [
            f"{topic}-{index}"
            for topic, part in ((app.input, "0"), (app.repartition, "1"))
            for index in member["active"].get(part, [])
        ]
