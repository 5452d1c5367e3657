"""Tasks as values: a task is a subtopology and a partition of its source topics. Active ones process, standbys keep a copy of the state."""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Protocol

# Partitions by subtopology.
Tasks = Mapping[str, Set[int]]
# Partitions by subtopology, with the epoch at which the member got each.
OwnedTasks = Mapping[str, Mapping[int, int]]


class TaskIds(Protocol):
    """The tasks of one subtopology, as in requests and records."""

    @property
    def subtopology_id(self) -> str:
        """The subtopology."""
        ...

    @property
    def partitions(self) -> tuple[int, ...]:
        """Its partitions."""
        ...


@dataclass(frozen=True, slots=True)
class Assignment:
    """The tasks of a member by role."""

    active: Tasks = field(default_factory=dict)
    standby: Tasks = field(default_factory=dict)
    warmup: Tasks = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there are no tasks."""
        return not any(any(tasks.values()) for tasks in (self.active, self.standby, self.warmup))


NO_TASKS = Assignment()


@dataclass(frozen=True, slots=True)
class OwnedAssignment:
    """The tasks that a member has; only active ones have epochs, which fence late commits."""

    active: OwnedTasks = field(default_factory=dict)
    standby: Tasks = field(default_factory=dict)
    warmup: Tasks = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there are no tasks."""
        return not any(any(tasks.values()) for tasks in (self.active, self.standby, self.warmup))

    def overlaps(self, other: Assignment) -> bool:
        """Whether any task is in both, in the same role."""
        pairs = (
            (without_epochs(self.active), other.active), (self.standby, other.standby), (self.warmup, other.warmup),
        )  # fmt: skip
        return any(
            not partitions.isdisjoint(theirs.get(name, ()))
            for ours, theirs in pairs
            for name, partitions in ours.items()
        )

    def contains(self, other: Assignment) -> bool:
        """Whether every task of the other is in this one, in the same role."""
        pairs = (
            (without_epochs(self.active), other.active), (self.standby, other.standby), (self.warmup, other.warmup),
        )  # fmt: skip
        return all(
            name in ours and partitions <= ours[name] for ours, theirs in pairs for name, partitions in theirs.items()
        )


NOTHING_OWNED = OwnedAssignment()


def tasks_of(entries: Iterable[TaskIds]) -> Tasks:
    """Tasks by subtopology; one that is named twice counts once."""
    tasks: dict[str, frozenset[int]] = {}
    for entry in entries:
        tasks[entry.subtopology_id] = tasks.get(entry.subtopology_id, frozenset()) | frozenset(entry.partitions)
    return tasks


def without_epochs(owned: OwnedTasks) -> dict[str, frozenset[int]]:
    """The tasks without their epochs."""
    return {name: frozenset(partitions) for name, partitions in owned.items()}


def listed(tasks: Mapping[str, Iterable[int]]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Each subtopology and its partitions, in order."""
    for name in sorted(tasks):
        yield name, tuple(sorted(tasks[name]))
