"""A cluster as the balancer sees it: its brokers, and where the replicas of its partitions are and what they weigh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

NO_LIMIT: Final = 0


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that has replicas or may get some."""

    broker_id: int
    rack: str = ""
    accepts: bool = True
    """Whether it may be given replicas: fenced brokers and those whose directories are all cordoned may not."""
    leaves: bool = False
    """Whether it shall be left without replicas."""
    disk_capacity: int = NO_LIMIT
    """Bytes that its replicas may take in all; 0 when it is not known."""

    @property
    def region(self) -> str:
        """The part of the rack before the first slash."""
        return self.rack.partition("/")[0]

    @property
    def may_get(self) -> bool:
        """Whether a plan may move anything here."""
        return self.accepts and not self.leaves


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition; the replicas in the order of its assignment, sync replicas before observers."""

    topic: str
    index: int
    replicas: tuple[int, ...]
    leader: int
    size: int = 0
    bytes_in: float = 0.0
    bytes_out: float = 0.0
    """To consumers, in a second; what other replicas fetch follows from `bytes_in`."""
    observers: frozenset[int] = frozenset()
    """The last of the replicas."""
    constrained: bool = False
    """Whether its topic has placement constraints: then a replica moves within its rack, or its region when that is what they name."""
    by_rack: bool = False
    """Whether those constraints name racks, not only regions."""
    is_whole: bool = True
    """Whether every sync replica is in sync; others are not moved until they are."""

    @property
    def name(self) -> str:
        """As people write it."""
        return f"{self.topic}-{self.index}"


@dataclass(frozen=True, slots=True)
class ClusterState:
    """All of it at one moment."""

    brokers: Mapping[int, Broker]
    partitions: Sequence[Partition]
    lacking: Sequence[str] = field(default=())
    """Brokers or partitions whose load could not be told, in words."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How far from even is even enough, and what no broker may go beyond."""

    threshold: float = 1.1
    """A broker with no more than this many times the average of all is not unbalanced."""
    replicas_max: int = 10_000
    disk_share: float = 0.85
    """Of a broker's capacity."""
    moves_max: int = 10_000
    """Of one plan; the next goes on."""
