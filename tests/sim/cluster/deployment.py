"""A cluster of a topology on the simulated loop: its nodes have the settings that `isthmus up` gives them.

One producer, which times out after two seconds, measures how long records are not acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Final

from isthmus_broker.core.metadata.schema import PartitionRecord
from isthmus_client.admin import topics
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.metadata import TopicPartition
from isthmus_model.endpoints import Endpoint
from isthmus_topology.description import read_topology
from isthmus_topology.plan import HOST, NodePlan
from isthmus_topology.planner import make_plan

from tests.histories import Acknowledged, Event, Sent
from tests.sim.cluster.ambient import simulated
from tests.sim.cluster.loop import SimLoop
from tests.sim.cluster.machine import Machine
from tests.sim.cluster.net import Link, Network
from tests.sim.cluster.peace import newest_image
from tests.sim.cluster.process import Process
from tests.sim.cluster.producers import PipelinedProducer
from tests.sim.cluster.threads import Threads

CLIENT_HOST: Final = "client"
REQUEST_SECONDS: Final = 1.5
"""The producer waits half a second longer for the response."""
START_SECONDS: Final = 60.0
_CLUSTER_ID: Final = "Y2x1c3Rlci1vZi1zaW1zQQ"
_LAN: Final = Link(0.0002, 0.0005, 0.0)
_DISK_SECONDS: Final = 0.01
_OWN_TO_HOSTS: Final = ("advertised.listeners", "isthmus.http.listen", "isthmus.samples.interval.ms")


class Deployment:
    """The first cluster of a topology, and a client in one of its regions."""

    def __init__(self, seed: int, text: str, client_region: str) -> None:
        self.random = random = Random(seed)
        self.loop = loop = SimLoop()
        topology = read_topology(text)
        plan = make_plan(topology, Path("/"))
        self.nodes = [node for node in plan.nodes if node.cluster == topology.clusters[0].name]
        loop.net = Network(loop, Random(random.getrandbits(64)), _LAN)
        disk = Random(random.getrandbits(64))
        loop.threads = Threads(loop, lambda _process: _DISK_SECONDS * disk.random())
        regions = {f"n{node.node_id}": node.region for node in self.nodes} | {CLIENT_HOST: client_region}
        self._regions = regions
        for link in topology.links:
            for source in regions:
                for target in regions:
                    if {regions[source], regions[target]} == set(link.between):
                        weather = link.weather
                        loop.net.links[source, target] = Link(weather.latency_ms / 1000, weather.jitter_ms / 1000, 0.0)
        voters = ",".join(
            f"{node.node_id}@n{node.node_id}:{node.controller_bound}" for node in self.nodes if node.is_controller
        )
        self.machines = {
            node.node_id: Machine(node.node_id, _settings(node, voters), loop, random) for node in self.nodes
        }
        self._bootstrap = [
            Endpoint(f"n{node.node_id}", node.bound[client_region]) for node in self.nodes if node.is_broker
        ]
        self._entropy = Random(random.getrandbits(64))
        self._sent: dict[bytes, float] = {}
        self.newest_acknowledged = 0.0
        """When the newest of the acknowledged records was sent."""

    def _wall_ms(self) -> int:
        return 1_700_000_000_000 + int(self.loop.time() * 1000)

    @contextmanager
    def running(self, topic: topics.NewTopic) -> Iterator[None]:
        """The cluster serves, and the topic exists, during the block."""
        with simulated(self.loop, self._entropy):
            try:
                for machine in self.machines.values():
                    machine.format(_CLUSTER_ID)
                    machine.start()
                self.await_true(lambda: all(machine.is_serving for machine in self.machines.values()))
                self._create(topic)
                yield
            finally:
                self.loop.end()

    # -- clients -------------------------------------------------------------------------------------------------------------

    def _client(self) -> Client:
        random = Random(self._entropy.getrandbits(64))
        return Client(self._bootstrap, operation_seconds=5.0, response_seconds=REQUEST_SECONDS + 0.5, randomness=random)

    def _create(self, topic: topics.NewTopic) -> None:
        created: list[None] = []

        async def create() -> None:
            client = self._client()
            while not created:
                try:
                    if (await topics.create(client, [topic]))[topic.name] is None:
                        created.append(None)
                except ClientError:
                    continue
            client.close()

        self.loop.spawn(Process("operator", CLIENT_HOST, self._wall_ms), create())
        self.await_true(lambda: bool(created))
        self.await_true(lambda: all(self._is_in_sync(record) for record in self.partitions(topic.name)))

    @staticmethod
    def _is_in_sync(record: PartitionRecord) -> bool:
        return set(record.isr) == set(record.replicas) - set(record.observers or ())

    def produce(self, partition: TopicPartition) -> None:
        """Produce from now on, and wait for the first acknowledgement."""

        async def produce() -> None:
            producer = PipelinedProducer(
                "p", self._client(), partition, self._record, self._entropy, keys=0, think_max=0.1,
                request_seconds=REQUEST_SECONDS,
            )  # fmt: skip
            await producer.run()

        self.loop.spawn(Process("producer", CLIENT_HOST, self._wall_ms), produce())
        self.await_true(lambda: self.newest_acknowledged > 0.0)

    def _record(self, event: Event) -> None:
        if isinstance(event, Sent):
            self._sent[event.value] = self.loop.time()
        elif isinstance(event, Acknowledged):
            self.newest_acknowledged = max(self.newest_acknowledged, self._sent.pop(event.value))

    # -- time, state and faults ----------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.loop.run_until(self.loop.time() + seconds)

    def await_true(self, condition: Callable[[], bool], within: float = START_SECONDS) -> None:
        """Let time pass until a condition holds."""
        assert self.loop.run_until(self.loop.time() + within, condition), "timed out"

    def seconds_without(self, fault: Callable[[], None], within: float) -> float:
        """The time from a fault to the acknowledgement of a record that is sent after it."""
        began = self.loop.time()
        fault()
        self.await_true(lambda: self.newest_acknowledged > began, within)
        return self.loop.time() - began

    def partitions(self, topic: str) -> list[PartitionRecord]:
        """The newest metadata of a topic's partitions."""
        named = newest_image(list(self.machines.values())).topics.named(topic)
        return [] if named is None else [named.partitions[index] for index in sorted(named.partitions)]

    def fenced(self) -> list[int]:
        """The brokers that are fenced now."""
        brokers = newest_image(list(self.machines.values())).brokers
        return [broker_id for broker_id, broker in brokers.items() if broker.fenced]

    def quorum_leader(self) -> int:
        """The active controller."""
        leaders = {m.node_id for m in self.machines.values() if m.node is not None and m.node._quorum.active.is_ready}
        assert len(leaders) == 1, leaders
        return leaders.pop()

    def stop(self, node_id: int) -> None:
        """SIGSTOP."""
        process = self.machines[node_id].process
        assert process is not None
        self.loop.stop_process(process)

    def resume(self, node_id: int) -> None:
        """SIGCONT."""
        process = self.machines[node_id].process
        assert process is not None
        self.loop.continue_process(process)

    def isolate(self, region: str) -> None:
        """Let nothing pass between a region and all others."""
        inside = [host for host, place in self._regions.items() if place == region]
        outside = [host for host, place in self._regions.items() if place != region]
        for near in inside:
            for far in outside:
                self.loop.net.cut(near, far)
                self.loop.net.cut(far, near)


def _settings(node: NodePlan, voters: str) -> dict[str, str]:
    """A node's settings, with a host of its own in place of the one address of a topology's machine."""
    settings = {key: value for key, value in node.settings.items() if key not in _OWN_TO_HOSTS}
    listeners = settings["listeners"].replace(HOST, f"n{node.node_id}")
    return settings | {"listeners": listeners, "controller.quorum.voters": voters, "log.dirs": "/data"}
