"""The next moves of a plan: a few partitions at a time for each broker and in total, and no under-replicated ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Pace:
    """Limits on concurrent moves."""

    per_broker: int = 5
    in_all: int = 50
    bytes_per_second: int = 10_000_000
    """Throttle of each broker for moving replicas; 0 for none."""


def next_moves(
    waiting: Mapping[Key, tuple[int, ...]],
    placed: Mapping[Key, tuple[int, ...]],
    under_way: Collection[Key],
    ready: Collection[Key],
    pace: Pace,
) -> list[Key]:
    """Choose the partitions to move next, in the plan's order.

    `placed` are the current replicas, `under_way` the partitions that are moving, `ready` those whose sync replicas are all in the ISR.
    """
    busy: Counter[int] = Counter()
    for key in under_way:
        busy.update(_involved(placed.get(key, ()), waiting.get(key, ())))
    room = pace.in_all - len(under_way)
    chosen: list[Key] = []
    for key, target in waiting.items():
        if room <= 0:
            break
        if key in under_way or key not in ready:
            continue
        involved = _involved(placed[key], target)
        if all(busy[broker] < pace.per_broker for broker in involved):
            busy.update(involved)
            chosen.append(key)
            room -= 1
    return chosen


def _involved(placed: tuple[int, ...], target: tuple[int, ...]) -> set[int]:
    """The brokers that send or receive data; a change of the order alone copies none."""
    added = set(target) - set(placed)
    return added | set(placed) if added else set()
