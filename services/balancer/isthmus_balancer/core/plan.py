"""What a plan is: moves with their reasons, and how the brokers stand before and after."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Goal(StrEnum):
    """What is striven for, in the order in which it counts. Those up to the disk's capacity must hold; the others are approached."""

    EVACUATION = "evacuation"
    RACKS = "racks"
    REPLICA_CAPACITY = "replica capacity"
    DISK_CAPACITY = "disk capacity"
    REPLICA_COUNT = "replica count"
    DISK_USAGE = "disk usage"
    LEADER_COUNT = "leader count"
    NETWORK_OUT = "network out"


HARD = frozenset({Goal.EVACUATION, Goal.RACKS, Goal.REPLICA_CAPACITY, Goal.DISK_CAPACITY})


@dataclass(frozen=True, slots=True)
class Move:
    """One replica from a broker to another, or the leadership alone, from one replica to another."""

    topic: str
    partition: int
    source: int
    target: int
    leadership: bool
    goal: Goal
    reason: str
    bytes: int
    """To be copied; 0 for a leadership."""
    crosses_regions: bool


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """A broker's share."""

    broker: int
    rack: str
    replicas: int
    leaders: int
    disk: int
    network_out: float


@dataclass(frozen=True, slots=True)
class GoalScore:
    """How many brokers or replicas violate a goal, and for what is spread the highest load over the average."""

    goal: Goal
    hard: bool
    violations_before: int
    violations_after: int
    spread_before: float
    spread_after: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Targets are whole assignments, the preferred leader first, of the partitions that change at all."""

    moves: tuple[Move, ...]
    targets: Mapping[tuple[str, int], tuple[int, ...]]
    observers: Mapping[tuple[str, int], int]
    """How many of a target's last replicas observe."""
    before: tuple[BrokerLoad, ...]
    after: tuple[BrokerLoad, ...]
    goals: tuple[GoalScore, ...]
    unfixable: tuple[str, ...]
    """What no move mends, in words."""
    lacking: tuple[str, ...]
    """Whose load was not known."""

    @property
    def bytes(self) -> int:
        """What is to be copied in all."""
        return sum(move.bytes for move in self.moves)
