"""A cluster over three regions under load while its parts fail: no acknowledged record is lost, doubled or reordered, and it keeps working.

`make soak` repeats each fault for as long as you like.
"""

from collections.abc import Iterator
from random import Random

import pytest

from tests.system.fault_load import load
from tests.system.faults import FAULTS, HOME, TOPOLOGY, combined_round, one_round, stepped_clocks
from tests.system.stretched import Stretched, running


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stretched]:
    with stepped_clocks(), running(tmp_path_factory.mktemp("faults"), TOPOLOGY) as started:
        yield started


@pytest.fixture
def cluster(site: Stretched) -> Iterator[Stretched]:
    """Everything runs; topics of a test do not outlive it."""
    yield site
    site.restore("west")


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_under_load(cluster: Stretched, name: str) -> None:
    with load(cluster, HOME) as running_load:
        one_round(running_load, FAULTS[name], Random(name))


def test_all_nodes_are_restarted_one_after_another(cluster: Stretched) -> None:
    with load(cluster, HOME) as running_load:
        for node in sorted(cluster.ids):
            running_load.give_leadership_to(node)
            one_round(running_load, FAULTS["restart"], Random(node))


def test_several_faults_at_once(cluster: Stretched) -> None:
    with load(cluster, HOME) as running_load:
        combined_round(running_load, Random(12), seconds=2.0)
