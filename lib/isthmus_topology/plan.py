"""The parts of a topology: nodes with their settings and ports, relays that stand for the distance between regions, and services."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from isthmus_topology.description import Topology

HOST: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Relay:
    """Who connects to `port` in region `near` reaches `target` in region `far`; on one machine they are all at one address."""

    near: str
    far: str
    port: int
    target: int
    listen: str = HOST
    host: str = HOST


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node: what it is, and where each region finds it."""

    name: str
    cluster: str
    node_id: int
    region: str
    rack: str
    is_broker: bool
    is_controller: bool
    bound: Mapping[str, int]
    """Region to the port of the listener for it."""
    advertised: Mapping[str, int]
    """Region to the port that the region uses: the listener's in the node's own, else a relay's."""
    controller_bound: int | None
    controller_advertised: Mapping[str, int]
    settings: Mapping[str, str]

    @property
    def roles(self) -> str:
        return ",".join(role for role, has in (("broker", self.is_broker), ("controller", self.is_controller)) if has)


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """One process that is no node."""

    name: str
    kind: str
    region: str
    command: tuple[str, ...]
    http: str | None
    """Where it tells metrics and health."""
    files: Mapping[str, str] = field(default_factory=dict)
    """What it reads from its directory, by file name."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All of it."""

    topology: Topology
    nodes: tuple[NodePlan, ...]
    relays: tuple[Relay, ...]
    services: tuple[ServicePlan, ...] = ()

    def bootstrap(self, cluster: str, region: str | None = None) -> str:
        """Where clients of a region begin: the brokers of their own region if the cluster has some there."""
        brokers = [node for node in self.nodes if node.cluster == cluster and node.is_broker]
        region = brokers[0].region if region is None else region
        near = [node for node in brokers if node.region == region] or brokers
        return ",".join(f"{HOST}:{node.advertised[region]}" for node in near)
