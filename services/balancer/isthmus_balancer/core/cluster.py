"""The state of a cluster: its brokers, and the replicas and load of its partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

NO_LIMIT: Final = 0


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that has replicas or may receive some."""

    broker_id: int
    rack: str = ""
    accepts: bool = True
    """Whether it accepts replicas: not if it is fenced or all its directories are cordoned."""
    leaves: bool = False
    """Whether all its replicas are to be moved off."""
    disk_capacity: int = NO_LIMIT
    """Total bytes for its replicas; 0 if unknown."""

    @property
    def region(self) -> str:
        """The part of the rack before the first slash."""
        return self.rack.partition("/")[0]

    @property
    def may_get(self) -> bool:
        """Whether a plan may move replicas or leadership here."""
        return self.accepts and not self.leaves


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition; its replicas in assignment order, sync replicas before observers."""

    topic: str
    index: int
    replicas: tuple[int, ...]
    leader: int
    size: int = 0
    bytes_in: float = 0.0
    bytes_out: float = 0.0
    """Bytes per second to consumers; the traffic to other replicas follows from `bytes_in`."""
    observers: frozenset[int] = frozenset()
    """They are the last replicas of the assignment."""
    constrained: bool = False
    """Whether its topic has placement constraints: replicas then move only within their rack, or region if the constraints name regions."""
    by_rack: bool = False
    """Whether the constraints name racks, not only regions."""
    is_whole: bool = True
    """Whether every sync replica is in the ISR; otherwise the partition is not moved."""

    @property
    def name(self) -> str:
        """The name in messages: TOPIC-PARTITION."""
        return f"{self.topic}-{self.index}"


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Brokers and partitions at one point in time."""

    brokers: Mapping[int, Broker]
    partitions: Sequence[Partition]
    unknown_loads: Sequence[str] = field(default=())
    """Messages about brokers with unknown load."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The tolerance of a balanced load, and hard limits."""

    threshold: float = 1.1
    """A broker is balanced up to this multiple of the average load."""
    replicas_max: int = 10_000
    disk_share: float = 0.85
    """The usable share of a broker's disk capacity."""
    moves_max: int = 10_000
    """The maximum of one plan; the next plan continues."""
