"""What a topology is, and how its TOML file is read: regions, the links between them, clusters, nodes and topics."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,30}")
_PORT_MAX: Final = 65_535
NODES_MAX: Final = 60
DEFAULT_BASE_PORT: Final = 19_092


class TopologyRefused(Exception):
    """A topology that cannot be: which part of the file, what is wrong with it, and what would be right."""


@dataclass(frozen=True, slots=True)
class Weather:
    """How far two regions are apart, one way."""

    latency_ms: float = 0.0
    jitter_ms: float = 0.0
    loss: float = 0.0
    """The share of segments that are lost; TCP sends them again, so what is seen of a loss is delay."""
    bandwidth_mbit: float = 0.0
    """0 for no limit."""


@dataclass(frozen=True, slots=True)
class Link:
    """Two regions and what lies between them."""

    between: tuple[str, str]
    weather: Weather


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """The nodes of a cluster in one region: brokers, of which some vote, and controllers that do nothing else."""

    region: str
    brokers: int
    voters: int = 0
    controllers: int = 0


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that is made when the cluster is up."""

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
    """Everything that one file describes."""

    regions: tuple[str, ...]
    links: tuple[Link, ...]
    clusters: tuple[Cluster, ...]
    base_port: int = DEFAULT_BASE_PORT


def read_topology(text: str) -> Topology:
    """Raises TopologyRefused."""
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TopologyRefused(f"this is not TOML: {error}") from error
    _only(given, {"base_port", "regions", "links", "clusters"}, "the file")
    regions = tuple(_region(name) for name in _list(given, "regions", "the file"))
    if not regions or len(set(regions)) != len(regions):
        raise TopologyRefused('regions must name each region once, as in regions = ["west", "east"]')
    base_port = _number(given, "base_port", "the file", 1, _PORT_MAX, DEFAULT_BASE_PORT)
    links = tuple(_link(entry, regions) for entry in _list(given, "links", "the file"))
    if len({frozenset(link.between) for link in links}) != len(links):
        raise TopologyRefused("two links join the same regions")
    clusters = tuple(_cluster(entry, regions) for entry in _list(given, "clusters", "the file"))
    if not clusters or len({cluster.name for cluster in clusters}) != len(clusters):
        raise TopologyRefused("there must be [[clusters]], each with a name of its own")
    nodes = sum(group.brokers + group.controllers for cluster in clusters for group in cluster.nodes)
    if nodes > NODES_MAX:
        raise TopologyRefused(f"{nodes} nodes are more than the {NODES_MAX} that one machine is given")
    return Topology(regions, links, clusters, base_port)


def _region(name: Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise TopologyRefused(f"{name!r} is no name: small letters, digits and dashes, beginning with a letter")
    return name


def _known(region: Any, regions: Sequence[str], where: str) -> str:
    if region not in regions:
        raise TopologyRefused(f"{where} names region {region!r}; the regions are {', '.join(regions)}")
    assert isinstance(region, str)
    return region


def _link(entry: Any, regions: Sequence[str]) -> Link:
    where = "a link"
    _only(entry, {"between", "latency_ms", "jitter_ms", "loss", "bandwidth_mbit"}, where)
    between = _list(entry, "between", where)
    if len(between) != 2 or between[0] == between[1]:
        raise TopologyRefused('a link joins two regions, as in between = ["west", "east"]')
    first, second = (_known(region, regions, where) for region in between)
    return Link((first, second), read_weather(entry, f"the link between {first} and {second}"))


def read_weather(given: Mapping[str, Any], where: str) -> Weather:
    """The weather that a table tells, with defaults for what it leaves out."""
    values = {
        key: _decimal(given, key, where, highest)
        for key, highest in (("latency_ms", 60_000), ("jitter_ms", 60_000), ("loss", 0.5), ("bandwidth_mbit", 1e6))
    }
    return Weather(**values)


def _cluster(entry: Any, regions: Sequence[str]) -> Cluster:
    _only(entry, {"name", "nodes", "config", "topics"}, "a cluster")
    name = _region(entry.get("name"))
    where = f"cluster {name}"
    groups = tuple(_group(group, regions, where) for group in _list(entry, "nodes", where))
    if len({group.region for group in groups}) != len(groups):
        raise TopologyRefused(f"{where} names a region twice in its nodes")
    cluster = Cluster(
        name,
        groups,
        _texts(entry.get("config", {}), f"the config of {where}"),
        tuple(_topic(topic, where) for topic in _list(entry, "topics", where)),
    )
    if not cluster.broker_count:
        raise TopologyRefused(f"{where} has no brokers")
    if not sum(group.voters + group.controllers for group in groups):
        raise TopologyRefused(f"{where} has no voters: give voters or controllers to some of its nodes")
    return cluster


def _group(entry: Any, regions: Sequence[str], where: str) -> NodeGroup:
    where = f"the nodes of {where}"
    _only(entry, {"region", "brokers", "voters", "controllers"}, where)
    region = _known(entry.get("region"), regions, where)
    counts = {key: _number(entry, key, where, 0, NODES_MAX, 0) for key in ("brokers", "voters", "controllers")}
    if counts["voters"] > counts["brokers"]:
        raise TopologyRefused(f"{where} in {region}: {counts['voters']} of {counts['brokers']} brokers cannot vote")
    return NodeGroup(region, **counts)


def _topic(entry: Any, where: str) -> Topic:
    where = f"a topic of {where}"
    _only(entry, {"name", "partitions", "replication_factor", "placement", "config"}, where)
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise TopologyRefused(f"{where} has no name")
    config = dict(_texts(entry.get("config", {}), f"the config of {where}"))
    if "placement" in entry:
        config["isthmus.placement.constraints"] = json.dumps(entry["placement"])
    partitions = _number(entry, "partitions", where, 1, 100_000, 1)
    return Topic(name, partitions, _number(entry, "replication_factor", where, -1, NODES_MAX, -1), config)


def _texts(given: Any, where: str) -> dict[str, str]:
    if not isinstance(given, dict) or not all(isinstance(value, str | int | float) for value in given.values()):
        raise TopologyRefused(f"{where} must be a table of texts, numbers and true or false")
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in given.items()}


def _only(given: Any, keys: set[str], where: str) -> None:
    if not isinstance(given, dict):
        raise TopologyRefused(f"{where} must be a table")
    unknown = sorted(given.keys() - keys)
    if unknown:
        raise TopologyRefused(f"{where} has {', '.join(unknown)}; known are {', '.join(sorted(keys))}")


def _list(given: Mapping[str, Any], key: str, where: str) -> list[Any]:
    value = given.get(key, [])
    if not isinstance(value, list):
        raise TopologyRefused(f"{key} of {where} must be a list")
    return value


def _number(given: Mapping[str, Any], key: str, where: str, lowest: int, highest: int, default: int) -> int:
    value = given.get(key, default)
    if type(value) is not int or not lowest <= value <= highest:
        raise TopologyRefused(f"{key} of {where} is {value!r}; it must be a number from {lowest} to {highest}")
    return value


def _decimal(given: Mapping[str, Any], key: str, where: str, highest: float) -> float:
    value = given.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= highest:
        raise TopologyRefused(f"{key} of {where} is {value!r}; it must be a number from 0 to {highest:g}")
    return float(value)
