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

from isthmus_broker.core.config.values import ConfigRefused, Value
from isthmus_broker.core.regions import region_of

CONSTRAINT_KEYS: Final = ("isthmus.placement.constraints", "confluent.placement.constraints")
"""The topic setting and its alias; a topic has one of them."""
DEFAULT_CONSTRAINT_KEYS: Final = ("isthmus.log.placement.constraints", "confluent.log.placement.constraints")
"""The broker setting that new topics get their constraint from, and its alias."""
SHARES_MAX: Final = 100
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
class Share:
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

    replicas: tuple[Share, ...]
    observers: tuple[Share, ...] = ()
    promotion: Promotion = Promotion.NEVER

    @property
    def replica_count(self) -> int:
        return sum(share.count for share in self.replicas)

    @property
    def observer_count(self) -> int:
        return sum(share.count for share in self.observers)

    def admit(self, replicas: Sequence[str | None], observers: Sequence[str | None]) -> bool:
        """Whether brokers of these racks are what is wanted, no more and no less."""
        return _fills(self.replicas, replicas) and _fills(self.observers, observers)


def _fills(shares: Sequence[Share], racks: Sequence[str | None]) -> bool:
    """Whether every rack has a place of its own in a share, and no place stays empty."""
    if not racks:
        return all(share.count == 0 for share in shares)
    for number, share in enumerate(shares):
        if share.count > 0 and share.admits(racks[0]):
            rest = (*shares[:number], Share(share.count - 1, share.rack, share.region), *shares[number + 1 :])
            if _fills(rest, racks[1:]):
                return True
    return False


def constraints_of(settings: Mapping[str, str]) -> Constraints | None:
    """What a topic's own settings ask for, if anything."""
    texts = [settings[key] for key in CONSTRAINT_KEYS if settings.get(key)]
    return parse_constraints(texts[0]) if texts else None


def default_constraints(values: Mapping[str, Value]) -> str | None:
    """The text that a broker gives to new topics, if it has one."""
    texts = [text for key in DEFAULT_CONSTRAINT_KEYS if isinstance(text := values[key], str) and text]
    return texts[0] if texts else None


@lru_cache(maxsize=1024)
def parse_constraints(text: str) -> Constraints:
    """Raises ConfigRefused, with a sentence, for what is no constraint."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigRefused(f"Placement constraints are not JSON: {error}") from None
    if not isinstance(given, dict):
        raise ConfigRefused('Placement constraints must be an object such as {"version": 1, "replicas": [...]}')
    version = given.get("version")
    if type(version) is not int or version not in _KEYS:
        raise ConfigRefused(f"Placement constraints have version {version!r}; 1 and 2 are known")
    unknown = sorted(given.keys() - _KEYS[version])
    if unknown:
        raise ConfigRefused(f"Placement constraints of version {version} have no {', '.join(unknown)}")
    replicas = _shares("replicas", given.get("replicas"))
    observers = _shares("observers", given.get("observers"))
    if not any(share.count for share in replicas):
        raise ConfigRefused("Placement constraints must ask for at least one replica that is no observer")
    promotion = _promotion(given.get("observerPromotionPolicy"))
    if promotion is not Promotion.NEVER and not observers:
        raise ConfigRefused(f"observerPromotionPolicy {promotion.value} has no observers to promote")
    return Constraints(replicas, observers, promotion)


def _shares(name: str, given: Any) -> tuple[Share, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or len(given) > SHARES_MAX:
        raise ConfigRefused(f"{name} of placement constraints must be a list of at most {SHARES_MAX} entries")
    return tuple(_share(name, entry) for entry in given)


def _share(name: str, entry: Any) -> Share:
    if not isinstance(entry, dict) or not entry.keys() <= {"count", "constraints"}:
        raise ConfigRefused(f'An entry of {name} must be like {{"count": 2, "constraints": {{"rack": "west"}}}}')
    count, where = entry.get("count"), entry.get("constraints", {})
    if type(count) is not int or not 0 < count <= COUNT_MAX:
        raise ConfigRefused(f"The count of an entry of {name} is {count!r}; it must be from 1 to {COUNT_MAX}")
    if not isinstance(where, dict) or not all(isinstance(value, str) and value for value in where.values()):
        raise ConfigRefused(f"The constraints of an entry of {name} must name texts")
    unknown = sorted(where.keys() - _WHERE)
    if unknown:
        raise ConfigRefused(f"{name} are constrained by {', '.join(unknown)}; rack and region are known")
    return Share(count, where.get("rack"), where.get("region"))


def _promotion(given: Any) -> Promotion:
    if given is None:
        return Promotion.NEVER
    known = [policy.value for policy in Promotion if policy is not Promotion.NEVER]
    if given not in known:
        raise ConfigRefused(f"observerPromotionPolicy {given!r} is not one of {', '.join(known)}")
    return Promotion(given)


class ConstraintsText:
    """Validates a setting that holds placement constraints; an empty text is none."""

    def check(self, name: str, value: Value) -> None:
        if isinstance(value, str) and value:
            parse_constraints(value)

    @property
    def text(self) -> str:
        return "placement constraints as JSON"
