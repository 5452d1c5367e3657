"""One node for all tests of real clients that need no settings of their own; tests share it, so each uses names of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.transactions import RUNNING, Target, running_target
from tests.node import NO_RETENTION_CHECK, Node, running_node


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A running node."""
    directory: Path = tmp_path_factory.mktemp("node")
    with running_node(directory, NO_RETENTION_CHECK) as started:
        yield started


@pytest.fixture(
    scope="module", params=[(kind, version) for kind in RUNNING for version in (2, 1)], ids=lambda p: f"{p[0]}-{p[1]}"
)
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A node of Isthmus or Apache Kafka, with the newest transactions or those before KIP-890."""
    kind, version = request.param
    with running_target(kind, version, tmp_path_factory.mktemp("target")) as running:
        yield running
