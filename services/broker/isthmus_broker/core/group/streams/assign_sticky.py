"""The sticky assignor: tasks stay where they are as far as every member gets its share.

Active tasks go to their last member, then to a member that had a standby of them, then to the process with the least load per member.
A standby never goes to a process that has the task already; standbys prefer the last active member and then the last standby members.
Members of the same process count as its threads. Neither racks nor client tags matter, as in Kafka 4.3.
"""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from isthmus_broker.core.group.streams.tasks import Assignment


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member, and its last target."""

    member_id: str
    process_id: str
    last: Assignment


@dataclass(frozen=True, slots=True)
class SubtopologySpec:
    """The tasks of a subtopology; only those of a stateful one have standbys."""

    name: str
    tasks: int
    is_stateful: bool


@dataclass(frozen=True, slots=True, order=True)
class _Task:
    """A task; ordered by subtopology."""

    subtopology: str
    partition: int


def _by_partition(task: _Task) -> tuple[int, str]:
    """Tasks of the same partition next to each other: they often belong to the same keys."""
    return task.partition, task.subtopology


@dataclass(slots=True)
class _Process:
    """An instance of the application, and what its members have got so far."""

    order: int
    counts: dict[str, int] = field(default_factory=dict)  # by member
    tasks: set[_Task] = field(default_factory=set)

    @property
    def load(self) -> float:
        """Tasks per member."""
        return sum(self.counts.values()) / len(self.counts)


@dataclass(slots=True)
class _Quota:
    """How many tasks a member may have: an equal share of those that are not with members that have theirs already."""

    tasks: int
    members: int

    @property
    def share(self) -> int:
        """The share of a member, rounded up."""
        return -(-self.tasks // self.members) if self.members else 0

    def record(self, count: int) -> None:
        """A member now has so many tasks."""
        if count == self.share:
            self.tasks -= count
            self.members -= 1


def assign(
    members: Iterable[MemberSpec], subtopologies: Iterable[SubtopologySpec], standby_replicas: int
) -> dict[str, Assignment]:
    """The target of every member."""
    specs = sorted(members, key=lambda member: member.member_id)
    parts = tuple(subtopologies)
    if not specs:
        return {}
    work = _Work(specs, parts, standby_replicas)
    work.assign_active([_Task(part.name, index) for part in parts for index in range(part.tasks)])
    if standby_replicas > 0:
        stateful = [_Task(part.name, index) for part in parts if part.is_stateful for index in range(part.tasks)]
        work.assign_standbys(stateful, standby_replicas)
    return work.assignments()


class _Work:
    """One computation."""

    def __init__(self, specs: list[MemberSpec], parts: tuple[SubtopologySpec, ...], standby_replicas: int) -> None:
        self._process_of: dict[str, _Process] = {}
        self._active: dict[str, set[_Task]] = {spec.member_id: set() for spec in specs}
        self._standby: dict[str, set[_Task]] = {spec.member_id: set() for spec in specs}
        self._last_active: dict[_Task, str] = {}
        self._last_standby: dict[_Task, list[str]] = {}
        self._processes: dict[str, _Process] = {}
        for name in sorted({spec.process_id for spec in specs}):
            self._processes[name] = _Process(len(self._processes))
        for spec in specs:
            process = self._processes[spec.process_id]
            process.counts[spec.member_id] = 0
            self._process_of[spec.member_id] = process
            for task in _tasks(spec.last.active):
                self._last_active[task] = spec.member_id
            for task in _tasks(spec.last.standby):
                self._last_standby.setdefault(task, []).append(spec.member_id)
        active = sum(part.tasks for part in parts)
        standbys = sum(part.tasks for part in parts if part.is_stateful) * standby_replicas
        self._active_quota = _Quota(active, len(specs))
        self._quota = _Quota(active + standbys, len(specs))

    # Active tasks.

    def assign_active(self, tasks: list[_Task]) -> None:
        """Assign every task to one member."""
        left = [task for task in sorted(tasks, key=_by_partition) if not self._keep_active(task)]
        left = [task for task in left if not self._promote(task)]
        queue = self._by_load()
        for task in sorted(left):
            _, _, process = heapq.heappop(queue)
            self._add_active(self._least_loaded(process), task)
            heapq.heappush(queue, (process.load, process.order, process))

    def _keep_active(self, task: _Task) -> bool:
        member = self._last_active.get(task)
        return member is not None and self._add_active_within_quota(member, task)

    def _promote(self, task: _Task) -> bool:
        """A standby becomes the active task."""
        member = self._choose(self._last_standby.get(task, ()))
        return member is not None and self._add_active_within_quota(member, task)

    def _add_active_within_quota(self, member: str, task: _Task) -> bool:
        if self._process_of[member].counts[member] >= self._active_quota.share:
            return False
        self._add_active(member, task)
        return True

    def _add_active(self, member: str, task: _Task) -> None:
        self._active[member].add(task)
        self._active_quota.record(self._count(member, task))

    # Standbys.

    def assign_standbys(self, tasks: list[_Task], replicas: int) -> None:
        """Assign as many standbys of each task as there are processes for them."""
        left: list[tuple[_Task, int]] = []
        for task in sorted(tasks, key=_by_partition, reverse=True):
            kept = 0
            while kept < replicas and self._keep_standby(task):
                kept += 1
            if kept < replicas:
                left.append((task, replicas - kept))
        queue = self._by_load()
        for task, count in sorted(left, reverse=True):
            for _ in range(count):
                if not self._add_standby(queue, task):
                    break

    def _keep_standby(self, task: _Task) -> bool:
        active = self._last_active.get(task)
        candidates = [] if active is None else [active]
        if (standby := self._choose(self._last_standby.get(task, ()), task)) is not None:
            candidates.append(standby)
        for member in candidates:
            process = self._process_of[member]
            if task not in process.tasks and process.counts[member] < self._quota.share:
                self._record_standby(member, task)
                return True
        return False

    def _add_standby(self, queue: list[tuple[float, int, _Process]], task: _Task) -> bool:
        """Add a standby in the process with the least load among those that have not got the task."""
        skipped = []
        is_added = False
        while queue and not is_added:
            load, order, process = heapq.heappop(queue)
            if task in process.tasks:
                skipped.append((load, order, process))
            else:
                self._record_standby(self._least_loaded(process), task)
                skipped.append((process.load, order, process))
                is_added = True
        for entry in skipped:
            heapq.heappush(queue, entry)
        return is_added

    def _record_standby(self, member: str, task: _Task) -> None:
        self._standby[member].add(task)
        self._count(member, task)

    # Both.

    def _count(self, member: str, task: _Task) -> int:
        """Record that a member got a task; returns how many it has."""
        process = self._process_of[member]
        process.tasks.add(task)
        process.counts[member] += 1
        self._quota.record(process.counts[member])
        return process.counts[member]

    def _choose(self, members: Iterable[str], task: _Task | None = None) -> str | None:
        """The member whose process has the least load, the process without the task if one is given."""

        def load(member: str) -> tuple[float, int]:
            process = self._process_of[member]
            return process.load, process.counts[member]

        able = (member for member in members if task is None or task not in self._process_of[member].tasks)
        return min(able, key=load, default=None)

    def _least_loaded(self, process: _Process) -> str:
        return min(process.counts, key=lambda member: process.counts[member])

    def _by_load(self) -> list[tuple[float, int, _Process]]:
        """A heap of the processes; equal ones in the order of their ids."""
        queue = [(process.load, process.order, process) for process in self._processes.values()]
        heapq.heapify(queue)
        return queue

    def assignments(self) -> dict[str, Assignment]:
        """What everyone got."""
        return {
            member: Assignment(_compact(self._active[member]), _compact(self._standby[member]))
            for member in self._active
        }


def _tasks(tasks: Mapping[str, Iterable[int]]) -> Iterable[_Task]:
    return (_Task(name, partition) for name, partitions in tasks.items() for partition in partitions)


def _compact(tasks: set[_Task]) -> dict[str, frozenset[int]]:
    partitions: dict[str, set[int]] = {}
    for task in sorted(tasks):
        partitions.setdefault(task.subtopology, set()).add(task.partition)
    return {name: frozenset(indexes) for name, indexes in partitions.items()}
