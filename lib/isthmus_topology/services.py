"""The services of a topology: what copies between its clusters, balances them, shows them, and puts a load on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from isthmus_topology.reading import (
    TopologyRefused,
    decimal,
    list_of,
    name_of,
    number,
    one_of,
    only,
    text,
    texts,
)

KEYS: Final = frozenset({"places", "linkers", "cluster_links", "mirrors", "balancers", "loads", "control_plane"})
LINKERS_MAX: Final = 8
RATE_MAX: Final = 100_000
RECORD_MAX: Final = 1_000_000
DEFAULT_LISTEN: Final = "127.0.0.1:8080"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a region is on the map."""

    title: str
    latitude: float
    longitude: float


@dataclass(frozen=True, slots=True)
class ClusterLink:
    """A link that is made when the clusters are up, and the topics that it mirrors."""

    name: str
    source: str
    destination: str
    topics: tuple[str, ...]
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Linker:
    """Workers for the links of a cluster."""

    cluster: str
    region: str
    count: int


@dataclass(frozen=True, slots=True)
class Mirror:
    """A mirror process from one cluster to another; `config` are settings of the flow as in mm2.properties."""

    source: str
    target: str
    region: str
    topics: str
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Balancer:
    """A balancer for a cluster."""

    cluster: str
    region: str


@dataclass(frozen=True, slots=True)
class Load:
    """A producer at a steady rate, and groups that read what it writes."""

    cluster: str
    region: str
    topic: str
    records_per_second: int
    record_bytes: int
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The control plane with its console."""

    region: str
    listen: str


@dataclass(frozen=True, slots=True)
class Services:
    """All services. With a control plane, every node serves metrics, and brokers write samples of lag and load."""

    control_plane: ControlPlane | None = None
    places: Mapping[str, Place] = field(default_factory=dict)
    linkers: tuple[Linker, ...] = ()
    cluster_links: tuple[ClusterLink, ...] = ()
    mirrors: tuple[Mirror, ...] = ()
    balancers: tuple[Balancer, ...] = ()
    loads: tuple[Load, ...] = ()


NO_SERVICES: Final = Services()


def read_services(given: Mapping[str, Any], regions: Sequence[str], clusters: Sequence[str]) -> Services:
    """Raises TopologyRefused."""
    read = _Reader(regions, clusters)
    services = Services(
        read.control_plane(given.get("control_plane")),
        read.places(given.get("places", {})),
        tuple(map(read.linker, list_of(given, "linkers", "the file"))),
        tuple(map(read.cluster_link, list_of(given, "cluster_links", "the file"))),
        tuple(map(read.mirror, list_of(given, "mirrors", "the file"))),
        tuple(map(read.balancer, list_of(given, "balancers", "the file"))),
        tuple(map(read.load, list_of(given, "loads", "the file"))),
    )
    for what, keys in (
        ("linkers of one cluster in one region", [(each.cluster, each.region) for each in services.linkers]),
        ("cluster links of one name", [(each.destination, each.name) for each in services.cluster_links]),
        ("mirrors between the same clusters", [(each.source, each.target) for each in services.mirrors]),
        ("balancers of one cluster", [(each.cluster,) for each in services.balancers]),
        ("loads on one topic", [(each.cluster, each.topic) for each in services.loads]),
    ):
        if len(set(keys)) != len(keys):
            raise TopologyRefused(f"there are two {what}")
    return services


class _Reader:
    """Knows the regions and clusters that may be named."""

    def __init__(self, regions: Sequence[str], clusters: Sequence[str]) -> None:
        self._regions = regions
        self._clusters = clusters

    def places(self, given: Any) -> dict[str, Place]:
        if not isinstance(given, dict):
            raise TopologyRefused("places must be a table of regions")
        return {one_of(region, self._regions, "region", "places"): _place(region, at) for region, at in given.items()}

    def control_plane(self, entry: Any) -> ControlPlane | None:
        if entry is None:
            return None
        where = "the control plane"
        only(entry, {"region", "listen"}, where)
        return ControlPlane(self._region(entry, where), text(entry, "listen", where, DEFAULT_LISTEN))

    def linker(self, entry: Any) -> Linker:
        where = "a linker"
        only(entry, {"cluster", "region", "count"}, where)
        count = number(entry, "count", where, 1, LINKERS_MAX, 1)
        return Linker(self._cluster(entry, "cluster", where), self._region(entry, where), count)

    def cluster_link(self, entry: Any) -> ClusterLink:
        where = "a cluster link"
        only(entry, {"name", "from", "to", "topics", "config"}, where)
        source, destination = self._pair(entry, where)
        name = name_of(entry.get("name"))
        return ClusterLink(name, source, destination, _names(entry, "topics", where), _config(entry, where))

    def mirror(self, entry: Any) -> Mirror:
        where = "a mirror"
        only(entry, {"from", "to", "region", "topics", "config"}, where)
        source, target = self._pair(entry, where)
        topics = text(entry, "topics", where, ".*")
        return Mirror(source, target, self._region(entry, where), topics, _config(entry, where))

    def balancer(self, entry: Any) -> Balancer:
        where = "a balancer"
        only(entry, {"cluster", "region"}, where)
        return Balancer(self._cluster(entry, "cluster", where), self._region(entry, where))

    def load(self, entry: Any) -> Load:
        where = "a load"
        only(entry, {"cluster", "region", "topic", "records_per_second", "record_bytes", "groups"}, where)
        return Load(
            self._cluster(entry, "cluster", where),
            self._region(entry, where),
            text(entry, "topic", where),
            number(entry, "records_per_second", where, 1, RATE_MAX, 20),
            number(entry, "record_bytes", where, 1, RECORD_MAX, 500),
            _names(entry, "groups", where),
        )

    def _region(self, entry: Mapping[str, Any], where: str) -> str:
        return one_of(entry.get("region"), self._regions, "region", where)

    def _cluster(self, entry: Mapping[str, Any], key: str, where: str) -> str:
        return one_of(entry.get(key), self._clusters, "cluster", where)

    def _pair(self, entry: Mapping[str, Any], where: str) -> tuple[str, str]:
        source, target = self._cluster(entry, "from", where), self._cluster(entry, "to", where)
        if source == target:
            raise TopologyRefused(f"{where} goes from {source} to itself")
        return source, target


def _place(region: str, at: Any) -> Place:
    where = f"the place of {region}"
    only(at, {"title", "latitude", "longitude"}, where)
    latitude, longitude = (decimal(at, k, where, most, -most) for k, most in (("latitude", 90), ("longitude", 180)))
    return Place(text(at, "title", where, region), latitude, longitude)


def _names(entry: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    names = list_of(entry, key, where)
    if not all(isinstance(name, str) and name for name in names):
        raise TopologyRefused(f"{key} of {where} must be a list of names")
    return tuple(names)


def _config(entry: Mapping[str, Any], where: str) -> dict[str, str]:
    return texts(entry.get("config", {}), f"the config of {where}")
