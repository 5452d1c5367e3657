"""A member of a streams group: an immutable value, and its records."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final

from isthmus_broker.core.coordinator.result import Record
from isthmus_broker.core.group.streams.records import (
    CurrentTasks,
    Endpoint,
    KeyValue,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    TargetTasks,
)
from isthmus_broker.core.group.streams.tasks import (
    NOTHING_OWNED,
    Assignment,
    OwnedAssignment,
    OwnedTasks,
    Tasks,
    listed,
    tasks_of,
)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2


class MemberState(IntEnum):
    """The state of a member's reconciliation; the numbers are those of the records."""

    STABLE = 1
    UNREVOKED_TASKS = 2  # it must revoke tasks first
    UNRELEASED_TASKS = 3  # others must revoke tasks first
    UNKNOWN = 127  # written by newer software


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMember:
    """What the coordinator knows of a member. Members of the same process share its state directory."""

    member_id: str
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    assigned: OwnedAssignment = NOTHING_OWNED
    revoking: OwnedAssignment = NOTHING_OWNED

    def advanced(self, epoch: int, **changes: Any) -> "StreamsMember":
        """The member at a new epoch, with its previous one, because the response may get lost."""
        return replace(self, epoch=epoch, previous_epoch=self.epoch, **changes)

    def reconciled_to(self, target_epoch: int) -> bool:
        """Whether the reconciliation with this target is complete."""
        return self.state == MemberState.STABLE and self.epoch == target_epoch

    def assignment_epoch(self, subtopology_id: str, partition: int) -> int | None:
        """The epoch since which the member has the active task, also while revoking it; None if it has not."""
        for owned in (self.assigned.active, self.revoking.active):
            epoch = owned.get(subtopology_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    def with_metadata(self, value: StreamsGroupMemberMetadataValue) -> "StreamsMember":
        """The member with the content of its metadata record."""
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            user_endpoint=value.user_endpoint,
            client_tags={tag.key: tag.value for tag in value.client_tags},
        )

    def with_current(self, value: StreamsGroupCurrentMemberAssignmentValue) -> "StreamsMember":
        """The member with the content of its assignment record."""
        states = set(MemberState)
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state) if value.state in states else MemberState.UNKNOWN,
            assigned=OwnedAssignment(
                _owned(value.active_tasks, value.member_epoch),
                tasks_of(value.standby_tasks),
                tasks_of(value.warmup_tasks),
            ),
            revoking=OwnedAssignment(
                _owned(value.active_tasks_pending_revocation, value.member_epoch),
                tasks_of(value.standby_tasks_pending_revocation),
                tasks_of(value.warmup_tasks_pending_revocation),
            ),
        )


def _owned(entries: tuple[CurrentTasks, ...], member_epoch: int) -> OwnedTasks:
    """Records of Kafka 4.2 have no epochs per task: the member's epoch is used for all."""
    owned: dict[str, dict[int, int]] = {}
    for entry in entries:
        epochs = entry.assignment_epochs
        if epochs is None or len(epochs) != len(entry.partitions):
            epochs = (member_epoch,) * len(entry.partitions)
        owned[entry.subtopology_id] = dict(zip(entry.partitions, epochs, strict=True))
    return owned


def metadata_record(group_id: str, member: StreamsMember) -> Record:
    """The record of the member's own metadata."""
    value = StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=member.user_endpoint,
        client_tags=tuple(KeyValue(key, member.client_tags[key]) for key in sorted(member.client_tags)),
    )
    return Record(StreamsGroupMemberMetadataKey(group_id, member.member_id), value)


def current_record(group_id: str, member: StreamsMember) -> Record:
    """The record of the member's current assignment."""
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        active_tasks=_active(member.assigned.active),
        standby_tasks=_current(member.assigned.standby),
        warmup_tasks=_current(member.assigned.warmup),
        active_tasks_pending_revocation=_active(member.revoking.active),
        standby_tasks_pending_revocation=_current(member.revoking.standby),
        warmup_tasks_pending_revocation=_current(member.revoking.warmup),
    )
    return Record(StreamsGroupCurrentMemberAssignmentKey(group_id, member.member_id), value)


def _active(owned: OwnedTasks) -> tuple[CurrentTasks, ...]:
    return tuple(
        CurrentTasks(name, partitions, tuple(owned[name][partition] for partition in partitions))
        for name, partitions in listed(owned)
    )


def _current(tasks: Tasks) -> tuple[CurrentTasks, ...]:
    return tuple(CurrentTasks(name, partitions) for name, partitions in listed(tasks))


def target_record(group_id: str, member_id: str, target: Assignment) -> Record:
    """The record of the member's target."""
    value = StreamsGroupTargetAssignmentMemberValue(
        _target(target.active), _target(target.standby), _target(target.warmup)
    )
    return Record(StreamsGroupTargetAssignmentMemberKey(group_id, member_id), value)


def _target(tasks: Tasks) -> tuple[TargetTasks, ...]:
    return tuple(TargetTasks(name, partitions) for name, partitions in listed(tasks))


def tombstones(group_id: str, member_id: str) -> tuple[Record, Record, Record]:
    """The member's tombstones, in the order that replay requires."""
    return (
        Record(StreamsGroupCurrentMemberAssignmentKey(group_id, member_id)),
        Record(StreamsGroupTargetAssignmentMemberKey(group_id, member_id)),
        Record(StreamsGroupMemberMetadataKey(group_id, member_id)),
    )
