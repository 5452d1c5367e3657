"""Which processes have which tasks now, the ones that they must still revoke included."""

from collections.abc import Iterable, Mapping

from isthmus_broker.core.group.streams.member import StreamsMember
from isthmus_broker.core.group.streams.tasks import OwnedAssignment

_Task = tuple[str, int]


class TaskOwners:
    """An index over the members of a group."""

    def __init__(self) -> None:
        self._active: dict[_Task, str] = {}
        self._copies: dict[_Task, dict[str, int]] = {}  # members with a standby or warm-up task, by process

    def add(self, member: StreamsMember) -> None:
        """A member has its tasks."""
        for owned in (member.assigned, member.revoking):
            for task in _tasks(owned.active):
                self._active[task] = member.process_id
            for task in _copies(owned):
                processes = self._copies.setdefault(task, {})
                processes[member.process_id] = processes.get(member.process_id, 0) + 1

    def remove(self, member: StreamsMember) -> None:
        """A member has them no more. An active task may have got another owner since."""
        for owned in (member.assigned, member.revoking):
            for task in _tasks(owned.active):
                if self._active.get(task) == member.process_id:
                    del self._active[task]
            for task in _copies(owned):
                processes = self._copies[task]
                processes[member.process_id] -= 1
                if processes[member.process_id] == 0:
                    del processes[member.process_id]
                    if not processes:
                        del self._copies[task]

    def may_activate(self, subtopology: str, partition: int, process: str) -> bool:
        """Whether no process has the active task, and the process has no copy of it."""
        task = (subtopology, partition)
        return task not in self._active and process not in self._copies.get(task, {})

    def may_copy(self, subtopology: str, partition: int, process: str) -> bool:
        """Whether the process has the task in no role."""
        task = (subtopology, partition)
        return self._active.get(task) != process and process not in self._copies.get(task, {})


def _tasks(tasks: Mapping[str, Iterable[int]]) -> Iterable[_Task]:
    return ((name, partition) for name, partitions in tasks.items() for partition in partitions)


def _copies(owned: OwnedAssignment) -> Iterable[_Task]:
    yield from _tasks(owned.standby)
    yield from _tasks(owned.warmup)
