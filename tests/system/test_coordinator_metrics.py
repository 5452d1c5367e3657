"""The metrics of a node's coordinators, over HTTP."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.conformance.oracle.exchanges.streams_groups import beat, configure, join, part, tasks_in, topology_of
from tests.conformance.oracle.talk import Talk, Target
from tests.conformance.oracle.transactional import Producer, ended, started, write
from tests.node import running_node
from tests.ports import free_ports
from tests.system.test_observation import metrics

GROUPS: Final = "kafka_server_group_coordinator_metrics"
TRANSACTIONS: Final = "kafka_server_transaction_coordinator_metrics"
VERIFICATIONS: Final = "kafka_server_addpartitionstotxnmanager"


class Node:
    """A node with metrics, and a conversation with it."""

    def __init__(self, talk: Talk, port: int) -> None:
        self.talk = talk
        self._port = port

    def value(self, name: str, **labels: str) -> float | None:
        return metrics(self._port).get((name, tuple(sorted(labels.items()))))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    (port,) = free_ports(1)
    with running_node(tmp_path, {"isthmus.http.listen": f"127.0.0.1:{port}"}) as process:
        talk = Talk(Target("127.0.0.1", process.port, tmp_path))
        yield Node(talk, port)
        talk.close()


def test_a_streams_group_is_counted_in_its_state(node: Node) -> None:
    talk = node.talk
    assert node.value(f"{GROUPS}_partition_load_time_max") is None, "nothing was loaded, which is not a load of 0 ms"
    assert node.value(f"{GROUPS}_num_partitions", state="active") == 0
    talk.topic("input", 2)
    talk.group("app")
    assert node.value(f"{GROUPS}_num_partitions", state="loading") == 0
    longest, average = (node.value(f"{GROUPS}_partition_load_time_{name}") for name in ("max", "avg"))
    assert longest is not None
    assert average is not None
    assert 0 <= average <= longest
    for group, topic in (("waits", "never-there"), ("app", "input")):
        configure(talk, group, initial_rebalance_delay_ms="0", session_timeout_ms="60000")
        joined = join(talk, group, "m", topology_of(part("0", topic)))
        beat(talk, group, "m", joined["member_epoch"], **tasks_in(joined))
    assert node.value(f"{GROUPS}_streams_group_count", state="NotReady") == 1
    assert node.value(f"{GROUPS}_streams_group_count", state="Stable") == 1
    assert node.value(f"{GROUPS}_streams_group_count", state="Empty") == 0
    assert node.value(f"{GROUPS}_group_count", protocol="streams") == 2
    assert node.value(f"{GROUPS}_group_count", protocol="consumer") == 0
    assert node.value(f"{GROUPS}_streams_group_rebalance_count_total") == 2


def test_verifications_are_timed_and_their_failures_counted(node: Node) -> None:
    talk = node.talk
    assert node.value(f"{TRANSACTIONS}_partition_load_time_max") is None
    talk.topic("verified")
    producer = started(talk, "one")
    assert node.value(f"{TRANSACTIONS}_partition_load_time_max") is not None
    write(talk, producer, "verified")
    assert node.value(f"{VERIFICATIONS}_verificationtimems_count") == 1
    assert node.value(f"{VERIFICATIONS}_verificationfailurerate_total") == 0
    write(talk, Producer("nobody", producer.id + 1, 0), "verified")
    assert node.value(f"{VERIFICATIONS}_verificationtimems_count") == 2
    assert node.value(f"{VERIFICATIONS}_verificationfailurerate_total") == 1
    assert node.value("isthmus_partitions_with_open_transactions") == 1
    late = "kafka_server_replicamanager_partitionswithlatetransactionscount"
    assert node.value(late) == 1, "its records are years old"
    ended(talk, producer, True)
    assert node.value(late) == 0
    assert node.value("isthmus_partitions_with_open_transactions") == 0
