"""Placement constraints: how many replicas and how many observers of a partition go where.

The text is Confluent's JSON, versions 1 and 2, so files made for its tools work. `rack` is matched exactly; `region`, which is ours,
matches every zone of a region.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, Final

from isthmus_model.regions import region_of

CONSTRAINT_KEYS: Final = ("isthmus.placement.constraints", "confluent.placement.constraints")
"""The topic setting and its alias; a topic has one of them."""
RULES_MAX: Final = 100
COUNT_MAX: Final = 32_767
_KEYS: Final = {
    1: {"version", "replicas", "observers"},
    2: {"version", "replicas", "observers", "observerPromotionPolicy"},
}
_WHERE: Final = {"rack", "region"}


class Promotion(Enum):
    """When observers that have caught up join the ISR; none of them ever does without a reason."""

    NEVER = ""
    UNDER_MIN_ISR = "under-min-isr"
    UNDER_REPLICATED = "under-replicated"
    LEADER_IS_OBSERVER = "leader-is-observer"


@dataclass(frozen=True, slots=True)
class PlacementRule:
    """So many replicas on brokers of one rack, one region, or anywhere."""

    count: int
    rack: str | None = None
    region: str | None = None

    def admits(self, rack: str | None) -> bool:
        return (self.rack is None or self.rack == rack) and (self.region is None or self.region == region_of(rack))

    def __str__(self) -> str:
        where = [f"{key} {value}" for key, value in (("rack", self.rack), ("region", self.region)) if value is not None]
        return " of ".join(where) or "any rack"


@dataclass(frozen=True, slots=True)
class Constraints:
    """Where the replicas of each partition of a topic belong."""

    replicas: tuple[PlacementRule, ...]
    observers: tuple[PlacementRule, ...] = ()
    promotion: Promotion = Promotion.NEVER

    @property
    def replica_count(self) -> int:
        return sum(rule.count for rule in self.replicas)

    @property
    def observer_count(self) -> int:
        return sum(rule.count for rule in self.observers)

    @property
    def names_racks(self) -> bool:
        """Whether a rule demands a single rack, so that a replica may not move within its region."""
        return any(rule.rack is not None for rule in (*self.replicas, *self.observers))

    def admit(self, replicas: Sequence[str | None], observers: Sequence[str | None]) -> bool:
        """Whether brokers of these racks fulfil the constraints exactly."""
        return _fills(self.replicas, replicas) and _fills(self.observers, observers)


def _fills(rules: Sequence[PlacementRule], racks: Sequence[str | None]) -> bool:
    """Whether every rack takes a place of its own in a rule, and no place stays empty."""
    if not racks:
        return all(rule.count == 0 for rule in rules)
    for number, rule in enumerate(rules):
        if rule.count > 0 and rule.admits(racks[0]):
            rest = (*rules[:number], PlacementRule(rule.count - 1, rule.rack, rule.region), *rules[number + 1 :])
            if _fills(rest, racks[1:]):
                return True
    return False


def constraints_of(settings: Mapping[str, str | None]) -> Constraints | None:
    """The constraints in a topic's own settings, if it has any. Raises ValueError."""
    texts = [text for key in CONSTRAINT_KEYS if (text := settings.get(key))]
    return parse_constraints(texts[0]) if texts else None


@lru_cache(maxsize=1024)
def parse_constraints(text: str) -> Constraints:
    """Raises ValueError."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"Placement constraints are not JSON: {error}") from None
    if not isinstance(given, dict):
        raise ValueError('Placement constraints must be an object such as {"version": 1, "replicas": [...]}')
    version = given.get("version")
    if type(version) is not int or version not in _KEYS:
        raise ValueError(f"Placement constraints have version {version!r}; 1 and 2 are known")
    unknown = sorted(given.keys() - _KEYS[version])
    if unknown:
        raise ValueError(f"Placement constraints of version {version} have no {', '.join(unknown)}")
    replicas = _rules("replicas", given.get("replicas"))
    observers = _rules("observers", given.get("observers"))
    if not any(rule.count for rule in replicas):
        raise ValueError("Placement constraints must have at least one replica that is not an observer")
    promotion = _promotion(given.get("observerPromotionPolicy"))
    if promotion is not Promotion.NEVER and not observers:
        raise ValueError(f"observerPromotionPolicy {promotion.value} has no observers to promote")
    return Constraints(replicas, observers, promotion)


def _rules(name: str, given: Any) -> tuple[PlacementRule, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or len(given) > RULES_MAX:
        raise ValueError(f"{name} of placement constraints must be a list of at most {RULES_MAX} entries")
    return tuple(_rule(name, entry) for entry in given)


def _rule(name: str, entry: Any) -> PlacementRule:
    if not isinstance(entry, dict) or not entry.keys() <= {"count", "constraints"}:
        raise ValueError(f'An entry of {name} must be like {{"count": 2, "constraints": {{"rack": "west"}}}}')
    count, where = entry.get("count"), entry.get("constraints", {})
    if type(count) is not int or not 0 < count <= COUNT_MAX:
        raise ValueError(f"The count of an entry of {name} is {count!r}; it must be from 1 to {COUNT_MAX}")
    if not isinstance(where, dict) or not all(isinstance(value, str) and value for value in where.values()):
        raise ValueError(f"The constraints of an entry of {name} must name texts")
    unknown = sorted(where.keys() - _WHERE)
    if unknown:
        raise ValueError(f"{name} are constrained by {', '.join(unknown)}; rack and region are known")
    return PlacementRule(count, where.get("rack"), where.get("region"))


def _promotion(given: Any) -> Promotion:
    if given is None:
        return Promotion.NEVER
    known = [policy.value for policy in Promotion if policy is not Promotion.NEVER]
    if given not in known:
        raise ValueError(f"observerPromotionPolicy {given!r} is not one of {', '.join(known)}")
    return Promotion(given)
