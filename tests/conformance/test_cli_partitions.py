"""`isthmus partition` against a cluster of three nodes."""

import json
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.node import COMBINED, Cluster, running_cluster
from tests.process import ISTHMUS

DEADLINE_SECONDS = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("partitions"), [COMBINED] * 3) as cluster:
        yield cluster


def isthmus(cluster: Cluster, *arguments: str, status: int = 0) -> str:
    finished = subprocess.run(
        [ISTHMUS, *arguments, "-b", cluster.bootstrap],
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert finished.returncode == status, finished.stderr
    return finished.stdout if status == 0 else finished.stderr


def rows(cluster: Cluster, *arguments: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(isthmus(cluster, *arguments, "-o", "json"))
    return found


def replicas(cluster: Cluster, topic: str) -> list[object]:
    return [row["broker"] for row in rows(cluster, "topic", "replicas", topic)]


def test_a_partition_moves_to_the_brokers_that_are_named(cluster: Cluster) -> None:
    isthmus(cluster, "topic", "create", "moving", "--replica-assignment", "1")
    assert isthmus(cluster, "partition", "move", "moving", "--to", "3:2") == "partition moving-0 is on its way\n"
    deadline = time.monotonic() + DEADLINE_SECONDS
    while rows(cluster, "partition", "moves"):
        assert time.monotonic() < deadline
    assert replicas(cluster, "moving") == [3, 2]
    assert "NO_REASSIGNMENT_IN_PROGRESS" in isthmus(cluster, "partition", "cancel", "moving", status=1).upper()
    refused = isthmus(cluster, "partition", "move", "moving", "--to", "3:9", status=1)
    assert "broker 9, but no such broker is registered" in refused


def test_the_preferred_replica_leads_again(cluster: Cluster) -> None:
    isthmus(cluster, "topic", "create", "led", "--replica-assignment", "2:1:3")
    assert isthmus(cluster, "partition", "elect", "led") == "", "nothing is to be done, and that is no failure"
    cluster.nodes[2].kill()
    deadline = time.monotonic() + DEADLINE_SECONDS
    while leader(cluster) == 2:
        assert time.monotonic() < deadline
    cluster.start(2)
    while not all(row["in_sync"] for row in rows(cluster, "topic", "replicas", "led")):
        assert time.monotonic() < deadline
    assert isthmus(cluster, "partition", "elect", "led", "-p", "0") == "partition led-0: leader elected\n"
    assert leader(cluster) == 2


def leader(cluster: Cluster) -> object:
    (found,) = [row["broker"] for row in rows(cluster, "topic", "replicas", "led") if row["leader"]]
    return found
