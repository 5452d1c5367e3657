"""A node that has lost its quorum tries again less and less often: whole nodes with their default timeouts on virtual time."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Final

import pytest

from tests.sim.cluster.ambient import simulated
from tests.sim.cluster.loop import SimLoop
from tests.sim.cluster.machine import BROKER_PORT, CONTROLLER_PORT, Machine
from tests.sim.cluster.net import Link, Network
from tests.sim.cluster.threads import Threads

CLUSTER_ID: Final = "Y2x1c3Rlci1vZi1zaW1zQQ"
MINUTE: Final = 60.0
MESSAGES_MAX: Final = 300
"""Connections and messages of a node in a minute: five in a second, each of about a millisecond, are half a percent of a core."""


class CountingNetwork(Network):
    """Counts what each host sends to others: attempts to connect, and messages."""

    sent: Counter[str]

    def delay(self, source: str, target: str) -> float:
        if source != target:
            self.sent[source] += 1
        return super().delay(source, target)


class Nodes:
    """Controllers 1 to 3, which are brokers too, and broker 4."""

    def __init__(self, loop: SimLoop, net: CountingNetwork) -> None:
        self.loop = loop
        self.net = net
        self.machines = {node: Machine(node, settings(node), loop, Random(node)) for node in (1, 2, 3, 4)}

    def start(self) -> None:
        for machine in self.machines.values():
            machine.format(CLUSTER_ID)
            machine.start()
        self.wait_for(lambda: all(machine.is_serving for machine in self.machines.values()))

    def wait_for(self, done: Callable[[], bool]) -> None:
        assert self.loop.run_until(self.loop.time() + 5 * MINUTE, done)

    def kill(self, *nodes: int) -> None:
        for node in nodes:
            self.machines[node].kill()

    def sent_in_a_minute(self) -> Counter[str]:
        self.net.sent.clear()
        self.loop.run_until(self.loop.time() + MINUTE)
        return self.net.sent


def settings(node: int) -> dict[str, str]:
    is_controller = node <= 3
    listeners = [f"PLAINTEXT://n{node}:{BROKER_PORT}"] + [f"CONTROLLER://n{node}:{CONTROLLER_PORT}"] * is_controller
    return {
        "node.id": str(node),
        "process.roles": "broker,controller" if is_controller else "broker",
        "listeners": ",".join(listeners),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(f"{each}@n{each}:{CONTROLLER_PORT}" for each in (1, 2, 3)),
        "log.dirs": "/data",
    }


@contextmanager
def running() -> Iterator[Nodes]:
    loop = SimLoop()
    net = CountingNetwork(loop, Random(1), Link(0.0005, 0.0005, 0.0))
    net.sent = Counter()
    loop.net = net
    loop.threads = Threads(loop, lambda _process: 0.001)
    with simulated(loop, Random(2)):
        try:
            nodes = Nodes(loop, net)
            nodes.start()
            yield nodes
        finally:
            loop.end()


@pytest.mark.parametrize("survivor", [1, 2, 3])
def test_nodes_without_a_quorum_send_few_requests(survivor: int) -> None:
    """The surviving controller tried fifty times a second to reach the others, and so did the broker to find a leader."""
    with running() as nodes:
        nodes.kill(*({1, 2, 3} - {survivor}))
        nodes.loop.run_until(nodes.loop.time() + MINUTE)
        sent = nodes.sent_in_a_minute()
        assert set(sent) == {f"n{survivor}", "n4"}
        assert max(sent.values()) <= MESSAGES_MAX, sent


def test_a_broker_without_any_controller_sends_few_requests() -> None:
    with running() as nodes:
        nodes.kill(1, 2, 3)
        nodes.loop.run_until(nodes.loop.time() + MINUTE)
        sent = nodes.sent_in_a_minute()
        assert set(sent) == {"n4"}
        assert sent["n4"] <= MESSAGES_MAX, sent


def test_a_quorum_that_is_back_after_minutes_works_again_within_seconds() -> None:
    """The pauses are bounded: no node has to be restarted or waits for long."""
    with running() as nodes:
        nodes.kill(1, 2)
        nodes.loop.run_until(nodes.loop.time() + 5 * MINUTE)
        nodes.machines[1].start()
        offset = nodes.machines[4].metadata[0]
        begin = nodes.loop.time()
        nodes.wait_for(lambda: nodes.machines[1].is_serving and nodes.machines[4].metadata[0] > offset)
        assert nodes.loop.time() - begin < 15.0
