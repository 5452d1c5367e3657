"""What is registered: regions, clusters and services."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ClusterKind(StrEnum):
    """What the brokers of a cluster are."""

    ISTHMUS = "isthmus"
    KAFKA = "kafka"


class ServiceKind(StrEnum):
    """What a registered process does."""

    LINKER = "linker"
    MIRROR = "mirror"
    BALANCER = "balancer"
    LAG = "lag"


@dataclass(frozen=True, slots=True)
class Region:
    """A place on the map, under the name that brokers' racks begin with."""

    name: str
    title: str
    latitude: float
    longitude: float


@dataclass(frozen=True, slots=True)
class RegisteredCluster:
    """A cluster and where to begin to talk to it."""

    cluster_id: str
    name: str
    bootstrap_servers: str
    kind: ClusterKind
    regions: tuple[str, ...]
    created_ms: int


@dataclass(frozen=True, slots=True)
class Service:
    """A process that works on clusters, and the address of its metrics."""

    name: str
    kind: ServiceKind
    metrics_url: str
    region: str | None
    created_ms: int
