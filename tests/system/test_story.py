"""One scenario through the platform, with REST and the command line only: an Apache Kafka is linked to a cluster of ours over two regions,
a broker is added and gets its share, the source dies, and all clients continue where they were. Every number is checked.
"""

import json
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import Any, Final

import pytest
from isthmus_model.internal_topics import LAG_TOPIC

from tests.edge.api.server import Api, running_api
from tests.kafka import KafkaNode, running_kafka
from tests.node import COMBINED, Cluster
from tests.process import ISTHMUS, STOP_SECONDS
from tests.system.ledger import wait_until

RECORDS: Final = 1_000
ORDERS: Final = tuple(f"order {number}" for number in range(RECORDS))
READ: Final = 600
PARTITIONS: Final = 4
ADDED: Final = 4
LINK: Final = "from-kafka"
GROUP: Final = "billing"
CONSTRAINTS: Final = json.dumps(
    {
        "version": 2,
        "replicas": [{"count": 2, "constraints": {"region": "west"}}],
        "observers": [{"count": 1, "constraints": {"region": "east"}}],
        "observerPromotionPolicy": "under-min-isr",
    }
)


def isthmus(*arguments: str, given: str = "") -> str:
    done = subprocess.run([ISTHMUS, *arguments], input=given, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def service(log: Path, *arguments: str) -> Iterator[None]:
    with log.open("wb") as file:
        process = subprocess.Popen([ISTHMUS, *arguments], stdout=file, stderr=file)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_SECONDS)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNode]:
    with running_kafka(tmp_path_factory.mktemp("kafka"), {"broker.rack": "north/a"}) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers over two regions, and a fourth that is not started yet."""
    made = Cluster(
        tmp_path_factory.mktemp("cluster"),
        [COMBINED, "broker", "broker", "broker"],
        racks=["west/a", "west/b", "east/a", "west/c"],
        settings={"isthmus.samples.interval.ms": "500", "default.replication.factor": "2"},
        cluster_id="aXN0aG11cy1zdG9yeS0tMQ",
    )
    made.format()
    try:
        for number in (1, 2, 3):
            made.nodes[number].launch()
        for number in (1, 2, 3):
            made.nodes[number].await_ready()
        yield made
    finally:
        made.end()


class Story:
    """The control plane, and what was registered with it."""

    def __init__(self, api: Api, source: KafkaNode, cluster: Cluster) -> None:
        self.api = api
        self.source = source
        self.cluster = cluster
        self.there = f"/kafka/v3/clusters/{api.register('kafka', source.bootstrap)}"
        self.cluster_id = api.register("ours", cluster.nodes[1].bootstrap)
        self.here = f"/kafka/v3/clusters/{self.cluster_id}"
        self.group_lags = f"{self.here}/consumer-groups/{GROUP}/lags"

    @property
    def bootstrap(self) -> str:
        """Of our cluster."""
        return self.cluster.nodes[1].bootstrap

    def make(self, where: str, topic: str, partitions: int, **configs: str) -> None:
        body = {
            "topic_name": topic,
            "partitions_count": partitions,
            "configs": [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()],
        }
        made = self.api.request("POST", f"{where}/topics", body)
        assert made.status == 201, made

    def write(self, bootstrap: str, topic: str, values: Sequence[str]) -> None:
        isthmus("produce", topic, "-b", bootstrap, given="".join(f"{value}\n" for value in values))

    def read_as_group(self, bootstrap: str, count: int) -> list[str]:
        arguments = (
            "orders",
            "--group",
            GROUP,
            "-n",
            str(count),
            "--from-beginning",
            "--timeout",
            "120",
            "--format",
            "%v\\n",
        )
        return isthmus("consume", *arguments, "-b", bootstrap).splitlines()

    def read(self, topic: str) -> list[str]:
        """All there is of a topic of our cluster; nothing while it does not exist."""
        arguments = ("consume", topic, "-b", self.bootstrap, "--from-beginning", "--until-end", "--format", "%v\\n")
        done = subprocess.run([ISTHMUS, *arguments], capture_output=True, text=True, timeout=240)
        return done.stdout.splitlines()

    def link(self) -> str:
        settings = {
            "bootstrap.servers": self.source.bootstrap,
            "consumer.offset.sync.enable": "true",
            "consumer.offset.sync.ms": "1000",
            "consumer.offset.group.filters": '{"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}',
        }
        body = {"configs": [{"name": name, "value": value} for name, value in settings.items()]}
        assert self.api.request("POST", f"{self.here}/links?link_name={LINK}", body).status == 204
        assert (
            self.api.request("POST", f"{self.here}/links/{LINK}/mirrors", {"source_topic_name": "orders"}).status == 204
        )
        return f"{self.here}/links/{LINK}/mirrors/orders"

    def copied(self, mirror: dict[str, Any]) -> int:
        return sum(lag["last_source_fetch_offset"] for lag in mirror["mirror_lags"] if lag["lag"] == 0)


def test_a_cluster_is_linked_balanced_lost_and_taken_over_from(
    source: KafkaNode, cluster: Cluster, tmp_path: Path
) -> None:
    with (
        running_api(tmp_path / "api") as api,
        service(tmp_path / "linker.log", "linker", "-b", cluster.nodes[1].bootstrap),
    ):
        story = Story(api, source, cluster)
        mirror = _a_link_brings_the_orders_over(story)
        _lag_is_told_and_reaches_zero(story)
        first = _a_group_reads_a_part_at_the_source(story)
        _a_broker_is_added_and_gets_its_share(story)
        _a_mirror_copies_another_topic(story, tmp_path)
        _the_source_dies_and_the_copy_is_taken_over(story, mirror, first)
        _a_report_tells_the_numbers_of_the_samples(story, tmp_path)


def _a_link_brings_the_orders_over(story: Story) -> str:
    """Topics with observers here, orders there."""
    story.make(story.here, "events", PARTITIONS, isthmus_placement_constraints=CONSTRAINTS)
    (observed,) = {tuple(sorted(_observers(one))) for one in _replica_status(story, "events")}
    assert observed == (3,)
    story.make(story.there, "orders", PARTITIONS)
    mirror = story.link()
    story.write(story.source.bootstrap, "orders", ORDERS)
    story.api.await_that(mirror, lambda one: story.copied(one) == RECORDS)
    assert story.api.get(mirror)["mirror_status"] == "ACTIVE"
    return mirror


def _lag_is_told_and_reaches_zero(story: Story) -> None:
    """That of the link, and that of the observers."""
    lag = "/api/v1/lag?by=copy&kind=link&topic=orders"
    series = story.api.await_that(
        lag, lambda one: len(one["series"]) == PARTITIONS and all(_at_end(each) for each in one["series"])
    )
    told = {(each["link"], each["source_topic"], each["target_cluster"]) for each in series["series"]}
    assert told == {(LINK, "orders", story.cluster_id)}
    story.write(story.bootstrap, "events", ORDERS)
    observers = "/api/v1/lag?by=copy&kind=observer&topic=events"
    story.api.await_that(observers, lambda one: len(one["series"]) == PARTITIONS)


def _a_group_reads_a_part_at_the_source(story: Story) -> list[str]:
    """Its offsets come over."""
    first = story.read_as_group(story.source.bootstrap, READ)
    assert len(first) == READ
    story.api.await_that(
        story.group_lags, lambda one: sum(lag["current_offset"] for lag in one.get("data", ())) == READ
    )
    return first


def _a_broker_is_added_and_gets_its_share(story: Story) -> None:
    """By a plan, that does what it promised."""
    api = story.api
    story.cluster.nodes[ADDED].start()
    plans = f"/api/v1/clusters/{story.cluster_id}/balancer/plans"
    wait_until(
        lambda: _share(plan := api.request("POST", plans, {}).body) is not None and not plan["unknown_loads"],
        "samples of all brokers",
    )
    plan = api.request("POST", plans, {}).body
    task = {"kind": "execute-plan", "cluster_id": story.cluster_id, "partitions": plan["targets"]}
    begun = api.request("POST", "/api/v1/tasks", task)
    ended = api.await_that(f"/api/v1/tasks/{begun.body['task_id']}", lambda one: one["state"] != "OPEN")
    assert (ended["state"], ended["failed"]) == ("DONE", 0)
    promised = {load["broker"]: load["replicas"] for load in plan["after"]}
    assert promised[ADDED] > 0
    for target in plan["targets"]:
        partition = f"{story.here}/topics/{target['topic_name']}/partitions/{target['partition_id']}"
        replicas = api.get(f"{partition}/replicas")["data"]
        assert sorted(one["broker_id"] for one in replicas) == sorted(target["broker_ids"])
    journal = 2  # replicas of the topic in which the run has written its throttles down
    api.await_that("/api/v1/topology", lambda _: _replicas(api, story.cluster_id) == sum(promised.values()) + journal)


def _a_mirror_copies_another_topic(story: Story, directory: Path) -> None:
    """Between the same clusters, under a name that includes the source."""
    story.make(story.there, "clicks", 2)
    story.write(story.source.bootstrap, "clicks", ORDERS)
    with service(directory / "mirror.log", "mirror", "-c", str(_mirror_file(directory, story))):
        wait_until(lambda: sorted(story.read("kafka.clicks")) == sorted(ORDERS), "all clicks in the mirrored topic")


def _the_source_dies_and_the_copy_is_taken_over(story: Story, mirror: str, first: Sequence[str]) -> None:
    """The group continues at its position."""
    story.source.kill()
    asked = {"mirror_topic_names": ["orders"]}
    answer = story.api.request("POST", f"{story.here}/links/{LINK}/mirrors:failover", asked)
    assert answer.body["data"][0]["error_code"] is None
    story.api.await_that(mirror, lambda one: one["mirror_status"] == "STOPPED")
    story.write(story.bootstrap, "orders", ["after the failover"])
    rest = story.read_as_group(story.bootstrap, RECORDS - READ + 1)
    assert sorted([*first, *rest]) == sorted([*ORDERS, "after the failover"])
    lags = story.api.get(story.group_lags)["data"]
    assert lags
    assert all(one["lag"] == 0 for one in lags)


def _a_report_tells_the_numbers_of_the_samples(story: Story, directory: Path) -> None:
    report, page = directory / "report.json", directory / "report.html"
    isthmus("lag", "report", "-b", story.bootstrap, "--json", str(report), "--html", str(page))
    (row,) = [one for one in json.loads(report.read_text())["lag"]["topic"]["rows"] if one["kind"] == "link"]
    told = _samples(story.bootstrap)
    assert (row["link"], row["topic"], row["samples"], row["copies"]) == (LINK, "orders", len(told), PARTITIONS)
    for name in ("lag_ms", "lag_records"):
        numbers = sorted(sample[name] for sample in told if sample["lag_ms"] >= 0)
        for percent in (50, 95, 99):
            assert row[f"{name}_p{percent}"] == numbers[max(ceil(len(numbers) * percent / 100) - 1, 0)]
        assert row[f"{name}_max"] == numbers[-1]
    assert "<svg" in page.read_text()


def _mirror_file(directory: Path, story: Story) -> Path:
    """A flow as MirrorMaker's file describes it."""
    lines = (
        "clusters = kafka, ours",
        f"kafka.bootstrap.servers = {story.source.bootstrap}",
        f"ours.bootstrap.servers = {story.bootstrap}",
        "kafka->ours.enabled = true",
        "kafka->ours.topics = clicks",
        "replication.factor = 2",
    )
    file = directory / "mm2.properties"
    file.write_text("\n".join(lines))
    return file


def _samples(bootstrap: str) -> list[dict[str, Any]]:
    """The linker's last report of the orders; it reports no more, because they are promoted."""
    format_ = ("--from-beginning", "--until-end", "--format", "%v\\n")
    told = [json.loads(line) for line in isthmus("consume", LAG_TOPIC, "-b", bootstrap, *format_).splitlines()]
    return [sample for sample in told if sample["kind"] == "link" and sample["topic"] == "orders"]


def _replica_status(story: Story, topic: str) -> list[list[dict[str, Any]]]:
    """The replicas of each partition."""
    told = story.api.get(f"{story.here}/topics/{topic}/partitions/-/replica-status")["data"]
    by_partition: dict[int, list[dict[str, Any]]] = {}
    for replica in told:
        by_partition.setdefault(replica["partition_id"], []).append(replica)
    assert len(by_partition) == PARTITIONS
    return list(by_partition.values())


def _observers(replicas: list[dict[str, Any]]) -> list[int]:
    return [replica["broker_id"] for replica in replicas if replica["is_observer"]]


def _at_end(series: dict[str, Any]) -> bool:
    return bool(series["points"]) and series["points"][-1]["lag_records"] == 0


def _share(plan: dict[str, Any]) -> int | None:
    return next((load["replicas"] for load in plan["after"] if load["broker"] == ADDED), None)


def _replicas(api: Api, cluster_id: str) -> int:
    """As the map counts them."""
    (found,) = [one for one in api.get("/api/v1/topology")["clusters"] if one["cluster_id"] == cluster_id]
    return sum(one["replicas"] for one in found["brokers"])
