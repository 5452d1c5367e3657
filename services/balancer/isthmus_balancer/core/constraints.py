"""What a topic's placement constraints mean for moves: who observes, and how far a replica may go."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

KEYS: Final = ("isthmus.placement.constraints", "confluent.placement.constraints")


class Bound(NamedTuple):
    """What constraints leave free."""

    observers: frozenset[int]
    by_rack: bool


def bound_by(configs: Mapping[str, str | None], replicas: Sequence[int]) -> Bound | None:
    """None for a topic without constraints. Observers stand at the end of an assignment, as many as the constraints ask for."""
    text = next((value for key in KEYS if (value := configs.get(key))), None)
    if text is None:
        return None
    given: dict[str, Any] = json.loads(text)  # brokers keep nothing else
    observers = sum(share["count"] for share in given.get("observers") or ())
    shares = [*(given.get("replicas") or ()), *(given.get("observers") or ())]
    by_rack = any("rack" in share.get("constraints", {}) for share in shares)
    return Bound(frozenset(replicas[len(replicas) - observers :] if observers else ()), by_rack)
