"""Which of a plan is moved next: few partitions at a time for each broker and in all, and none that has too few in sync as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Pace:
    """How much is moved at once."""

    per_broker: int = 5
    in_all: int = 50
    bytes_per_second: int = 10_000_000
    """What replicas that move may take of each broker's network; 0 does not hold them back."""


def next_moves(
    waiting: Mapping[Key, tuple[int, ...]],
    placed: Mapping[Key, tuple[int, ...]],
    under_way: Collection[Key],
    ready: Collection[Key],
    pace: Pace,
) -> list[Key]:
    """`placed` is where every partition is, `under_way` what moves, `ready` whose sync replicas are all in sync. In the plan's order."""
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
    """Who sends and who receives; a mere change of order copies nothing."""
    added = set(target) - set(placed)
    return added | set(placed) if added else set()
