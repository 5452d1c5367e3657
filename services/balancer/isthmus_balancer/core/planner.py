"""Make a plan for a cluster: goal after goal, each only with moves that do not undo earlier goals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from isthmus_balancer.core.cluster import NO_LIMIT, ClusterState, Limits
from isthmus_balancer.core.loads import Assignment, Load
from isthmus_balancer.core.plan import HARD, BrokerLoad, Goal, GoalScore, Move, Plan

if TYPE_CHECKING:
    from isthmus_balancer.core.loads import Flags, Floats

_SPREAD: Final = {
    Goal.REPLICA_COUNT: Load.REPLICAS,
    Goal.DISK_USAGE: Load.DISK,
    Goal.LEADER_COUNT: Load.LEADERS,
    Goal.NETWORK_OUT: Load.NETWORK_OUT,
}
_OF_LEADERS: Final = (Goal.LEADER_COUNT, Goal.NETWORK_OUT)
_COUNTED: Final = (Load.REPLICAS, Load.LEADERS)
_CANDIDATES_MAX: Final = 2_000
"""Replicas of one broker considered for one goal, the heaviest first."""


def make_plan(state: ClusterState, limits: Limits | None = None) -> Plan:
    """Make a plan; it is deterministic."""
    return _Planner(state, limits or Limits()).plan()


class _Planner:
    def __init__(self, state: ClusterState, limits: Limits) -> None:
        self._state = state
        self._limits = limits
        self._now = Assignment(state)
        self._moves: list[Move] = []
        self._unfixable: list[str] = []
        self._done: list[Goal] = []
        capacity = [limits.disk_share * broker.disk_capacity for broker in self._now.brokers]
        self._disk_max: Floats = np.array([c if c != NO_LIMIT else np.inf for c in capacity])

    def plan(self) -> Plan:
        before, scores_before = self._table(), self._scores()
        for goal, reach in (
            (Goal.EVACUATION, self._evacuate),
            (Goal.RACKS, self._spread_over_racks),
            (Goal.REPLICA_CAPACITY, lambda: self._relieve(Goal.REPLICA_CAPACITY)),
            (Goal.DISK_CAPACITY, lambda: self._relieve(Goal.DISK_CAPACITY)),
            *((goal, lambda goal=goal: self._even_out(goal)) for goal in _SPREAD),
        ):
            if self._state.partitions:
                reach()
            self._done.append(goal)
        scores_after, targets = self._scores(), self._targets()
        observers = {(p.topic, p.index): len(p.observers) for p in self._state.partitions}
        return Plan(
            tuple(self._moves),
            targets,
            {key: observers[key] for key in targets},
            before,
            self._table(),
            tuple(GoalScore(goal, goal in HARD, *_pairs(scores_before[goal], scores_after[goal])) for goal in Goal),
            tuple(self._unfixable),
            tuple(self._state.unknown_loads),
        )

    # -- hard goals ---------------------------------------------------------------------------------------------------------

    def _evacuate(self) -> None:
        for source, broker in enumerate(self._now.brokers):
            if not broker.leaves:
                continue
            for partition in sorted(self._now.hosted[source]):
                name = self._state.partitions[partition].name
                if not self._move_anywhere(
                    partition, source, Goal.EVACUATION, f"broker {broker.broker_id} is to be emptied"
                ):
                    self._unfixable.append(
                        f"{name} must stay on broker {broker.broker_id}: no other broker is allowed to have it"
                    )

    def _spread_over_racks(self) -> None:
        """Spread the replicas of partitions without constraints over as many racks and regions as possible."""
        for partition, source in list(self._crowded()):
            candidate = self._state.partitions[partition]
            rack = self._now.brokers[source].rack
            reason = f"rack {rack or '(none)'} has more replicas of {candidate.name} than necessary"
            self._move_anywhere(partition, source, Goal.RACKS, reason)

    def _crowded(self) -> Iterator[tuple[int, int]]:
        """Find replicas that share a rack although another rack has none."""
        racks = {int(rack) for rack, may in zip(self._now.rack, self._now.may_get, strict=True) if may}
        for partition, replicas in enumerate(self._now.replicas):
            if self._state.partitions[partition].constrained:
                continue
            used = [int(self._now.rack[broker]) for broker in replicas]
            if len(set(used)) < min(len(replicas), len(racks | set(used))):
                yield from ((partition, b) for n, b in enumerate(replicas) if used[n] in used[:n])

    def _relieve(self, goal: Goal) -> None:
        load = Load.REPLICAS if goal is Goal.REPLICA_CAPACITY else Load.DISK
        highest = self._highest(load)
        for source in np.flatnonzero(self._now.loads[load] > highest):
            broker = self._now.ids[source]
            for partition in self._heaviest(int(source), load):
                if self._now.loads[load, source] <= highest[source]:
                    break
                self._move_anywhere(partition, int(source), goal, f"broker {broker} is above its capacity")
            if self._now.loads[load, source] > highest[source]:
                self._unfixable.append(f"broker {broker} stays above its {goal}: no more replicas can be moved off it")

    def _highest(self, load: Load) -> Floats:
        if load is Load.REPLICAS:
            return np.full(len(self._now.ids), float(self._limits.replicas_max))
        return self._disk_max

    # -- soft goals --------------------------------------------------------------------------------------------------------

    def _even_out(self, goal: Goal) -> None:
        load = _SPREAD[goal]
        low, high = self._bounds(load)
        order = np.argsort(-self._now.loads[load], kind="stable")
        for source in (int(broker) for broker in order):
            if self._now.loads[load, source] > high:
                self._lighten(source, goal, low, high)
        for target in (int(broker) for broker in order[::-1]):
            if self._now.may_get[target] and self._now.loads[load, target] < low:
                self._fill(target, goal, low)

    def _bounds(self, load: Load) -> tuple[float, float]:
        """The range of balanced loads, rounded to integers for counts."""
        loads = self._now.loads[load]
        receivers = max(int(self._now.may_get.sum()), 1)
        average = float(loads[self._now.may_get].sum()) / receivers
        low, high = average * (2 - self._limits.threshold), average * self._limits.threshold
        return (np.floor(low), max(np.ceil(average), np.floor(high))) if load in _COUNTED else (low, high)

    def _lighten(self, source: int, goal: Goal, low: float, high: float) -> None:
        """Move the excess to brokers that stay below the upper bound."""
        load = _SPREAD[goal]
        for partition in self._heaviest(source, load):
            have, weight = self._now.loads[load, source], self._now.weight(partition, load)
            if have <= high or len(self._moves) >= self._limits.moves_max:
                return
            if weight <= 0 or have - weight < low:
                continue
            room = self._now.loads[load] + weight <= high
            self._shift(partition, source, goal, room, f"broker {self._now.ids[source]} has more than its share")

    def _fill(self, target: int, goal: Goal, low: float) -> None:
        """Move load to a broker from those with the most, as long as they keep more than the target has."""
        load = _SPREAD[goal]
        only_target = np.zeros(len(self._now.ids), dtype=np.bool_)
        only_target[target] = True
        for source in (int(broker) for broker in np.argsort(-self._now.loads[load], kind="stable")):
            for partition in self._heaviest(source, load):
                have, got = self._now.loads[load, source], self._now.loads[load, target]
                if got >= low or len(self._moves) >= self._limits.moves_max:
                    return
                weight = self._now.weight(partition, load)
                if weight <= 0 or have - weight < got + weight:
                    continue
                self._shift(
                    partition, source, goal, only_target, f"broker {self._now.ids[target]} has less than its share"
                )

    def _shift(self, partition: int, source: int, goal: Goal, targets: Flags, reason: str) -> bool:
        """Move the leadership for goals on leaders, and a replica for the other goals."""
        if goal in _OF_LEADERS:
            for target in sorted(self._successors(partition), key=lambda b: (self._now.loads[_SPREAD[goal], b], b)):
                if targets[target] and self._keeps_leaders(partition, source, target, goal):
                    self._lead(partition, source, target, goal, reason)
                    return True
            return False
        return self._move_anywhere(partition, source, goal, reason, targets)

    def _successors(self, partition: int) -> list[int]:
        """The sync replicas that may become leader."""
        leader, may_get = self._now.leader[partition], self._now.may_get
        return [broker for broker in self._now.sync(partition) if broker != leader and may_get[broker]]

    def _keeps_leaders(self, partition: int, source: int, target: int, goal: Goal) -> bool:
        """Whether a move of the leadership preserves the goals on leaders that are done."""
        for reached in (each for each in _OF_LEADERS if each in self._done and each is not goal):
            load = _SPREAD[reached]
            low, high = self._bounds(load)
            weight = self._now.weight(partition, load)
            if self._now.loads[load, target] + weight > high or self._now.loads[load, source] - weight < low:
                return False
        return True

    # -- moves ---------------------------------------------------------------------------------------------------------------

    def _move_anywhere(
        self, partition: int, source: int, goal: Goal, reason: str, targets: Flags | None = None
    ) -> bool:
        """Move a replica to the least loaded allowed broker; False if there is none."""
        candidate = self._state.partitions[partition]
        if not candidate.is_whole and goal is not Goal.EVACUATION:
            return False
        allowed = self._allowed(partition, source, goal)
        if targets is not None:
            allowed &= targets
        if not allowed.any():
            return False
        load = _SPREAD.get(goal, Load.REPLICAS)
        target = int(np.where(allowed, self._now.loads[load], np.inf).argmin())
        brokers, was_leader = self._now.brokers, self._now.leader[partition] == source
        self._now.move(partition, source, target)
        self._moves.append(
            Move(
                candidate.topic,
                candidate.index,
                self._now.ids[source],
                self._now.ids[target],
                False,
                goal,
                reason + (", and its leadership with it" if was_leader else ""),
                candidate.size,
                brokers[source].region != brokers[target].region,
            )
        )
        return True

    def _lead(self, partition: int, source: int, target: int, goal: Goal, reason: str) -> None:
        candidate, brokers = self._state.partitions[partition], self._now.brokers
        crosses = brokers[source].region != brokers[target].region
        self._now.lead(partition, target)
        ids = self._now.ids
        self._moves.append(
            Move(candidate.topic, candidate.index, ids[source], ids[target], True, goal, reason, 0, crosses)
        )

    def _allowed(self, partition: int, source: int, goal: Goal) -> Flags:
        """The brokers that may receive the replica without violating a hard goal or undoing an earlier one."""
        now, candidate = self._now, self._state.partitions[partition]
        allowed = now.may_get & ~now.holders(partition)
        allowed &= now.loads[Load.REPLICAS] < self._limits.replicas_max
        allowed &= now.loads[Load.DISK] + candidate.size <= self._disk_max
        if candidate.constrained:
            same = now.rack if candidate.by_rack else now.region
            allowed &= same == same[source]
        else:
            allowed &= self._as_spread(partition, source, goal)
        for reached in (each for each in (Goal.REPLICA_COUNT, Goal.DISK_USAGE) if each in self._done):
            load = _SPREAD[reached]
            low, high = self._bounds(load)
            weight = now.weight(partition, load)
            allowed &= now.loads[load] + weight <= high
            if now.loads[load, source] - weight < low:
                allowed[:] = False
        return allowed

    def _as_spread(self, partition: int, source: int, goal: Goal) -> Flags:
        """The brokers that keep the number of racks and regions of the partition, or increase it if that is the goal."""
        now = self._now
        others = [broker for broker in now.replicas[partition] if broker != source]
        good = np.ones(len(now.ids), dtype=np.bool_)
        for places in (now.rack, now.region):
            used = {int(place) for place in places[others]}
            had = len(used | {int(places[source])})
            new = ~np.isin(places, list(used)) if used else good.copy()
            need = had + 1 if goal is Goal.RACKS and places is now.rack else had
            good &= (len(used) + new) >= need
        return good

    def _heaviest(self, source: int, load: Load) -> list[int]:
        """The partitions of a broker that contribute to a load, the heaviest first."""
        candidates: Sequence[int] | set[int] = (
            self._now.led[source] if load in (Load.LEADERS, Load.NETWORK_OUT) else self._now.hosted[source]
        )
        ordered = sorted(candidates, key=lambda partition: (-self._now.weight(partition, load), partition))
        return ordered[:_CANDIDATES_MAX]

    # -- results ----------------------------------------------------------------------------------------------------------

    def _targets(self) -> dict[tuple[str, int], tuple[int, ...]]:
        """The changed assignments, the leader first."""
        changed = {(move.topic, move.partition) for move in self._moves}
        targets: dict[tuple[str, int], tuple[int, ...]] = {}
        for number, (partition, replicas) in enumerate(zip(self._state.partitions, self._now.replicas, strict=True)):
            key = (partition.topic, partition.index)
            if key in changed:
                leader = self._now.leader[number]
                order = sorted(replicas, key=leader.__ne__) if leader in self._now.sync(number) else replicas
                targets[key] = tuple(self._now.ids[broker] for broker in order)
        return targets

    def _table(self) -> tuple[BrokerLoad, ...]:
        loads = self._now.loads
        return tuple(
            BrokerLoad(
                broker.broker_id,
                broker.rack,
                int(loads[Load.REPLICAS, number]),
                int(loads[Load.LEADERS, number]),
                int(loads[Load.DISK, number]),
                float(loads[Load.NETWORK_OUT, number]),
            )
            for number, broker in enumerate(self._now.brokers)
        )

    def _scores(self) -> dict[Goal, tuple[int, float]]:
        """The violations of each goal, and the ratio of the highest load to the average for soft goals."""
        now = self._now
        scores: dict[Goal, tuple[int, float]] = {
            Goal.EVACUATION: (sum(len(now.hosted[n]) for n, broker in enumerate(now.brokers) if broker.leaves), 0.0),
            Goal.RACKS: (sum(1 for _ in self._crowded()), 0.0),
            Goal.REPLICA_CAPACITY: (int((now.loads[Load.REPLICAS] > self._limits.replicas_max).sum()), 0.0),
            Goal.DISK_CAPACITY: (int((now.loads[Load.DISK] > self._disk_max).sum()), 0.0),
        }
        for goal, load in _SPREAD.items():
            low, high = self._bounds(load)
            loads = now.loads[load][now.may_get]
            mean = float(loads.mean()) if len(loads) else 0.0
            spread = float(loads.max()) / mean if mean else 0.0
            scores[goal] = (int(((loads > high) | (loads < low)).sum()), round(spread, 3))
        return scores


def _pairs(before: tuple[int, float], after: tuple[int, float]) -> tuple[int, int, float, float]:
    return before[0], after[0], before[1], after[1]
