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
    """The state of a member's reconciliation; the numbers are those of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # it must revoke partitions first
    UNRELEASED_PARTITIONS = 2  # others must revoke partitions first
    UNKNOWN = 127  # written by newer software


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
        """The member at a new epoch, with its previous one, because the response may get lost."""
        return replace(self, epoch=epoch, previous_epoch=self.epoch, **changes)

    def reconciled_to(self, target_epoch: int) -> bool:
        """Whether the reconciliation with this target is complete."""
        return self.state == MemberState.STABLE and self.epoch == target_epoch

    def assignment_epoch(self, topic_id: UUID | None, partition: int) -> int | None:
        """The epoch since which the member owns the partition, also while revoking it; None if it does not."""
        if topic_id is None:
            return None
        for partitions in (self.assigned, self.revoking):
            epoch = partitions.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> "ConsumerMember":
        """The member with the content of its metadata record."""
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
        """The member with the content of its assignment record."""
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
    """Records before KIP-1251 have no epochs per partition: the member's epoch is used for all."""
    owned: dict[UUID, dict[int, int]] = {}
    for entry in entries:
        epochs = entry.assignment_epochs
        if epochs is None or len(epochs) != len(entry.partitions):
            epochs = (max(member_epoch, 0),) * len(entry.partitions)
        if entry.topic_id is not None:
            owned[entry.topic_id] = dict(zip(entry.partitions, epochs, strict=True))
    return owned


def without_epochs(owned: OwnedPartitions) -> dict[UUID, frozenset[int]]:
    """The partitions without their epochs."""
    return {topic_id: frozenset(partitions) for topic_id, partitions in owned.items()}


def metadata_record(group_id: str, member: ConsumerMember) -> Record:
    """The record of the member's own metadata."""
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
    """The record of the member's current assignment."""
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
    """The record of the member's target."""
    entries = tuple(TargetPartitions(topic_id, tuple(sorted(target[topic_id]))) for topic_id in sorted(target))
    return Record(
        ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), ConsumerGroupTargetAssignmentMemberValue(entries)
    )


def tombstones(group_id: str, member_id: str) -> tuple[Record, Record, Record]:
    """The member's tombstones, in the order that replay requires."""
    return (
        Record(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id)),
        Record(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id)),
        Record(ConsumerGroupMemberMetadataKey(group_id, member_id)),
    )
