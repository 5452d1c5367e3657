"""A node as a process of its own, for tests that kill it, talk to it with real clients, or read what it left on disk."""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from isthmus_broker.core.config.layers import BrokerLayers
from isthmus_broker.core.config.node_config import resolve_node
from isthmus_broker.core.raft.types import VoterSet
from isthmus_broker.edge.assembly.format import directories_of, format_directories, write_first_voters
from isthmus_broker.edge.controller.metadata_quorum import local_voter
from isthmus_broker.edge.storage.filesystem import SYSTEM
from isthmus_broker.edge.storage.log_dir import read_meta

from tests.ports import free_ports
from tests.process import Process

# For records whose timestamps lie years back: retention checks, the first after 30 s, would delete them in the middle of a slow test.
NO_RETENTION_CHECK = {"log.initial.task.delay.ms": str(7 * 24 * 3_600_000)}


class Node(Process):
    """One process; `start` again after `kill` or `stop` to see what it makes of its files."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        """Without `process.roles` it is a cluster of its own."""
        super().__init__(directory / "node.log")
        self.directory = directory
        self.port, self.controller_port = free_ports(2)
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "log.dirs": str(directory / "data"),
            **(settings or {}),
        }

    @property
    def metadata(self) -> Path:
        """The directory of its metadata log."""
        return Path(self.settings["log.dirs"].split(",")[0]) / "__cluster_metadata-0"

    def start(self) -> str:
        """Start and wait until it serves; returns the line it prints then."""
        self.launch()
        return self.await_ready()

    def launch(self) -> None:
        """Start without waiting: a node of a cluster may need others to become ready."""
        arguments = [argument for key, value in self.settings.items() for argument in ("--set", f"{key}={value}")]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("KAFKA_")}
        self._fork(["node", *arguments], environment)


@contextmanager
def running_node(directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[Node]:
    """A node that ends with the block."""
    node = Node(directory, settings)
    node.start()
    try:
        yield node
    finally:
        node.stop()


CLUSTER_ID = "aXN0aG11cy1vcmFjbGUtMA"
COMBINED = "broker,controller"


class Cluster:
    """Several nodes; node ids count from 1 in the order of their roles, and every address is known before any node starts."""

    def __init__(
        self,
        directory: Path,
        roles: Sequence[str],
        *,
        racks: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
        dynamic: bool = False,
        cluster_id: str = CLUSTER_ID,
    ) -> None:
        """`dynamic` leaves it to the metadata log who votes (kraft.version 1); else the settings say it."""
        self.nodes = {number: Node(directory / f"node-{number}") for number in range(1, len(roles) + 1)}
        self.roles = dict(zip(self.nodes, roles, strict=True))
        self.dynamic = dynamic
        self.cluster_id = cluster_id
        common = {
            "controller.listener.names": "CONTROLLER",
            **self._quorum(),
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "4",
            **(settings or {}),
        }
        for number, node in self.nodes.items():
            listeners = []
            if "broker" in self.roles[number]:
                listeners.append(f"PLAINTEXT://127.0.0.1:{node.port}")
            if "controller" in self.roles[number]:
                listeners.append(f"CONTROLLER://127.0.0.1:{node.controller_port}")
            own = {
                "process.roles": self.roles[number],
                "node.id": str(number),
                "listeners": ",".join(listeners),
                "log.dirs": str(node.directory / "data"),
            }
            if racks:
                own["broker.rack"] = racks[number - 1]
            node.settings = {**own, **common}

    def _quorum(self) -> dict[str, str]:
        places = {number: f"127.0.0.1:{self.nodes[number].controller_port}" for number in self.controllers}
        if self.dynamic:
            return {"controller.quorum.bootstrap.servers": ",".join(places.values())}
        return {"controller.quorum.voters": ",".join(f"{number}@{place}" for number, place in places.items())}

    @property
    def controllers(self) -> list[int]:
        """The nodes that may lead the quorum."""
        return [number for number, roles in self.roles.items() if "controller" in roles]

    @property
    def brokers(self) -> list[int]:
        """The nodes that clients talk to."""
        return [number for number, roles in self.roles.items() if "broker" in roles]

    @property
    def bootstrap(self) -> str:
        """All brokers."""
        return ",".join(self.nodes[number].bootstrap for number in self.brokers)

    @property
    def controller_bootstrap(self) -> str:
        """All controllers."""
        return ",".join(f"127.0.0.1:{self.nodes[number].controller_port}" for number in self.controllers)

    def format(self, voters: Sequence[int] | None = None) -> None:
        """Give every node its identity; with dynamic voters also who votes first, by default all controllers."""
        configs = {number: resolve_node(BrokerLayers(node.settings)) for number, node in self.nodes.items()}
        directories: dict[int, UUID] = {}
        for number, config in configs.items():
            format_directories(SYSTEM, directories_of(config), number, self.cluster_id)
            directories[number] = read_meta(SYSTEM, Path(config.metadata_log_dir)).directory_id
        if self.dynamic:
            chosen = self.controllers if voters is None else voters
            first = VoterSet(tuple(local_voter(configs[number], directories[number]) for number in chosen))
            for number in chosen:
                write_first_voters(SYSTEM, configs[number], first)

    def start(self, *numbers: int) -> None:
        """Start these nodes, by default all, and wait until they serve."""
        chosen = [self.nodes[number] for number in numbers or self.nodes]
        for node in chosen:
            node.launch()
        for node in chosen:
            node.await_ready()

    def end(self) -> None:
        """SIGKILL for all that run, at once: none of them outlives another for long enough to do anything about it."""
        running = [node for node in self.nodes.values() if node.running]
        for node in running:
            node.signal(signal.SIGKILL)
        for node in running:
            node.kill()


@contextmanager
def running_cluster(
    directory: Path,
    roles: Sequence[str],
    *,
    racks: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
    dynamic: bool = False,
    cluster_id: str = CLUSTER_ID,
) -> Iterator[Cluster]:
    """A cluster that ends with the block."""
    cluster = Cluster(directory, roles, racks=racks, settings=settings, dynamic=dynamic, cluster_id=cluster_id)
    cluster.format()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()
