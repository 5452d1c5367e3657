"""Applications that consume, transform and produce in transactions, while brokers and applications are killed and paused.

Every record of their input takes effect exactly once, in order, and no transaction stays open. `make soak` repeats the faults for as
long as you like, and `python -m tests.exactly_once --system kafka` runs them against Apache Kafka.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.exactly_once.applications import JAVA, PYTHON, STREAMS
from tests.exactly_once.faults import CLUSTER_SETTINGS, one_round
from tests.exactly_once.load import running_load, workload_of
from tests.node import COMBINED, Cluster, running_cluster, running_node

FAULTS: Final[dict[str, Sequence[str]]] = {
    PYTHON: ("kill-transaction-coordinator", "pause-leader", "pause-application", "kill-group-coordinator"),
    JAVA: ("kill-leader", "pause-transaction-coordinator", "kill-application"),
    STREAMS: ("kill-application", "pause-group-coordinator", "kill-transaction-coordinator"),
}
"""Each strikes at least once."""
KILLS: Final = 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("exactly-once")
    with running_cluster(directory, [COMBINED] * 3, settings=CLUSTER_SETTINGS) as started:
        yield started


@pytest.mark.parametrize("kind", FAULTS)
def test_every_record_takes_effect_exactly_once(cluster: Cluster, kind: str, tmp_path: Path) -> None:
    with running_load(kind, workload_of(kind, cluster.bootstrap, kind), tmp_path) as load:
        for fault in FAULTS[kind]:
            one_round(load, cluster, fault, Random(fault))


def test_a_node_that_is_killed_continues_its_transactions(tmp_path: Path) -> None:
    with running_node(tmp_path / "node", {"transaction.state.log.num.partitions": "4"}) as node:
        workload = workload_of(PYTHON, node.bootstrap, "one-node", replicas=1)
        with running_load(PYTHON, workload, tmp_path) as load:
            for _ in range(KILLS):
                node.kill()
                node.start()
                load.go_on()
