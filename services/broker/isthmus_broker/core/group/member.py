"""A member of a consumer group: an immutable value, and its two records."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final
from uuid import UUID

from isthmus_broker.core.coordinator.result import Record
from isthmus_broker.core.group.records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    CurrentPartitions,
    TargetPartitions,
)

# Partitions by topic, as an assignor decides.
Partitions = Mapping[UUID, Set[int]]
# Partitions by topic with the epoch at which the member got each.
OwnedPartitions = Mapping[UUID, Mapping[int, int]]

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2


class MemberState(IntEnum):
    """Where a member is on its way to the target; the numbers are those of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # it must give partitions back first
    UNRELEASED_PARTITIONS = 2  # others must give partitions back first
    UNKNOWN = 127  # written by a newer software


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """What the coordinator knows of a member.

    `regex` is empty, or null for records that say so, without a regular expression. `classic` is set while the member uses the
    classic protocol.
    """

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str | None = ""
    assignor: str | None = None
    assigned: OwnedPartitions = field(default_factory=dict)
    revoking: OwnedPartitions = field(default_factory=dict)
    classic: ClassicMemberMetadata | None = None

    def advanced(self, epoch: int, **changes: Any) -> "ConsumerMember":
        """The member at a new epoch, remembering the one it had: its answer may get lost."""
        return replace(self, epoch=epoch, previous_epoch=self.epoch, **changes)

    def reconciled_to(self, target_epoch: int) -> bool:
        """Whether nothing is left to do for this target."""
        return self.state == MemberState.STABLE and self.epoch == target_epoch

    def assignment_epoch(self, topic_id: UUID | None, partition: int) -> int | None:
        """Since which epoch the member has the partition, given back or not; None when it has it not."""
        if topic_id is None:
            return None
        for partitions in (self.assigned, self.revoking):
            epoch = partitions.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> "ConsumerMember":
        """As a record of its metadata says."""
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def with_current(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> "ConsumerMember":
        """As a record of its assignment says."""
        states = set(MemberState)
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state) if value.state in states else MemberState.UNKNOWN,
            assigned=_owned(value.assigned_partitions, value.member_epoch),
            revoking=_owned(value.partitions_pending_revocation, value.member_epoch),
        )


def _owned(entries: tuple[CurrentPartitions, ...], member_epoch: int) -> OwnedPartitions:
    """Records before KIP-1251 have no epochs per partition: the member's stands for all."""
    owned: dict[UUID, dict[int, int]] = {}
    for entry in entries:
        epochs = entry.assignment_epochs
        if epochs is None or len(epochs) != len(entry.partitions):
            epochs = (max(member_epoch, 0),) * len(entry.partitions)
        if entry.topic_id is not None:
            owned[entry.topic_id] = dict(zip(entry.partitions, epochs, strict=True))
    return owned


def without_epochs(owned: OwnedPartitions) -> dict[UUID, frozenset[int]]:
    """Only which partitions."""
    return {topic_id: frozenset(partitions) for topic_id, partitions in owned.items()}


def metadata_record(group_id: str, member: ConsumerMember) -> Record:
    """What the member said of itself."""
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.topics)),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=member.classic,
    )
    return Record(ConsumerGroupMemberMetadataKey(group_id, member.member_id), value)


def current_record(group_id: str, member: ConsumerMember) -> Record:
    """Where the member is."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_current_partitions(member.assigned),
        partitions_pending_revocation=_current_partitions(member.revoking),
    )
    return Record(ConsumerGroupCurrentMemberAssignmentKey(group_id, member.member_id), value)


def _current_partitions(owned: OwnedPartitions) -> tuple[CurrentPartitions, ...]:
    entries = []
    for topic_id in sorted(owned):
        indexes = tuple(sorted(owned[topic_id]))
        entries.append(CurrentPartitions(topic_id, indexes, tuple(owned[topic_id][index] for index in indexes)))
    return tuple(entries)


def target_record(group_id: str, member_id: str, target: Partitions) -> Record:
    """Where the member shall be."""
    entries = tuple(TargetPartitions(topic_id, tuple(sorted(target[topic_id]))) for topic_id in sorted(target))
    return Record(
        ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), ConsumerGroupTargetAssignmentMemberValue(entries)
    )


def tombstones(group_id: str, member_id: str) -> tuple[Record, Record, Record]:
    """The member is gone, in the order that replay wants."""
    return (
        Record(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id)),
        Record(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id)),
        Record(ConsumerGroupMemberMetadataKey(group_id, member_id)),
    )
