"""A plan: moves with their reasons, and the load of the brokers before and after."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Goal(StrEnum):
    """Goals by descending priority. Those up to the disk capacity are hard; the others are approached as far as possible."""

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
    """The move of a replica to another broker, or of the leadership to another replica."""

    topic: str
    partition: int
    source: int
    target: int
    leadership: bool
    goal: Goal
    reason: str
    bytes: int
    """Bytes to copy; 0 for a move of the leadership."""
    crosses_regions: bool


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """The load of a broker, in bytes and bytes per second."""

    broker: int
    rack: str
    replicas: int
    leaders: int
    disk: int
    network_out: float


@dataclass(frozen=True, slots=True)
class GoalScore:
    """The brokers or replicas that violate a goal, and for balanced loads the ratio of the highest to the average."""

    goal: Goal
    hard: bool
    violations_before: int
    violations_after: int
    spread_before: float
    spread_after: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Moves and their result. Targets are the complete new assignments of the changed partitions, the preferred leader first."""

    moves: tuple[Move, ...]
    targets: Mapping[tuple[str, int], tuple[int, ...]]
    observers: Mapping[tuple[str, int], int]
    """The number of observers at the end of each target."""
    before: tuple[BrokerLoad, ...]
    after: tuple[BrokerLoad, ...]
    goals: tuple[GoalScore, ...]
    unfixable: tuple[str, ...]
    """Messages about violations that no move can fix."""
    unknown_loads: tuple[str, ...]
    """Messages about brokers with unknown load."""

    @property
    def bytes(self) -> int:
        """The total bytes to copy."""
        return sum(move.bytes for move in self.moves)
