"""The parts of a topology: nodes with their settings and ports, relays that emulate the network between regions, and services."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from isthmus_topology.description import Topology

HOST: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Relay:
    """A relay from `port` in region `near` to port `target` in region `far`; on one machine, all addresses are the same."""

    near: str
    far: str
    port: int
    target: int
    listen: str = HOST
    host: str = HOST


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node: its roles, and its port for each region."""

    name: str
    cluster: str
    node_id: int
    region: str
    rack: str
    is_broker: bool
    is_controller: bool
    bound: Mapping[str, int]
    """The port of the listener for each region."""
    advertised: Mapping[str, int]
    """The port that each region uses: that of the listener in the node's own region, else that of a relay."""
    controller_bound: int | None
    controller_advertised: Mapping[str, int]
    settings: Mapping[str, str]

    @property
    def roles(self) -> str:
        return ",".join(role for role, has in (("broker", self.is_broker), ("controller", self.is_controller)) if has)


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """A process that is not a node."""

    name: str
    kind: str
    region: str
    command: tuple[str, ...]
    http: str | None
    """The address of its metrics and health."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The content of its files, by name."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All parts of a topology."""

    topology: Topology
    nodes: tuple[NodePlan, ...]
    relays: tuple[Relay, ...]
    services: tuple[ServicePlan, ...] = ()

    def bootstrap(self, cluster: str, region: str | None = None) -> str:
        """The bootstrap servers for clients of a region: the brokers in their region, if there are any."""
        brokers = [node for node in self.nodes if node.cluster == cluster and node.is_broker]
        region = brokers[0].region if region is None else region
        near = [node for node in brokers if node.region == region] or brokers
        return ",".join(f"{HOST}:{node.advertised[region]}" for node in near)
