"""Assigns the replicas of a topic with placement constraints, and chooses its observers.

For each rule the least loaded broker is taken, preferably in a zone without a replica of the partition. Replicas that may join the ISR come
first and observers last; the preferred leader, at the head, is in the most preferred region, and leaders are spread evenly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from isthmus_model.constraints import Constraints, PlacementRule
from isthmus_model.regions import rank_of, region_of
from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.metadata.placement import UsableBroker
from isthmus_broker.core.metadata.result import ControllerError, Randomness

Replicas = tuple[int, ...]


class Placed(NamedTuple):
    """The replicas of one partition, observers last."""

    replicas: Replicas
    observers: Replicas = ()


def place_constrained(
    brokers: Sequence[UsableBroker],
    constraints: Constraints,
    partitions: int,
    random: Randomness,
    preference: Sequence[str] = (),
) -> list[Placed]:
    """The replicas of each of the partitions; ControllerError if the brokers cannot satisfy the constraints."""
    order = sorted(brokers, key=lambda broker: broker.id)
    random.shuffle(order)
    placement = _Placement(order, constraints, preference)
    return [placement.next() for _ in range(partitions)]


class _Placement:
    def __init__(self, brokers: Sequence[UsableBroker], constraints: Constraints, preference: Sequence[str]) -> None:
        self._brokers = brokers
        self._constraints = constraints
        self._preference = preference
        self._held: Counter[int] = Counter()
        self._led: Counter[int] = Counter()

    def next(self) -> Placed:
        taken: list[UsableBroker] = []
        replicas = [
            broker for rule in narrowest_first(self._constraints.replicas) for broker in self._take(rule, taken)
        ]
        observers = [
            broker for rule in narrowest_first(self._constraints.observers) for broker in self._take(rule, taken)
        ]
        leader = self._leader(replicas)
        self._led[leader.id] += 1
        rest = [broker for broker in replicas if broker is not leader]
        ids = tuple(broker.id for broker in (leader, *rest, *observers))
        return Placed(ids, tuple(broker.id for broker in observers))

    def _take(self, rule: PlacementRule, taken: list[UsableBroker]) -> list[UsableBroker]:
        chosen = []
        for number in range(rule.count):
            free = [broker for broker in self._brokers if rule.admits(broker.rack) and broker not in taken]
            if not free:
                raise ControllerError(ErrorCode.invalid_replication_factor, _too_few(rule, number))
            zones = {broker.rack for broker in taken}
            broker = min(free, key=lambda b: (b.fenced, b.rack is not None and b.rack in zones, self._held[b.id]))
            self._held[broker.id] += 1
            taken.append(broker)
            chosen.append(broker)
        return chosen

    def _leader(self, replicas: Sequence[UsableBroker]) -> UsableBroker:
        def badness(broker: UsableBroker) -> tuple[bool, int, int]:
            return broker.fenced, rank_of(region_of(broker.rack), self._preference), self._led[broker.id]

        return min(replicas, key=badness)


def narrowest_first(rules: Sequence[PlacementRule]) -> list[PlacementRule]:
    """A rule for one rack chooses before one that has more brokers to choose from."""
    return sorted(rules, key=lambda rule: (rule.rack is None, rule.region is None))


def _too_few(rule: PlacementRule, available: int) -> str:
    return f"The placement constraints want {rule.count} brokers of {rule}, and only {available} can be used."


def observers_in(image: ClusterImage, constraints: Constraints, replicas: Replicas) -> Replicas:
    """The observers of an assignment: as many as in the constraints, from its end; raises ControllerError."""
    split = len(replicas) - constraints.observer_count
    racks = [image.brokers[replica].rack if replica in image.brokers else None for replica in replicas]
    if split < 1 or not constraints.admit(racks[:split], racks[split:]):
        listed = ", ".join(map(str, replicas))
        why = (
            f"The assignment [{listed}] does not satisfy the topic's placement constraints; observers come last in it."
        )
        raise ControllerError(ErrorCode.invalid_replica_assignment, why)
    return replicas[split:]
