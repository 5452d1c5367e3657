"""Topologies, and the parser of their TOML files: regions, the links between them, clusters, nodes and topics."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from isthmus_topology.reading import TopologyRefused, decimal, list_of, name_of, number, one_of, only, texts
from isthmus_topology.services import KEYS as SERVICE_KEYS
from isthmus_topology.services import NO_SERVICES, Services, read_services

_PORT_MAX: Final = 65_535
NODES_MAX: Final = 60
DEFAULT_BASE_PORT: Final = 19_092


@dataclass(frozen=True, slots=True)
class Weather:
    """The network conditions between two regions, one way."""

    latency_ms: float = 0.0
    jitter_ms: float = 0.0
    loss: float = 0.0
    """The share of lost segments; as TCP retransmits them, a loss appears as delay."""
    bandwidth_mbit: float = 0.0
    """0 for no limit."""


@dataclass(frozen=True, slots=True)
class Link:
    """Two regions and the network conditions between them."""

    between: tuple[str, str]
    weather: Weather


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """The nodes of a cluster in one region: brokers, some of them voters, and dedicated controllers."""

    region: str
    brokers: int
    voters: int = 0
    controllers: int = 0


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic to create once the cluster is up."""

    name: str
    partitions: int
    replication_factor: int = -1
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cluster:
    """One quorum and its brokers."""

    name: str
    nodes: tuple[NodeGroup, ...]
    config: Mapping[str, str] = field(default_factory=dict)
    topics: tuple[Topic, ...] = ()

    @property
    def broker_count(self) -> int:
        return sum(group.brokers for group in self.nodes)


@dataclass(frozen=True, slots=True)
class Topology:
    """The content of one file."""

    regions: tuple[str, ...]
    links: tuple[Link, ...]
    clusters: tuple[Cluster, ...]
    base_port: int = DEFAULT_BASE_PORT
    services: Services = NO_SERVICES


def read_topology(text: str) -> Topology:
    """Parse a topology; raises TopologyRefused."""
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TopologyRefused(f"this is not TOML: {error}") from error
    only(given, {"base_port", "regions", "links", "clusters"} | SERVICE_KEYS, "the file")
    regions = tuple(name_of(name) for name in list_of(given, "regions", "the file"))
    if not regions or len(set(regions)) != len(regions):
        raise TopologyRefused('regions must name each region once, as in regions = ["west", "east"]')
    base_port = number(given, "base_port", "the file", 1, _PORT_MAX, DEFAULT_BASE_PORT)
    links = tuple(_link(entry, regions) for entry in list_of(given, "links", "the file"))
    if len({frozenset(link.between) for link in links}) != len(links):
        raise TopologyRefused("two links join the same regions")
    clusters = tuple(_cluster(entry, regions) for entry in list_of(given, "clusters", "the file"))
    if not clusters or len({cluster.name for cluster in clusters}) != len(clusters):
        raise TopologyRefused("there must be [[clusters]], each with a name of its own")
    nodes = sum(group.brokers + group.controllers for cluster in clusters for group in cluster.nodes)
    if nodes > NODES_MAX:
        raise TopologyRefused(f"{nodes} nodes exceed the maximum of {NODES_MAX}")
    services = read_services(given, regions, [cluster.name for cluster in clusters])
    return Topology(regions, links, clusters, base_port, services)


def _link(entry: Any, regions: Sequence[str]) -> Link:
    where = "a link"
    only(entry, {"between", "latency_ms", "jitter_ms", "loss", "bandwidth_mbit"}, where)
    between = list_of(entry, "between", where)
    if len(between) != 2 or between[0] == between[1]:
        raise TopologyRefused('a link joins two regions, as in between = ["west", "east"]')
    first, second = (one_of(region, regions, "region", where) for region in between)
    return Link((first, second), read_weather(entry, f"the link between {first} and {second}"))


def read_weather(given: Mapping[str, Any], where: str) -> Weather:
    """Parse the network conditions of a table, with defaults for missing values."""
    values = {
        key: decimal(given, key, where, highest)
        for key, highest in (("latency_ms", 60_000), ("jitter_ms", 60_000), ("loss", 0.5), ("bandwidth_mbit", 1e6))
    }
    return Weather(**values)


def _cluster(entry: Any, regions: Sequence[str]) -> Cluster:
    only(entry, {"name", "nodes", "config", "topics"}, "a cluster")
    name = name_of(entry.get("name"))
    where = f"cluster {name}"
    groups = tuple(_group(group, regions, where) for group in list_of(entry, "nodes", where))
    if len({group.region for group in groups}) != len(groups):
        raise TopologyRefused(f"{where} names a region twice in its nodes")
    cluster = Cluster(
        name,
        groups,
        texts(entry.get("config", {}), f"the config of {where}"),
        tuple(_topic(topic, where) for topic in list_of(entry, "topics", where)),
    )
    if not cluster.broker_count:
        raise TopologyRefused(f"{where} has no brokers")
    if not sum(group.voters + group.controllers for group in groups):
        raise TopologyRefused(f"{where} has no voters: give voters or controllers to some of its nodes")
    return cluster


def _group(entry: Any, regions: Sequence[str], where: str) -> NodeGroup:
    where = f"the nodes of {where}"
    only(entry, {"region", "brokers", "voters", "controllers"}, where)
    region = one_of(entry.get("region"), regions, "region", where)
    counts = {key: number(entry, key, where, 0, NODES_MAX, 0) for key in ("brokers", "voters", "controllers")}
    if counts["voters"] > counts["brokers"]:
        raise TopologyRefused(f"{where} in {region}: {counts['voters']} of {counts['brokers']} brokers cannot vote")
    return NodeGroup(region, **counts)


def _topic(entry: Any, where: str) -> Topic:
    where = f"a topic of {where}"
    only(entry, {"name", "partitions", "replication_factor", "placement", "config"}, where)
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise TopologyRefused(f"{where} has no name")
    config = dict(texts(entry.get("config", {}), f"the config of {where}"))
    if "placement" in entry:
        config["isthmus.placement.constraints"] = json.dumps(entry["placement"])
    partitions = number(entry, "partitions", where, 1, 100_000, 1)
    return Topic(name, partitions, number(entry, "replication_factor", where, -1, NODES_MAX, -1), config)
