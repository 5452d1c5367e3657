"""One step of a member's reconciliation with its target: what it keeps, revokes, and gets.

A member at an older epoch first revokes tasks that are not in the target (UNREVOKED_TASKS, still at its old epoch). Once it has none of
those any more it moves to the target's epoch and gets the tasks that are free. While others still have tasks of its target it is
UNRELEASED_TASKS; then STABLE.

An active task is free if no member has it, and no task of any role is free for a process that still has a copy of it: the members of a
process share its state directory.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass

from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.group.errors import CoordinatorError
from isthmus_broker.core.group.streams.member import MemberState, StreamsMember
from isthmus_broker.core.group.streams.owners import TaskOwners
from isthmus_broker.core.group.streams.tasks import NOTHING_OWNED, Assignment, OwnedAssignment, Tasks

_IsFree = Callable[[str, int], bool]


@dataclass(frozen=True, slots=True)
class Target:
    """A member's target, and who has its tasks now."""

    epoch: int
    tasks: Assignment
    owners: TaskOwners


def reconcile(member: StreamsMember, target: Target, owned: Assignment | None) -> StreamsMember:
    """The member after this step. `owned` are the tasks that it reports; None if it reports none."""
    match member.state:
        case MemberState.STABLE if member.epoch == target.epoch:
            return member
        case MemberState.UNREVOKED_TASKS:
            if owned is None or member.revoking.overlaps(owned):
                return member
            return _advance(member, target, owned, member.epoch + 1)
        case MemberState.UNKNOWN:
            if owned is None or not owned.is_empty:
                message = (
                    "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin."
                )
                raise CoordinatorError(ErrorCode.fenced_member_epoch, message)
            return _advance(member, target, owned, target.epoch)
        case _:
            return _advance(member, target, owned, member.epoch)


def _advance(member: StreamsMember, target: Target, owned: Assignment | None, epoch: int) -> StreamsMember:
    owners, process = target.owners, member.process_id
    active = _Difference.of(member.assigned.active, target.tasks.active)
    standby = _Difference.of(member.assigned.standby, target.tasks.standby)
    warmup = _Difference.of(member.assigned.warmup, target.tasks.warmup)
    has = member.assigned.active
    kept = OwnedAssignment(_with_epochs(active.kept, has), standby.kept, warmup.kept)
    revoking = OwnedAssignment(_with_epochs(active.revoked, has), standby.revoked, warmup.revoked)
    if not revoking.is_empty and (owned is None or revoking.overlaps(owned)):
        return member.advanced(epoch, state=MemberState.UNREVOKED_TASKS, assigned=kept, revoking=revoking)
    free_active = _where(active.missing, lambda name, index: owners.may_activate(name, index, process))
    free_standby = _where(standby.missing, lambda name, index: owners.may_copy(name, index, process))
    free_warmup = _where(warmup.missing, lambda name, index: owners.may_copy(name, index, process))
    waits = (free_active, free_standby, free_warmup) != (active.missing, standby.missing, warmup.missing)
    assigned = OwnedAssignment(
        {
            name: {**kept.active.get(name, {}), **dict.fromkeys(sorted(free_active.get(name, ())), target.epoch)}
            for name in sorted(kept.active.keys() | free_active.keys())
        },
        _merged(kept.standby, free_standby),
        _merged(kept.warmup, free_warmup),
    )
    state = MemberState.UNRELEASED_TASKS if waits else MemberState.STABLE
    return member.advanced(target.epoch, state=state, assigned=assigned, revoking=NOTHING_OWNED)


@dataclass(frozen=True, slots=True)
class _Difference:
    """The tasks of one role, sorted out; subtopologies without tasks are left out."""

    kept: Tasks
    revoked: Tasks
    missing: Tasks

    @classmethod
    def of(cls, current: Mapping[str, Iterable[int]], target: Tasks) -> "_Difference":
        kept, revoked, missing = {}, {}, {}
        for name in sorted(current.keys() | target.keys()):
            ours, theirs = frozenset(current.get(name, ())), frozenset(target.get(name, ()))
            kept[name], revoked[name], missing[name] = ours & theirs, ours - theirs, theirs - ours
        return cls(_nonempty(kept), _nonempty(revoked), _nonempty(missing))


def _nonempty(tasks: Mapping[str, Set[int]]) -> Tasks:
    return {name: partitions for name, partitions in tasks.items() if partitions}


def _with_epochs(tasks: Tasks, epochs: Mapping[str, Mapping[int, int]]) -> dict[str, dict[int, int]]:
    return {
        name: {index: since for index, since in epochs[name].items() if index in partitions}
        for name, partitions in tasks.items()
    }


def _where(tasks: Tasks, is_free: _IsFree) -> Tasks:
    return _nonempty(
        {name: frozenset(index for index in partitions if is_free(name, index)) for name, partitions in tasks.items()}
    )


def _merged(kept: Tasks, added: Tasks) -> Tasks:
    return {
        name: frozenset(kept.get(name, ())) | frozenset(added.get(name, ()))
        for name in sorted(kept.keys() | added.keys())
    }
