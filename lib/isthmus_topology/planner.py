"""Plan the parts of a topology: nodes with their settings, ports, and the relays that emulate the network between regions.

Every node has a listener for each region. In its own region it is reached directly, in another through a relay, whose address it advertises
there: so a client gets addresses of its own region, and only traffic that really crosses regions is delayed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from string import ascii_lowercase
from typing import Final, NamedTuple

from isthmus_topology.description import Cluster, Topology
from isthmus_topology.plan import HOST, NodePlan, Plan, Relay
from isthmus_topology.reading import TopologyRefused
from isthmus_topology.service_plan import plan_services

_PORT_MAX: Final = 65_535
_CONTROLLER: Final = "CONTROLLER"
_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_SAMPLES_MS: Final = 2_000
FAILOVER_SETTINGS: Final = {
    "broker.heartbeat.interval.ms": "250",
    "broker.session.timeout.ms": "1500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.election.backoff.max.ms": "500",
    "controller.quorum.request.timeout.ms": "1000",
    "replica.lag.time.max.ms": "3000",
}
"""For nodes on one network: an unresponsive node is replaced before a client times out after two seconds; see docs/failures.md."""


def make_plan(topology: Topology, directory: Path) -> Plan:
    """Plan the parts of a topology; raises TopologyRefused if there are not enough ports."""
    ports = _ports(topology.base_port)
    places = [(cluster, place) for cluster in topology.clusters for place in _places(cluster)]
    # The ports that users type come first and without gaps: those of the brokers in their own region.
    own = [next(ports) if place.is_broker else 0 for _, place in places]
    drafts = [_Draft(topology, cluster, place, port, ports) for (cluster, place), port in zip(places, own, strict=True)]
    nodes = []
    for draft in drafts:
        peers = [other for other in drafts if other.cluster is draft.cluster]
        nodes.append(draft.finished(peers, directory))
    if topology.services.control_plane is not None:
        nodes = [_observed(node, next(ports)) for node in nodes]
    plan = Plan(topology, tuple(nodes), tuple(relay for draft in drafts for relay in draft.relays))
    return replace(plan, services=plan_services(plan, ports, directory))


def _observed(node: NodePlan, port: int) -> NodePlan:
    """Add the settings for metrics, health and samples; the settings of the cluster take precedence."""
    defaults = {"isthmus.http.listen": f"{HOST}:{port}", "isthmus.samples.interval.ms": str(_SAMPLES_MS)}
    return replace(node, settings={**defaults, **node.settings})


def _ports(base: int) -> Iterator[int]:
    for port in count(base):
        if port > _PORT_MAX:
            raise TopologyRefused(f"there are not enough ports above base_port {base}")
        yield port


class _Place(NamedTuple):
    """The region and roles of a node."""

    node_id: int
    region: str
    number: int
    is_broker: bool
    is_controller: bool


def _places(cluster: Cluster) -> Iterator[_Place]:
    ids = count(1)
    for group in cluster.nodes:
        for number in range(group.brokers):
            yield _Place(next(ids), group.region, number, is_broker=True, is_controller=number < group.voters)
        for number in range(group.controllers):
            yield _Place(next(ids), group.region, group.brokers + number, is_broker=False, is_controller=True)


def listener_name(region: str) -> str:
    """The name of the listener for a region, in capitals as Kafka requires."""
    return region.upper().replace("-", "_")


class _Draft:
    """A node with its ports assigned."""

    def __init__(
        self, topology: Topology, cluster: Cluster, place: _Place, own_port: int, ports: Iterator[int]
    ) -> None:
        self.cluster = cluster
        self.node_id, region, number, self.is_broker, self.is_controller = place
        self.region = region
        self.relays: list[Relay] = []
        own = f"{region}-{number + 1}"
        self.name = own if len(topology.clusters) == 1 else f"{cluster.name}-{own}"
        self.rack = f"{region}/{ascii_lowercase[number % len(ascii_lowercase)]}"
        others = [other for other in topology.regions if other != region]
        self.bound = {region: own_port, **{other: next(ports) for other in others}} if self.is_broker else {}
        self.advertised = {other: self._reached(other, port, ports) for other, port in self.bound.items()}
        self.controller_bound = next(ports) if self.is_controller else None
        port = self.controller_bound
        self.controller_advertised = (
            {} if port is None else {other: self._reached(other, port, ports) for other in (region, *others)}
        )

    def _reached(self, region: str, port: int, ports: Iterator[int]) -> int:
        if region == self.region:
            return port
        relay = Relay(region, self.region, next(ports), port)
        self.relays.append(relay)
        return relay.port

    def finished(self, peers: list[_Draft], directory: Path) -> NodePlan:
        return NodePlan(
            self.name,
            self.cluster.name,
            self.node_id,
            self.region,
            self.rack,
            self.is_broker,
            self.is_controller,
            self.bound,
            self.advertised,
            self.controller_bound,
            self.controller_advertised,
            self._settings(peers, directory),
        )

    def _settings(self, peers: list[_Draft], directory: Path) -> dict[str, str]:
        voters = [peer for peer in peers if peer.is_controller]
        brokers = self.cluster.broker_count
        listeners = [f"{listener_name(region)}://{HOST}:{port}" for region, port in self.bound.items()]
        controller = [] if self.controller_bound is None else [f"{_CONTROLLER}://{HOST}:{self.controller_bound}"]
        names = [*sorted({*map(listener_name, self.bound), listener_name(self.region)}), _CONTROLLER]
        settings = {
            "node.id": str(self.node_id),
            "process.roles": ",".join(["broker"] * self.is_broker + ["controller"] * self.is_controller),
            "broker.rack": self.rack,
            "listeners": ",".join(listeners + controller),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
            "inter.broker.listener.name": listener_name(self.region),
            "controller.listener.names": _CONTROLLER,
            "controller.quorum.voters": ",".join(
                f"{voter.node_id}@{HOST}:{voter.controller_advertised[self.region]}" for voter in voters
            ),
            "log.dirs": str(directory / self.name / "data"),
            "default.replication.factor": str(min(3, brokers)),
            "offsets.topic.replication.factor": str(min(3, brokers)),
            "replica.selector.class": _SELECTOR,
            **FAILOVER_SETTINGS,
        }
        if self.is_broker:
            settings["advertised.listeners"] = ",".join(
                f"{listener_name(region)}://{HOST}:{port}" for region, port in self.advertised.items()
            )
        return {**settings, **self.cluster.config}
