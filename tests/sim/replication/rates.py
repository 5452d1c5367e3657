"""The shape of a cluster, and the kinds and rates of its faults, all drawn from the seed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from isthmus_model.constraints import Promotion

SESSION_MS: Final = 700
HEARTBEAT_MS: Final = 150
LAG_MAX_MS: Final = 600


@dataclass(frozen=True, slots=True)
class Rates:
    """Mean pauses between the faults of each kind, in milliseconds; None for never."""

    kill_every: int | None
    down_max: int
    machine: float
    """The share of crashes of the machine, which loses data that was not synced."""
    sync_every: int
    refuses: float
    """The share of dead processes that the controller detects at once."""
    pause_every: int | None
    pause_max: int
    cut_every: int | None
    cut_max: int
    one_way: float
    controller_every: int | None
    reassign_every: int | None
    constrain_every: int | None
    elect_every: int | None
    retire_every: int | None
    """Between deletions of old records."""
    roll_every: int | None
    """Between controlled shutdowns."""
    wall_clock_every: int | None
    """Between steps of a broker's wall clock."""
    balance_ms: int
    commit_max: int
    think_max: int
    fetch_bytes: int

    @classmethod
    def draw(cls, random: Random) -> Rates:
        return cls(
            kill_every=_sometimes(random, 300, 4_000),
            down_max=random.choice((50, 500, 1_500)),
            machine=random.choice((0.0, 0.5, 1.0)),
            sync_every=random.choice((100, 1_000, 5_000)),
            refuses=random.choice((0.0, 0.5, 1.0)),
            pause_every=_sometimes(random, 500, 4_000),
            pause_max=random.choice((200, 2 * SESSION_MS, 2_500)),
            cut_every=_sometimes(random, 500, 4_000),
            cut_max=random.choice((300, 1_500, 3_000)),
            one_way=random.random(),
            controller_every=_sometimes(random, 400, 4_000),
            reassign_every=_sometimes(random, 400, 3_000),
            constrain_every=_sometimes(random, 600, 3_000),
            elect_every=_sometimes(random, 300, 3_000),
            retire_every=_sometimes(random, 500, 3_000),
            roll_every=_sometimes(random, 600, 4_000),
            wall_clock_every=_sometimes(random, 300, 3_000),
            balance_ms=random.choice((300, 1_000)),
            commit_max=random.choice((3, 30, 150)),
            think_max=random.choice((10, 60, 200)),
            fetch_bytes=random.choice((100, 500, 10_000)),
        )


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """One topic with one partition."""

    name: str
    factor: int
    min_isr: int
    unclean: bool
    constraints: str | None

    @property
    def configs(self) -> dict[str, str]:
        settings = {
            "min.insync.replicas": str(self.min_isr),
            "unclean.leader.election.enable": str(self.unclean).lower(),
        }
        if self.constraints is not None:
            settings["isthmus.placement.constraints"] = self.constraints
        return settings


@dataclass(frozen=True, slots=True)
class Plan:
    """The cluster."""

    racks: Sequence[str]
    """Of brokers 1, 2, ..."""
    elr: bool
    topics: Sequence[TopicPlan]

    @classmethod
    def draw(cls, random: Random) -> Plan:
        brokers = 3 + random.randrange(5)
        regions = 1 + random.randrange(3)
        racks = [f"r{number % regions}/{'ab'[number // regions % 2]}" for number in range(brokers)]
        topics = [_topic(random, number, racks) for number in range(random.choice((1, 1, 2)))]
        return cls(racks, random.random() < 0.6, topics)


def _topic(random: Random, number: int, racks: Sequence[str]) -> TopicPlan:
    factor = random.choice((2, 3, 3, 3))
    min_isr = random.choice((1, 2, 2, factor))
    constraints = random_constraints(random, racks, min_isr) if random.random() < 0.6 else None
    return TopicPlan(f"t{number}", factor, min_isr, random.random() < 0.15, constraints)


def random_constraints(random: Random, racks: Sequence[str], min_isr: int) -> str:
    """Constraints that the brokers can satisfy, with enough replicas for records to be committed without observers."""
    regions = sorted({rack.partition("/")[0] for rack in racks})
    free = {region: sum(rack.startswith(f"{region}/") for rack in racks) for region in regions}
    replicas = _shares(random, free, min_isr + random.randrange(4 - min_isr))
    observers = _shares(random, free, min(random.randrange(3), sum(free.values())))
    given: dict[str, Any] = {"version": 2, "replicas": replicas}
    policy = random.choice(list(Promotion))
    if observers:
        given["observers"] = observers
    if observers and policy is not Promotion.NEVER:
        given["observerPromotionPolicy"] = policy.value
    return json.dumps(given)


def _shares(random: Random, free: dict[str, int], wanted: int) -> list[dict[str, Any]]:
    """That many brokers, region by region, removed from `free`."""
    taken = dict.fromkeys(free, 0)
    for _ in range(wanted):
        region = random.choice([region for region, count in free.items() if count])
        free[region] -= 1
        taken[region] += 1
    return [{"count": count, "constraints": {"region": region}} for region, count in taken.items() if count]


def _sometimes(random: Random, shortest: int, longest: int) -> int | None:
    return None if random.random() < 0.3 else random.randrange(shortest, longest)
