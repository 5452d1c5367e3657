"""One node for all tests of real clients that need no settings of their own; tests share it, so each uses names of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node import NO_RETENTION_CHECK, Node, running_node


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A running node."""
    directory: Path = tmp_path_factory.mktemp("node")
    with running_node(directory, NO_RETENTION_CHECK) as started:
        yield started
