"""Lag samples and mirrors' topics, written by a producer, served by the control plane; events as they happen."""

import asyncio
import base64
import http.client
import json
import struct
import time
from pathlib import Path
from typing import Any

from isthmus_client.client import Client
from isthmus_client.producer import Producer
from isthmus_model.endpoints import parse_bootstrap
from isthmus_model.internal_topics import LAG_TOPIC
from isthmus_model.lag_samples import CopyKind, LagSample

from tests.edge.api.conftest import Registered
from tests.edge.api.server import Api, running_api


def _sample(cluster_id: str, partition: int, lag_ms: int, at_ms: int) -> LagSample:
    return LagSample(
        kind=CopyKind.MIRROR,
        link="told",
        source_cluster="far",
        target_cluster=cluster_id,
        source_region="asia",
        target_region="europe",
        source_topic="orders",
        topic="orders",
        partition=partition,
        target_broker=-1,
        source_end=100,
        target_end=90 + partition,
        lag_ms=lag_ms,
        at_ms=at_ms,
    )


async def _write(bootstrap: str, topic: str, records: list[tuple[bytes, bytes]]) -> None:
    async with Client(parse_bootstrap(bootstrap)) as client:
        producer = Producer(client)
        for key, value in records:
            await producer.send(topic, value, key=key)
        await producer.flush()


def test_samples_become_series_and_flows(cluster: Registered) -> None:
    api = cluster.api
    made = api.request("POST", f"{cluster.path}/topics", {"topic_name": LAG_TOPIC, "partitions_count": 2})
    assert made.status == 201 or "already exists" in made.body["message"]
    now = int(time.time() * 1000) // 10_000 * 10_000
    samples = [_sample(cluster.cluster_id, p, lag, now + t) for p, lag, t in ((0, 50, 0), (1, 70, 1), (0, 20, 2))]
    records = [(one.key(), one.value()) for one in samples]
    asyncio.run(_write(cluster.bootstrap, LAG_TOPIC, [*records, (b"x", b"no sample")]))

    query = f"/api/v1/lag?link=told&cluster_id={cluster.cluster_id}&step_ms=10000"
    whole = api.await_that(query, lambda told: told["series"] and told["series"][0]["points"][0]["copies"] == 2)
    (series,) = whole["series"]
    assert (series["kind"], series["link"], series["topic"], series["partition"]) == ("mirror", "told", "", -1)
    assert series["points"] == [{"at_ms": now, "copies": 2, "lag_ms": 70, "lag_records": 10 + 9}]
    by_copy = api.get(f"{query}&by=copy")["series"]
    assert [(one["topic"], one["partition"]) for one in by_copy] == [("orders", 0), ("orders", 1)]
    assert api.get(f"{query}&kind=link")["series"] == []
    assert api.get(f"{query}&by=regions")["series"][0]["source_region"] == "asia"

    topology = api.await_that("/api/v1/topology", lambda told: _flows(told, cluster.cluster_id))
    (flow,) = _flows(topology, cluster.cluster_id)
    assert (flow["name"], flow["source_region"], flow["target_region"]) == ("told", "asia", "europe")
    assert (flow["copies"], flow["lag_ms"], flow["lag_records"]) == (2, 70, 19)
    assert {"asia", "europe"} <= {region["name"] for region in topology["regions"]}


def _flows(topology: dict[str, Any], cluster_id: str) -> list[dict[str, Any]]:
    return [flow for flow in topology["flows"] if flow["target_cluster"] == cluster_id and flow["name"] == "told"]


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def test_flows_of_mirrors_are_read_from_their_topics(cluster: Registered) -> None:
    api = cluster.api
    assert api.get(f"/api/v1/clusters/{cluster.cluster_id}/mirror-flows") == {
        "heartbeats": [],
        "checkpoints": [],
        "offset_syncs": [],
    }
    topics = ("east.heartbeats", "east.checkpoints.internal", "mm2-offset-syncs.west.internal")
    for topic in topics:
        assert api.request("POST", f"{cluster.path}/topics", {"topic_name": topic, "partitions_count": 1}).status == 201
    beat = _text("east") + _text("west")
    beats = [(beat, struct.pack(">hq", 0, 1000)), (beat, struct.pack(">hq", 0, 2000)), (b"\0", b"torn")]
    asyncio.run(_write(cluster.bootstrap, topics[0], beats))
    place = _text("readers") + _text("east.orders") + struct.pack(">i", 3)
    gone = _text("gone") + _text("east.orders") + struct.pack(">i", 3)
    checkpoints = [
        (place, struct.pack(">hqq", 0, 70, 40) + _text("")),
        (gone, struct.pack(">hqq", 0, 1, 1)),
        (gone, b""),
    ]
    asyncio.run(_write(cluster.bootstrap, topics[1], checkpoints))
    sync = _text("orders") + struct.pack(">i", 3)
    asyncio.run(_write(cluster.bootstrap, topics[2], [(sync, struct.pack(">qq", 70, 40))]))
    offsets = {"partition": 3, "upstream_offset": 70, "offset": 40}
    assert api.get(f"/api/v1/clusters/{cluster.cluster_id}/mirror-flows") == {
        "heartbeats": [{"source": "east", "target": "west", "at_ms": 2000}],
        "checkpoints": [
            {
                "source": "east",
                "topic_name": topics[1],
                "checkpoints": [{"group": "readers", "topic": "east.orders", **offsets}],
            }
        ],
        "offset_syncs": [{"other": "west", "topic_name": topics[2], "offset_syncs": [{"topic": "orders", **offsets}]}],
    }
    for topic in topics:
        assert api.request("DELETE", f"{cluster.path}/topics/{topic}").status == 204


class _Events:
    """A reader of server-sent events."""

    def __init__(self, api: Api) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=60)
        key = base64.b64encode(f"admin:{api.key}".encode()).decode()
        self._connection.request("GET", "/api/v1/events", headers={"Authorization": f"Basic {key}"})
        self.response = self._connection.getresponse()

    def next(self, kind: str) -> Any:
        """The data of the next event of a kind."""
        found = ""
        while True:
            line = self.response.readline().decode().rstrip("\n")
            if line.startswith("event: "):
                found = line.removeprefix("event: ")
            elif line.startswith("data: ") and found == kind:
                return json.loads(line.removeprefix("data: "))

    def close(self) -> None:
        """Away."""
        self._connection.close()


def test_events_about_the_topology_and_tasks(tmp_path: Path, isthmus: Registered) -> None:
    with running_api(tmp_path) as api:
        events = _Events(api)
        try:
            assert (events.response.status, events.response.getheader("Content-Type")) == (200, "text/event-stream")
            assert events.next("topology")["clusters"] == []
            cluster_id = api.register("seen", isthmus.bootstrap)
            while (told := events.next("topology"))["clusters"] == [] or told["clusters"][0]["state"] != "UP":
                pass
            assert told["clusters"][0]["brokers"][0]["region"] == "eu-west"
            settings = {"kind": "create-topics", "cluster_id": cluster_id, "topics": [{"topic_name": "of-a-task"}]}
            task_id = api.request("POST", "/api/v1/tasks", settings).body["task_id"]
            while (told := events.next("task"))["state"] == "OPEN":
                pass
            assert told == {
                "task_id": task_id,
                "kind": "create-topics",
                "state": "DONE",
                "message": "",
                "total": 1,
                "done": 1,
                "failed": 0,
            }
        finally:
            events.close()
        assert (
            api.request("DELETE", f"{isthmus.path.replace(isthmus.cluster_id, cluster_id)}/topics/of-a-task").status
            == 204
        )
