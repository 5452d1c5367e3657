"""Settings of a running node: those that take effect, and the warnings about those that do not."""

from pathlib import Path

import pytest
from isthmus_client.admin.configs import Change, Operation, Resource, alter
from isthmus_client.admin.topics import NewTopic, create
from isthmus_client.client import Client
from isthmus_client.connection import Connection
from isthmus_model.config_resources import ResourceType
from isthmus_model.endpoints import Endpoint
from isthmus_wire.apis import ApiKey
from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest

from tests.node import Cluster, Node, running_node
from tests.system.ledger import wait_until
from tests.system.quorums import query


def cordoned(node: Node) -> dict[str, bool]:
    """By directory, whether DescribeLogDirs says that it is cordoned."""

    async def work(_: Client) -> dict[str, bool]:
        connection = await Connection.open(Endpoint("127.0.0.1", node.port), "test")
        response = await connection.request(ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=None))
        connection.close()
        return {Path(result.log_dir).name: result.is_cordoned for result in response.results}

    return query(node.bootstrap, work)


def cordon(node: Node, names: str) -> None:
    change = Change("cordoned.log.dirs", Operation.SET, names)
    outcome = query(node.bootstrap, lambda client: alter(client, {Resource(ResourceType.BROKER, "1"): [change]}))
    assert list(outcome.values()) == [None]


def refusal(node: Node, topic: str) -> str:
    """Why the topic cannot be created; empty if it was."""
    outcome = query(node.bootstrap, lambda client: create(client, [NewTopic(topic, 1, 1)]))[topic]
    return "" if outcome is None else str(outcome)


def test_cordoned_directories_get_no_replicas(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    settings = {
        "log.dirs": f"{first},{second}",
        "cordoned.log.dirs": str(second),
        "broker.heartbeat.interval.ms": "200",
    }
    with running_node(tmp_path, settings) as node:
        assert cordoned(node) == {"first": False, "second": True}
        assert refusal(node, "one") == ""
        cordon(node, "*")
        assert cordoned(node) == {"first": True, "second": True}
        numbers = iter(range(1000))
        wait_until(lambda: "cordoned" in refusal(node, f"no-{next(numbers)}"), "the refusal of a topic")
        cordon(node, "")
        wait_until(lambda: refusal(node, f"yes-{next(numbers)}") == "", "a topic after the directories take replicas")


def test_settings_without_effect_are_named_at_the_start(tmp_path: Path) -> None:
    with running_node(tmp_path, {"queued.max.requests": "100", "ssl.client.auth": "required"}) as node:
        log = node.log()
    assert "queued.max.requests has no effect: requests are not queued" in log
    assert "ssl.client.auth has no effect: this release does not support TLS" in log
    assert log.count("has no effect") == 2


@pytest.mark.parametrize("enabled", [True, False])
def test_controlled_shutdown_can_be_turned_off(tmp_path: Path, enabled: bool) -> None:
    with running_node(tmp_path, {"controlled.shutdown.enable": str(enabled).lower()}) as node:
        assert node.stop() == 0
        assert ("controlled shutdown: moving the leaderships" in node.log()) == enabled
        node.start()


def test_a_start_that_takes_too_long_ends_the_node(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, ("controller", "broker"), settings={"server.max.startup.time.ms": "1500"})
    cluster.format()
    alone = cluster.nodes[2]
    try:
        alone.launch()
        wait_until(lambda: "(server.max.startup.time.ms)" in alone.log(), "the node to give up")
    finally:
        cluster.end()
