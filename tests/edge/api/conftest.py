"""A control plane with a node of ours and a node of Apache Kafka registered; both hold the same, and must be described alike."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.edge.api.server import Api, running_api
from tests.kafka import running_kafka
from tests.node import running_node


class Registered(NamedTuple):
    """A cluster that the control plane knows."""

    kind: str
    cluster_id: str
    bootstrap: str
    api: Api

    @property
    def path(self) -> str:
        """Of its REST v3 resources."""
        return f"/kafka/v3/clusters/{self.cluster_id}"


@pytest.fixture(scope="package")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One control plane for all of them."""
    with running_api(tmp_path_factory.mktemp("api")) as api:
        yield api


@pytest.fixture(scope="package")
def isthmus(tmp_path_factory: pytest.TempPathFactory, serving: Api) -> Iterator[Registered]:
    """A node of ours."""
    settings = {
        "broker.rack": "eu-west/a",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "2",
    }
    with running_node(tmp_path_factory.mktemp("isthmus"), settings) as node:
        yield Registered("isthmus", serving.register("ours", node.bootstrap), node.bootstrap, serving)


@pytest.fixture(scope="package")
def kafka(tmp_path_factory: pytest.TempPathFactory, serving: Api) -> Iterator[Registered]:
    """A node of Apache Kafka."""
    settings = {"broker.rack": "us-east/b", "offsets.topic.num.partitions": "2"}
    with running_kafka(tmp_path_factory.mktemp("kafka"), settings) as node:
        yield Registered("kafka", serving.register("apache", node.bootstrap), node.bootstrap, serving)


@pytest.fixture(params=["isthmus", "kafka"])
def cluster(request: pytest.FixtureRequest) -> Registered:
    """Each of the two."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Registered)
    return found
