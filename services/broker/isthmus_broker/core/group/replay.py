"""Replay of records: the only code that changes replicated state, live and during a load alike."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from isthmus_model.clocks import Now

from isthmus_broker.core.coordinator.result import Record
from isthmus_broker.core.group.classic_group import ClassicGroup
from isthmus_broker.core.group.consumer_group import ConsumerGroup
from isthmus_broker.core.group.consumer_steps import resolved_regex
from isthmus_broker.core.group.member import LEAVE_EPOCH, ConsumerMember
from isthmus_broker.core.group.offsets import Offsets
from isthmus_broker.core.group.rebalance import Rebalance
from isthmus_broker.core.group.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from isthmus_broker.core.group.registry import Registry
from isthmus_broker.core.group.streams_replay import StreamsReplay

# The part of the target that remains after a group's tombstone.
NO_ASSIGNMENT_EPOCH: Final = -1


class Replay:
    """One method for each type of record. A tombstone of something missing has no effect: compaction may have removed the rest."""

    def __init__(self, registry: Registry, offsets: Offsets, rebalance: Rebalance) -> None:
        self._registry = registry
        self._rebalance = rebalance
        self._offsets = offsets
        self._streams = StreamsReplay(registry)
        self._by_key: dict[type, Callable[[Any, Any], None]] = {
            GroupMetadataKey: self._classic_group,
            ConsumerGroupMetadataKey: self._group_epoch,
            ConsumerGroupPartitionMetadataKey: self._partition_metadata,
            ConsumerGroupMemberMetadataKey: self._member,
            ConsumerGroupTargetAssignmentMemberKey: self._target,
            ConsumerGroupCurrentMemberAssignmentKey: self._current,
        }
        self._with_timestamp: dict[type, Callable[[Any, Any, Now], None]] = {
            ConsumerGroupTargetAssignmentMetadataKey: self._target_epoch,
            ConsumerGroupRegularExpressionKey: self._regex,
        }

    def apply(self, record: Record, offset: int, now: Now) -> None:
        """Apply a record, which takes effect at `offset`; `now` converts its timestamp to the monotonic clock."""
        if isinstance(record.key, OffsetCommitKey):
            assert record.value is None or isinstance(record.value, OffsetCommitValue)
            self._offsets.replay(record.key, record.value, offset)
        elif (with_timestamp := self._with_timestamp.get(type(record.key))) is not None:
            with_timestamp(record.key, record.value, now)
        elif not self._streams.apply(record, now):
            self._by_key[type(record.key)](record.key, record.value)

    def _classic_group(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        if value is not None:
            self._registry.groups[key.group] = ClassicGroup.from_record(key.group, value)
        else:
            self._registry.groups.pop(key.group, None)
            self._rebalance.forget(key.group)

    def _consumer_group(self, group_id: str, create: bool) -> ConsumerGroup | None:
        """A group that existed only for its offsets becomes a consumer group with its first such record."""
        group = self._registry.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if not create:
            return None
        is_simple = isinstance(group, ClassicGroup) and group.is_simple
        assert group is None or is_simple, f"{group_id} is a group of another type"
        created = ConsumerGroup(group_id)
        self._registry.groups[group_id] = created
        return created

    def _existing(self, group_id: str) -> ConsumerGroup:
        group = self._consumer_group(group_id, create=True)
        assert group is not None
        return group

    def _group_epoch(self, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None) -> None:
        if value is not None:
            group = self._existing(key.group_id)
            group.epoch = value.epoch
            group.metadata_hash = value.metadata_hash
        elif self._consumer_group(key.group_id, create=False) is not None:
            del self._registry.groups[key.group_id]

    def _partition_metadata(
        self, key: ConsumerGroupPartitionMetadataKey, value: ConsumerGroupPartitionMetadataValue | None
    ) -> None:
        group = self._consumer_group(key.group_id, create=value is not None)
        if group is not None:
            group.has_partition_metadata = value is not None

    def _member(self, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None) -> None:
        group = self._consumer_group(key.group_id, create=value is not None)
        if group is None:
            return
        before = group.subscriptions.topics()
        if value is not None:
            member = group.members.get(key.member_id, ConsumerMember(member_id=key.member_id))
            group.update_member(member.with_metadata(value))
        elif key.member_id in group.members:
            group.remove_member(key.member_id)
        self._registry.resubscribe(key.group_id, before, group.subscriptions.topics())

    def _target_epoch(
        self,
        key: ConsumerGroupTargetAssignmentMetadataKey,
        value: ConsumerGroupTargetAssignmentMetadataValue | None,
        now: Now,
    ) -> None:
        group = self._consumer_group(key.group_id, create=value is not None)
        if group is not None:
            group.assignment_epoch = NO_ASSIGNMENT_EPOCH if value is None else value.assignment_epoch
            timestamp_ms = group.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp
            group.assigned_ms = None if timestamp_ms == 0 else now.monotonic_of(timestamp_ms)

    def _target(
        self, key: ConsumerGroupTargetAssignmentMemberKey, value: ConsumerGroupTargetAssignmentMemberValue | None
    ) -> None:
        group = self._consumer_group(key.group_id, create=value is not None)
        if group is None:
            return
        if value is None:
            group.target.pop(key.member_id, None)
            return
        group.target[key.member_id] = {
            entry.topic_id: frozenset(entry.partitions)
            for entry in value.topic_partitions
            if entry.topic_id is not None
        }

    def _current(
        self, key: ConsumerGroupCurrentMemberAssignmentKey, value: ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        group = self._consumer_group(key.group_id, create=value is not None)
        if group is None:
            return
        member = group.members.get(key.member_id)
        if value is not None:
            group.update_member((member or ConsumerMember(member_id=key.member_id)).with_current(value))
        elif member is not None:
            group.update_member(
                replace(member, epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned={}, revoking={})
            )

    def _regex(
        self, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None, now: Now
    ) -> None:
        group = self._consumer_group(key.group_id, create=value is not None)
        if group is None:
            return
        before = group.subscriptions.topics()
        group.set_resolved(key.regular_expression, None if value is None else resolved_regex(value, now))
        self._registry.resubscribe(key.group_id, before, group.subscriptions.topics())
