"""Clusters of three nodes of either system, each broker and controller: the same settings, the same defaults otherwise."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.brokers import KAFKA, Broker, install
from bench.process import cpu_seconds, resident_mb
from tests.kafka import CLUSTER_ID, fetch
from tests.ports import free_ports

NODES: Final = (1, 2, 3)
ANSWER_SECONDS: Final = 30
JOIN_SECONDS: Final = 120
_KAFKA_HEAP: Final = "-Xmx1G -Xms256M"
"""Three brokers and their load share one machine."""


class ThreeNodes:
    """Node ids 1 to 3; any of them may be killed and started again."""

    def __init__(
        self,
        name: str,
        directory: Path,
        roles: str = "broker,controller",
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.name = name
        self._settings = settings
        self._roles = roles
        ports = free_ports(2 * len(NODES))
        self._ports = dict(zip(NODES, zip(ports[::2], ports[1::2], strict=True), strict=True))
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port, _ in self._ports.values())
        self.brokers = {node: self._make(node, directory / f"node-{node}") for node in NODES}

    def _make(self, node: int, directory: Path) -> Broker:
        directory.mkdir(parents=True)
        port, controller = self._ports[node]
        voters = ",".join(f"{other}@127.0.0.1:{place}" for other, (_, place) in self._ports.items())
        listeners = [f"PLAINTEXT://127.0.0.1:{port}"] if "broker" in self._roles else []
        settings = {
            "process.roles": self._roles,
            "node.id": str(node),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join([*listeners, f"CONTROLLER://127.0.0.1:{controller}"]),
            "log.dirs": str(directory / "data"),
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            "group.initial.rebalance.delay.ms": "0",
            **self._settings,
        }
        served = port if listeners else controller
        properties = directory / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        if self.name == KAFKA:
            tools = fetch() / "bin"
            subprocess.run(
                [tools / "kafka-storage.sh", "format", "-t", CLUSTER_ID, "-c", properties],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            command = ["env", f"KAFKA_HEAP_OPTS={_KAFKA_HEAP}", str(tools / "kafka-server-start.sh"), str(properties)]
            return Broker(self.name, directory, served, command)
        isthmus = str(install() / "isthmus")
        subprocess.run(
            [isthmus, "storage", "format", "-t", CLUSTER_ID, "-c", properties], check=True, stdout=subprocess.DEVNULL
        )
        return Broker(self.name, directory, served, [isthmus, "node", "-c", str(properties)])

    def controller_port(self, node: int) -> int:
        """Where its controller listens."""
        return self._ports[node][1]

    # -- life ----------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """All nodes, until each serves and knows the others."""
        for broker in self.brokers.values():
            broker.start()
        for broker in self.brokers.values():
            broker.await_serving()
        self.await_brokers()

    def await_brokers(self) -> None:
        """Until all three are in the metadata."""
        deadline = time.monotonic() + JOIN_SECONDS
        while len(self.admin().list_topics(timeout=ANSWER_SECONDS).brokers) < len(NODES):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name}: not all nodes joined")
            time.sleep(0.1)

    def stop(self) -> None:
        """SIGTERM for all."""
        for broker in self.brokers.values():
            broker.signal(signal.SIGTERM)
        for broker in self.brokers.values():
            broker.stop()

    # -- facts ---------------------------------------------------------------------------------------------------------------

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def leader(self, topic: str) -> int:
        """The leader of partition 0."""
        return int(self.admin().list_topics(topic, timeout=ANSWER_SECONDS).topics[topic].partitions[0].leader)

    def in_sync(self, topic: str) -> int:
        """The in-sync replicas of the partition that has the fewest."""
        partitions = self.admin().list_topics(topic, timeout=ANSWER_SECONDS).topics[topic].partitions
        return min((len(partition.isrs) for partition in partitions.values()), default=0)

    def await_in_sync(self, topic: str) -> None:
        """Until every replica is in sync."""
        deadline = time.monotonic() + JOIN_SECONDS
        while self.in_sync(topic) < len(NODES):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name}: {topic} is not in sync again")
            time.sleep(0.1)

    def resident_mb(self) -> float:
        return sum(resident_mb(broker.pid) for broker in self.brokers.values())

    def cpu_of(self, work: Callable[[], None]) -> float:
        """The CPU seconds that all nodes spend while the work is done."""
        before = sum(cpu_seconds(broker.pid) for broker in self.brokers.values())
        work()
        return sum(cpu_seconds(broker.pid) for broker in self.brokers.values()) - before

    @contextmanager
    def topic(self, name: str, partitions: int) -> Iterator[str]:
        """A topic on all three nodes, gone afterwards."""
        new_topic = NewTopic(name, partitions, len(NODES))
        admin = self.admin()
        admin.create_topics([new_topic])[name].result(ANSWER_SECONDS)
        self.await_in_sync(name)
        yield name
        admin.delete_topics([name])[name].result(ANSWER_SECONDS)
