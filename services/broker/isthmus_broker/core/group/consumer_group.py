"""A consumer group (KIP-848): its members, target assignment and epochs. Its replicated state changes only by replaying records."""

from collections.abc import Iterable
from copy import copy
from typing import Final
from uuid import UUID

from isthmus_model.clocks import MonotonicMs, Now
from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.coordinator.result import Record
from isthmus_broker.core.group.consumer_protocol import CONSUMER_PROTOCOL
from isthmus_broker.core.group.errors import CoordinatorError
from isthmus_broker.core.group.member import (
    ConsumerMember,
    MemberState,
    OwnedPartitions,
    Partitions,
    current_record,
    metadata_record,
    target_record,
    tombstones,
)
from isthmus_broker.core.group.records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from isthmus_broker.core.group.subscriptions import ResolvedRegex, Subscriptions

NO_OWNER: Final = -1
NO_PARTITIONS: Final[Partitions] = {}
# The metadata of the subscribed topics is checked when it changes, and otherwise at this interval.
METADATA_REFRESH_INTERVAL_MS: Final = 2**31 - 1


class ConsumerGroup:
    """The replicated state of a group, indexes over it, and the time of its next metadata check."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assignment_timestamp_ms = 0
        self.assigned_ms: MonotonicMs | None = None  # the same time; None for a target of unknown age
        self.members: dict[str, ConsumerMember] = {}
        self.target: dict[str, Partitions] = {}
        self.resolved: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False
        # Indexes over the members.
        self.subscriptions = Subscriptions()
        self.static_members: dict[str, str] = {}
        self._partition_epochs: dict[UUID, dict[int, int]] = {}
        # Volatile state: due at once after a load or a change of a subscribed topic. The epoch invalidates a deadline that was set for a
        # bump
        # that was not appended.
        self._refresh_due_ms = 0
        self._refresh_epoch = 0

    def snapshot(self) -> "ConsumerGroup":
        """The group as it is now, for queries that must not reflect later records."""
        unchanged = copy(self)
        unchanged.members, unchanged.target = dict(self.members), dict(self.target)
        return unchanged

    # Queries.

    @property
    def state(self) -> str:
        """Kafka's name of the group's state."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def member(self, member_id: str) -> ConsumerMember:
        """The member of that id, or UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise CoordinatorError(
                ErrorCode.unknown_member_id, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member with the instance id."""
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members[member_id]

    def target_of(self, member: ConsumerMember) -> Partitions:
        """A member's target; a static member inherits its predecessor's."""
        if member.instance_id is None:
            return self.target.get(member.member_id, NO_PARTITIONS)
        member_id = self.static_members.get(member.instance_id)
        return NO_PARTITIONS if member_id is None else self.target.get(member_id, NO_PARTITIONS)

    def partition_epoch(self, topic_id: UUID, partition: int) -> int:
        """The epoch of the member that owns the partition or has yet to revoke it, or `NO_OWNER`."""
        return self._partition_epochs.get(topic_id, {}).get(partition, NO_OWNER)

    def waits_for_release(self, member: ConsumerMember) -> bool:
        """Whether another member still owns a partition of the member's target."""
        if member.state != MemberState.UNRELEASED_PARTITIONS:
            return False
        return any(
            partition not in member.assigned.get(topic_id, {}) and self.partition_epoch(topic_id, partition) != NO_OWNER
            for topic_id, partitions in self.target.get(member.member_id, NO_PARTITIONS).items()
            for partition in partitions
        )

    def supports_classic_protocols(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a classic member with these protocols may join: one of them must be supported by all classic members."""
        if protocol_type != CONSUMER_PROTOCOL:
            return False
        supported = [
            {protocol.name for protocol in member.classic.supported_protocols}
            for member in self.members.values()
            if member.classic is not None
        ]
        return any(all(name in each for each in supported) for name in names)

    def preferred_assignor(self, old: ConsumerMember | None = None, new: ConsumerMember | None = None) -> str | None:
        """The server-side assignor preferred by most members after a change of one member, or the first by name among equals."""
        counts: dict[str, int] = {}
        others = [member for member in self.members.values() if old is None or member.member_id != old.member_id]
        for member in [*others, *([new] if new is not None else [])]:
            if member.assignor is not None:
                counts[member.assignor] = counts.get(member.assignor, 0) + 1
        return min(counts, key=lambda name: (-counts[name], name), default=None)

    # Soft state.

    def metadata_expired(self, now: Now) -> bool:
        """Whether the subscribed topics must be checked again."""
        return now.monotonic >= self._refresh_due_ms or self.epoch < self._refresh_epoch

    def refreshed(self, now: Now, epoch: int) -> None:
        """Record a check for that group epoch."""
        self._refresh_due_ms = now.monotonic + METADATA_REFRESH_INTERVAL_MS
        self._refresh_epoch = epoch

    def request_refresh(self) -> None:
        """Make a check due after a change of a subscribed topic."""
        self._refresh_due_ms = 0
        self._refresh_epoch = 0

    # Replay.

    def update_member(self, member: ConsumerMember) -> None:
        """Add a member, or replace its earlier state."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self.subscriptions.replace_member(old, member)
        if old is not None:
            self._release(old)
        self._claim(member.assigned, member.epoch)
        self._claim(member.revoking, member.epoch)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        """Remove a member."""
        member = self.members.pop(member_id)
        self.subscriptions.replace_member(member, None)
        self._release(member)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]

    def set_resolved(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """Record the topics that match a regular expression, or remove one without subscribers."""
        old = self.resolved.pop(regex, None)
        if resolved is not None:
            self.resolved[regex] = resolved
        self.subscriptions.replace_resolved(old.topics if old else (), resolved.topics if resolved else ())

    def _claim(self, owned: OwnedPartitions, epoch: int) -> None:
        for topic_id, partitions in owned.items():
            epochs = self._partition_epochs.setdefault(topic_id, {})
            for partition in partitions:
                held = epochs.get(partition)
                if held is None or held < epoch:
                    epochs[partition] = epoch

    def _release(self, member: ConsumerMember) -> None:
        """Remove ownership only at the member's epoch: another member may have become the owner since."""
        for owned in (member.assigned, member.revoking):
            for topic_id, partitions in owned.items():
                epochs = self._partition_epochs.get(topic_id, {})
                for partition in partitions:
                    if epochs.get(partition) == member.epoch:
                        del epochs[partition]
                if not epochs:
                    self._partition_epochs.pop(topic_id, None)

    # Records.

    def epoch_record(self, epoch: int, metadata_hash: int) -> Record:
        """Set a new group epoch."""
        return Record(ConsumerGroupMetadataKey(self.group_id), ConsumerGroupMetadataValue(epoch, metadata_hash))

    def assignment_record(self, epoch: int, timestamp_ms: int) -> Record:
        """Record that the target was computed."""
        key = ConsumerGroupTargetAssignmentMetadataKey(self.group_id)
        return Record(key, ConsumerGroupTargetAssignmentMetadataValue(epoch, timestamp_ms))

    def tombstones(self, renamed: dict[str, str] | None = None) -> list[Record]:
        """The tombstones of the whole group. `renamed` maps members to the ids that this operation's earlier records give them in the
        log."""
        names = renamed or {}
        of_members = [tombstones(self.group_id, names.get(member_id, member_id)) for member_id in self.members]
        return [
            *(current for current, _, _ in of_members),
            *(target for _, target, _ in of_members),
            Record(ConsumerGroupTargetAssignmentMetadataKey(self.group_id)),
            *(metadata for _, _, metadata in of_members),
            *(Record(ConsumerGroupRegularExpressionKey(self.group_id, regex)) for regex in self.resolved),
            Record(ConsumerGroupPartitionMetadataKey(self.group_id)),
            Record(ConsumerGroupMetadataKey(self.group_id)),
        ]

    def records(self) -> list[Record]:
        """The records of the whole group, when a classic group is converted."""
        members = list(self.members.values())
        return [
            *(metadata_record(self.group_id, member) for member in members),
            self.epoch_record(self.epoch, self.metadata_hash),
            *(target_record(self.group_id, member.member_id, self.target_of(member)) for member in members),
            self.assignment_record(self.assignment_epoch, self.assignment_timestamp_ms),
            *(current_record(self.group_id, member) for member in members),
        ]
