"""Streams groups in REST v3, of a node of ours and of Apache Kafka."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.oracle.talk import Talk, Target
from tests.conformance.streams import Application
from tests.edge.api.conftest import Registered

GROUP = "streams-app"
TASKS = [{"subtopology_id": part, "partition_ids": [0, 1]} for part in ("0", "1")]


@pytest.fixture
def app(cluster: Registered, tmp_path: Path) -> Iterator[Application]:
    """An application with one member, which has all tasks."""
    host, port = cluster.bootstrap.split(":")
    talk = Talk(Target(host, int(port), tmp_path))
    application = Application(talk, GROUP)
    yield application
    application.remove()
    talk.close()


def _url(cluster: Registered, path: str = "") -> str:
    return f"http://127.0.0.1:{cluster.api.port}{cluster.path}/streams-groups/{GROUP}{path}"


def test_a_streams_group_with_its_topology_members_and_tasks(cluster: Registered, app: Application) -> None:
    def get(path: str = "") -> Any:
        return cluster.api.get(f"{cluster.path}/streams-groups/{GROUP}{path}")

    crn = f"crn:///kafka={cluster.cluster_id}/streams-group={GROUP}"
    group = get()
    assert group == {
        "kind": "KafkaStreamsGroup",
        "metadata": {"self": _url(cluster), "resource_name": crn},
        "cluster_id": cluster.cluster_id,
        "group_id": GROUP,
        "state": "STABLE",
        "member_count": 1,
        "subtopology_count": 2,
        "group_epoch": app.epoch,
        "topology_epoch": 0,
        "target_assignment_epoch": app.epoch,
        "members": {"related": _url(cluster, "/members")},
        "subtopologies": {"related": _url(cluster, "/subtopologies")},
    }
    assert cluster.api.get(f"{cluster.path}/streams-groups")["data"] == [group]

    first, second = get("/subtopologies")["data"]
    assert (first["source_topics"], first["repartition_sink_topics"]) == ([app.input], [app.repartition])
    assert get("/subtopologies/1") == second == {
        "kind": "KafkaStreamsGroupSubtopology",
        "metadata": {"self": _url(cluster, "/subtopologies/1"), "resource_name": f"{crn}/subtopology=1"},
        "cluster_id": cluster.cluster_id,
        "group_id": GROUP,
        "subtopology_id": "1",
        "source_topics": [],
        "repartition_source_topics": [app.repartition],
        "changelog_topics": [app.changelog],
        "repartition_sink_topics": [],
    }  # fmt: skip

    (member,) = get("/members")["data"]
    assert get("/members/m") == member == {
        "kind": "KafkaStreamsGroupMember",
        "metadata": {"self": _url(cluster, "/members/m"), "resource_name": f"{crn}/member=m"},
        "cluster_id": cluster.cluster_id,
        "group_id": GROUP,
        "member_id": "m",
        "process_id": "p",
        "client_id": "oracle",
        "instance_id": None,
        "member_epoch": app.epoch,
        "topology_epoch": 0,
        "is_classic": False,
        "tasks": {"active": TASKS, "standby": [], "warmup": []},
        "target_tasks": {"active": TASKS, "standby": [], "warmup": []},
        "assignments": {"related": _url(cluster, "/members/m/assignments")},
        "target_assignment": {"related": _url(cluster, "/members/m/target-assignments")},
    }  # fmt: skip

    for which in ("assignments", "target-assignments"):
        here = f"/members/m/{which}"
        assert get(here)["standby_tasks"] == {"related": _url(cluster, f"{here}/standby")}
        active = get(f"{here}/active")["data"]
        assert [{name: task[name] for name in TASKS[0]} for task in active] == TASKS
        assert get(f"{here}/active/subtopologies/1") == active[1]
        assert get(f"{here}/warmup")["data"] == []


def test_missing_groups_members_and_tasks_get_404(cluster: Registered, app: Application) -> None:
    here = f"{cluster.path}/streams-groups"
    for path in (
        "absent",
        f"{GROUP}/members/nobody",
        f"{GROUP}/subtopologies/9",
        f"{GROUP}/members/m/assignments/passive",
        f"{GROUP}/members/m/assignments/standby/subtopologies/0",
    ):
        assert cluster.api.request("GET", f"{here}/{path}").status == 404, path


def test_its_lags_are_those_of_any_group(cluster: Registered, app: Application) -> None:
    group = f"{cluster.path}/consumer-groups/{GROUP}"
    assert (cluster.api.get(group)["type"], cluster.api.get(group)["is_simple"]) == ("STREAMS", False)
    lags = cluster.api.get(f"{group}/lags")["data"]
    assert [(one["topic_name"], one["partition_id"], one["lag"], one["consumer_id"]) for one in lags] == [
        (app.input, 0, 0, "m"),
        (app.input, 1, 0, "m"),
    ]
