"""The control plane beside real clusters: links by REST alone, tasks that outlive their process, clusters that go and come."""

import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.edge.api.postgres import running_postgres
from tests.edge.api.server import Api, running_api
from tests.node import COMBINED, Node, running_cluster, running_node
from tests.process import ISTHMUS, STOP_SECONDS

QUICKLY_SECONDS = 10


def _produce(bootstrap: str, topic: str, records: int) -> None:
    lines = "".join(f"record-{number}\n" for number in range(records))
    subprocess.run(
        [ISTHMUS, "produce", topic, "-b", bootstrap], input=lines, text=True, check=True, capture_output=True
    )


@contextmanager
def _linker(bootstrap: str, log: Path) -> Iterator[None]:
    with log.open("wb") as file:
        process = subprocess.Popen([ISTHMUS, "linker", "-b", bootstrap], stdout=file, stderr=file)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_SECONDS)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, Node]]:
    """A source and a destination, each a node of its own."""
    place = tmp_path_factory.mktemp("pair")
    with (
        running_node(place / "source", {"broker.rack": "eu-west/a"}) as source,
        running_node(place / "destination", {"broker.rack": "us-east/a"}) as destination,
        _linker(destination.bootstrap, place / "linker.log"),
    ):
        yield source, destination


def _mirror(api: Api, source: Node, destination: Node, link: str, topics: dict[str, int]) -> tuple[str, str]:
    """Topics with records, and mirrors of them, by REST alone; returns the path of the destination and of the link."""
    source_id = api.register("source", source.bootstrap)
    target_id = api.register("destination", destination.bootstrap)
    there, here = f"/kafka/v3/clusters/{source_id}", f"/kafka/v3/clusters/{target_id}"
    for topic, records in topics.items():
        assert api.request("POST", f"{there}/topics", {"topic_name": topic, "partitions_count": 1}).status == 201
        _produce(source.bootstrap, topic, records)
    body = {"source_cluster_id": source_id, "configs": [{"name": "bootstrap.servers", "value": source.bootstrap}]}
    assert api.request("POST", f"{here}/links?link_name={link}&validate_only=true", body).status == 204
    assert api.get(f"{here}/links")["data"] == []
    created = api.request("POST", f"{here}/links?link_name={link}", body)
    assert created.status == 204, created
    for topic in topics:
        made = api.request("POST", f"{here}/links/{link}/mirrors", {"source_topic_name": topic})
        assert made.status == 204, made
    return here, f"{here}/links/{link}"


def _without_ages(listed: dict[str, Any]) -> list[dict[str, Any]]:
    """Mirror topics without what differs from one request to the next."""
    return [
        {**one, "mirror_lags": [{**lag, "source_age_ms": None} for lag in one["mirror_lags"]]} for one in listed["data"]
    ]


def _lags(told: dict[str, Any]) -> dict[str, list[tuple[int, int]]]:
    return {
        one["mirror_topic_name"]: [(lag["lag"], lag["last_source_fetch_offset"]) for lag in one["mirror_lags"]]
        for one in told["data"]
    }


def test_links_and_mirror_topics_from_creation_to_failover(pair: tuple[Node, Node], tmp_path: Path) -> None:
    source, destination = pair
    with running_api(tmp_path) as api:
        topics = {"orders": 5, "payments": 7, "returns": 3}
        here, link = _mirror(api, source, destination, "from-source", topics)
        told = api.await_that(f"{link}?include_tasks=true", lambda one: one["link_state"] == "ACTIVE" and one["tasks"])
        assert (told["kind"], told["link_name"], told["link_error"]) == ("KafkaLinkData", "from-source", "NO_ERROR")
        assert sorted(told["topic_names"]) == sorted(topics)
        assert {task["task_name"] for task in told["tasks"]} >= {"ConsumerOffsetSync", "TopicConfigsSync"}
        again = api.request("POST", f"{here}/links?link_name=from-source", {"configs": []})
        assert again.status == 400

        copied = {topic: [(0, records)] for topic, records in topics.items()}
        listed = api.await_that(f"{link}/mirrors", lambda one: _lags(one) == copied)
        assert {one["mirror_status"] for one in listed["data"]} == {"ACTIVE"}
        active = api.get(f"{here}/links/-/mirrors?mirror_status=ACTIVE")
        assert _without_ages(active) == _without_ages(listed)
        assert api.get(f"{here}/links/-/mirrors?mirror_status=STOPPED")["data"] == []
        refused = api.request("GET", f"{here}/links/-/mirrors?mirror_status=SLEEPING")
        assert (refused.status, refused.body["error_code"]) == (400, 400)

        configs = {one["name"]: one for one in api.get(f"{link}/configs")["data"]}
        assert configs["bootstrap.servers"]["value"] == source.bootstrap
        change = {"data": [{"name": "consumer.offset.sync.ms", "value": "2000"}]}
        assert api.request("PUT", f"{link}/configs:alter", change).status == 204
        changed = api.get(f"{link}/configs/consumer.offset.sync.ms")
        assert (changed["value"], changed["source"]) == ("2000", "DYNAMIC_CLUSTER_LINK_CONFIG")
        assert api.request("DELETE", f"{link}/configs/consumer.offset.sync.ms").status == 204
        assert api.get(f"{link}/configs/consumer.offset.sync.ms")["source"] == "DEFAULT_CONFIG"

        paused = api.request("POST", f"{link}/mirrors:pause", {"mirror_topic_name_pattern": "pay.*"}).body["data"]
        assert [(one["mirror_topic_name"], one["error_code"]) for one in paused] == [("payments", None)]
        api.await_that(f"{link}/mirrors/payments", lambda one: one["mirror_status"] == "PAUSED")
        names = {"mirror_topic_names": ["payments", "absent"]}
        resumed = api.request("POST", f"{link}/mirrors:resume", names).body["data"]
        assert [(one["mirror_topic_name"], one["error_code"]) for one in resumed] == [
            ("payments", None),
            ("absent", 404),
        ]
        api.await_that(f"{link}/mirrors/payments", lambda one: one["mirror_status"] == "ACTIVE")

        asked = {"mirror_topic_names": ["orders"]}
        checked = api.request("POST", f"{link}/mirrors:failover?validate_only=true", asked)
        assert (checked.status, checked.body["data"][0]["error_code"]) == (200, None)
        assert api.get(f"{link}/mirrors/orders")["mirror_status"] == "ACTIVE"
        assert api.request("POST", f"{link}/mirrors:failover", asked).body["data"][0]["error_code"] is None
        api.await_that(f"{link}/mirrors/orders", lambda one: one["mirror_status"] == "STOPPED")
        _produce(destination.bootstrap, "orders", 1)

        cluster_id = here.rpartition("/")[2]
        task = {
            "kind": "alter-mirrors",
            "cluster_id": cluster_id,
            "action": "promote",
            "topics": ["payments", "returns"],
        }
        begun = api.request("POST", "/api/v1/tasks", task)
        assert (begun.status, begun.body["total"]) == (202, 2)
        ended = api.await_that(f"/api/v1/tasks/{begun.body['task_id']}", lambda one: one["state"] != "OPEN")
        assert (ended["state"], ended["done"], ended["failed"]) == ("DONE", 2, 0)
        assert {one["mirror_status"] for one in api.get(f"{link}/mirrors")["data"]} == {"STOPPED"}

        flows = api.await_that("/api/v1/topology", lambda one: any(flow["kind"] == "link" for flow in one["flows"]))
        (flow,) = [one for one in flows["flows"] if one["kind"] == "link"]
        assert (flow["name"], flow["source_region"], flow["target_region"]) == ("from-source", "eu-west", "us-east")
        assert api.request("DELETE", link).status == 204
        gone = api.request("GET", link)
        assert (gone.status, gone.body["message"]) == (404, "Link from-source cannot be found.")


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_a_task_goes_on_after_sigkill(tmp_path: Path, store: str) -> None:
    with running_node(tmp_path / "node") as node:
        if store == "sqlite":
            _kill_half_way(tmp_path / "api", node, [])
        else:
            with running_postgres() as url:
                _kill_half_way(tmp_path / "api", node, ["--store", url])


def _kill_half_way(directory: Path, node: Node, options: list[str]) -> None:
    with running_api(directory, options) as api:
        cluster_id = api.register("node", node.bootstrap)
        names = [f"made-{number:03}" for number in range(200)]
        topics = [{"topic_name": name, "partitions_count": 1, "replication_factor": 1} for name in names]
        begun = api.request(
            "POST", "/api/v1/tasks", {"kind": "create-topics", "cluster_id": cluster_id, "topics": topics}
        )
        assert begun.status == 202
        path = f"/api/v1/tasks/{begun.body['task_id']}"
        half = api.await_that(path, lambda one: one["done"] > 0)
        assert half["state"] == "OPEN"
        api.kill()
        api.start()
        ended = api.await_that(path, lambda one: one["state"] != "OPEN")
        assert (ended["state"], ended["done"], ended["failed"], ended["total"]) == ("DONE", 200, 0, 200)
        made = [one["topic_name"] for one in api.get(f"/kafka/v3/clusters/{cluster_id}/topics")["data"]]
        assert [name for name in made if name.startswith("made-")] == names
        first = api.get(f"{path}/items?limit=120")
        second = api.get(f"{path}/items?limit=120&after={first['next']}")
        assert [one["item"]["topic_name"] for one in first["items"] + second["items"]] == names
        assert second["next"] is None
        (entry,) = [one for one in api.get("/api/v1/audit")["entries"] if one["action"] == "create_task"]
        assert (entry["actor"], entry["status"], entry["target"]) == ("admin", 202, "/api/v1/tasks")


def test_a_task_says_what_failed_and_can_be_ended(tmp_path: Path) -> None:
    with running_node(tmp_path / "node") as node, running_api(tmp_path / "api") as api:
        cluster_id = api.register("node", node.bootstrap)
        assert api.request("POST", f"/kafka/v3/clusters/{cluster_id}/topics", {"topic_name": "a"}).status == 201
        topics = [{"topic_name": "a", "partitions_count": 9}, {"topic_name": "b/c"}, {"topic_name": "d"}]
        settings = {"kind": "create-topics", "cluster_id": cluster_id, "topics": topics}
        begun = api.request("POST", "/api/v1/tasks", settings).body["task_id"]
        ended = api.await_that(f"/api/v1/tasks/{begun}", lambda one: one["state"] != "OPEN")
        assert (ended["state"], ended["done"], ended["failed"]) == ("FAILED", 1, 2)
        assert ended["message"] == "2 of 3 items failed"
        items = api.get(f"/api/v1/tasks/{begun}/items")["items"]
        assert [one["state"] for one in items] == ["FAILED", "FAILED", "DONE"]
        assert items[0]["message"] == "it exists with 1 partitions"
        over = api.request("POST", f"/api/v1/tasks/{begun}:cancel")
        assert (over.status, over.body["message"]) == (409, f"Task {begun} is finished already.")

        node.kill()
        waiting = api.request("POST", "/api/v1/tasks", {**settings, "topics": [{"topic_name": "e"}]}).body["task_id"]
        api.await_that(f"/api/v1/tasks/{waiting}", lambda one: "is unreachable" in one["message"])
        cancelled = api.request("POST", f"/api/v1/tasks/{waiting}:cancel")
        assert (cancelled.status, cancelled.body["state"]) == (200, "CANCELLED")
        unknown = api.request("POST", "/api/v1/tasks", {"kind": "no-such-kind"})
        assert (unknown.status, unknown.body["error_code"]) == (422, 422)


def test_an_unreachable_cluster_is_reported_quickly_and_recovers(tmp_path: Path) -> None:
    with running_node(tmp_path / "node", {"broker.rack": "eu-west/a"}) as node, running_api(tmp_path / "api") as api:
        cluster_id = api.register("node", node.bootstrap)
        api.await_that("/api/v1/topology", lambda one: one["clusters"][0]["state"] == "UP")
        node.kill()
        started = time.monotonic()
        answer = api.request("GET", f"/kafka/v3/clusters/{cluster_id}/topics")
        assert time.monotonic() - started < QUICKLY_SECONDS
        assert (answer.status, answer.body["error_code"]) == (503, 50302)
        assert answer.body["message"].startswith("Cluster node is unreachable: ")
        away = api.await_that("/api/v1/topology", lambda one: one["clusters"][0]["state"] == "UNREACHABLE")
        assert [broker["broker_id"] for broker in away["clusters"][0]["brokers"]] == [1]
        assert [one["name"] for one in api.get("/api/v1/clusters")["clusters"]] == ["node"]
        (listed,) = api.get("/kafka/v3/clusters")["data"]
        assert listed["controller"] is None
        assert api.send("GET", "/health/ready").body == {"status": "ready"}
        nobody = api.request("POST", "/api/v1/clusters", {"name": "nobody", "bootstrap_servers": node.bootstrap})
        assert (nobody.status, nobody.body["error_code"]) == (503, 50302)
        node.start()
        api.await_that("/api/v1/topology", lambda one: one["clusters"][0]["state"] == "UP")
        assert api.request("GET", f"/kafka/v3/clusters/{cluster_id}/topics").status == 200
        assert api.request("DELETE", f"/api/v1/clusters/{cluster_id}").status == 204
        assert api.request("GET", f"/kafka/v3/clusters/{cluster_id}/topics").status == 404


def _observed(api: Api, path: str) -> None:
    shares = {
        "version": 2,
        "replicas": [{"count": 1, "constraints": {"rack": "eu"}}],
        "observers": [{"count": 1, "constraints": {"rack": "us"}}],
    }
    placement = {"name": "isthmus.placement.constraints", "value": json.dumps(shares)}
    made = api.request(
        "POST", f"{path}/topics", {"topic_name": "watched", "partitions_count": 1, "configs": [placement]}
    )
    assert made.status == 201, made


def test_a_stretched_cluster_with_observers_and_partitions_that_move(tmp_path: Path) -> None:
    nodes = running_cluster(tmp_path / "nodes", [COMBINED, "broker", "broker"], racks=["eu", "us", "us"])
    with nodes as cluster, running_api(tmp_path / "api") as api:
        cluster_id = api.register("stretched", cluster.bootstrap)
        path = f"/kafka/v3/clusters/{cluster_id}"
        assert api.get(f"/api/v1/clusters/{cluster_id}")["regions"] == ["eu", "us"]
        place = {"title": "Frankfurt", "latitude": 50.1, "longitude": 8.7}
        assert api.request("PUT", "/api/v1/regions/eu", place).status == 200
        _observed(api, path)
        status = api.await_that(
            f"{path}/topics/watched/partitions/0/replica-status",
            lambda told: all(one["is_caught_up"] for one in told["data"]),
        )
        observers = {one["broker_id"]: one["is_observer"] for one in status["data"]}
        assert (len(observers), observers[1], sum(observers.values())) == (2, False, 1)
        places = api.get(f"/api/v1/clusters/{cluster_id}/topics/watched/replicas")["partitions"][0]["replicas"]
        assert [(one["region"], one["is_observer"], one["is_in_isr"]) for one in places] == [
            ("eu", False, True),
            ("us", True, False),
        ]
        topology = api.await_that(
            "/api/v1/topology", lambda told: told["flows"] and told["flows"][0]["state"] == "ACTIVE"
        )
        (flow,) = topology["flows"]
        assert (flow["kind"], flow["source_region"], flow["target_region"], flow["copies"]) == (
            "observer",
            "eu",
            "us",
            1,
        )
        assert [(one["name"], one["latitude"]) for one in topology["regions"]] == [("eu", 50.1), ("us", None)]
        assert [(one["region"], one["observers"]) for one in topology["clusters"][0]["regions"]] == [
            ("eu", 0),
            ("us", 1),
        ]
        assert topology["clusters"][0]["under_replicated"] == 0

        placed = [{"partition_id": 0, "broker_ids": [1]}, {"partition_id": 1, "broker_ids": [1]}]
        wanted = {"topic_name": "moving", "replicas_assignments": placed}
        assert api.request("POST", f"{path}/topics", wanted).status == 201
        _produce(cluster.bootstrap, "moving", 50)
        moves = [{"topic_name": "moving", "partition_id": index, "broker_ids": [2, 3]} for index in (0, 1)]
        absent = {"topic_name": "moving", "partition_id": 9, "broker_ids": [1]}
        task = {"kind": "reassign-partitions", "cluster_id": cluster_id, "partitions": [*moves, absent]}
        task_id = api.request("POST", "/api/v1/tasks", task).body["task_id"]
        ended = api.await_that(f"/api/v1/tasks/{task_id}", lambda told: told["state"] != "OPEN")
        assert (ended["state"], ended["done"], ended["failed"]) == ("FAILED", 2, 1)
        for index in (0, 1):
            replicas = api.get(f"{path}/topics/moving/partitions/{index}/replicas")["data"]
            assert [(one["broker_id"], one["is_in_sync"]) for one in replicas] == [(2, True), (3, True)]


def test_another_cluster_at_the_same_address_is_not_taken_for_the_first(tmp_path: Path) -> None:
    with running_api(tmp_path / "api") as api:
        with running_node(tmp_path / "first") as first:
            cluster_id = api.register("first", first.bootstrap)
            settings = {"listeners": first.settings["listeners"]}
        with running_node(tmp_path / "second", settings) as second:
            wanted = {"topic_name": "astray", "partitions_count": 1}
            answer = api.request("POST", f"/kafka/v3/clusters/{cluster_id}/topics", wanted)
            assert (answer.status, answer.body["error_code"]) == (503, 50302)
            assert answer.body["message"].startswith("Another cluster (")
            other_id = api.register("second", second.settings["listeners"].split(",")[0].removeprefix("PLAINTEXT://"))
            assert other_id != cluster_id
            assert api.get(f"/kafka/v3/clusters/{other_id}/topics")["data"] == []


def test_an_unreachable_store_is_reported(tmp_path: Path) -> None:
    with running_postgres() as url:
        api = Api(tmp_path, ["--store", url])
        api.start()
        try:
            assert api.send("GET", "/health/ready").status == 200
            first_key = api.key
            second = Api(tmp_path / "second", ["--store", url])
            second.start()
            try:  # another process of the same control plane, on another machine: the key is the database's
                assert second.output.startswith("ready ")
                assert second.send("GET", "/api/v1/session", headers=api.authorization).body == {"actor": "admin"}
            finally:
                assert second.stop() == 0
        except BaseException:
            api.stop()
            raise
    try:
        answer = api.request("GET", "/api/v1/regions")
        assert (answer.status, answer.body["message"]) == (503, "The store is unavailable.")
        _await_unready(api)
        assert api.send("GET", "/health/live").status == 200
        assert api.key == first_key
    finally:
        assert api.stop() == 0


def _await_unready(api: Api) -> None:
    give_up = time.monotonic() + 60
    pause = threading.Event()
    while (answer := api.send("GET", "/health/ready")).status != 503:
        assert time.monotonic() < give_up
        pause.wait(0.05)
    assert "the store is unavailable" in answer.body["reason"]
