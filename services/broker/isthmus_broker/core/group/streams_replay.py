"""Replay of a streams group's records: the only code that changes its replicated state."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from isthmus_model.clocks import Now

from isthmus_broker.core.coordinator.result import Record
from isthmus_broker.core.group.classic_group import ClassicGroup
from isthmus_broker.core.group.registry import Registry
from isthmus_broker.core.group.streams.group import StreamsGroup
from isthmus_broker.core.group.streams.member import LEAVE_EPOCH, StreamsMember
from isthmus_broker.core.group.streams.records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from isthmus_broker.core.group.streams.tasks import NOTHING_OWNED, Assignment, tasks_of
from isthmus_broker.core.group.streams.topology import Topology
from isthmus_broker.core.group.streams_targets import forget

# The part of the target that remains after a group's tombstone.
NO_ASSIGNMENT_EPOCH: Final = -1


class StreamsReplay:
    """One method for each type of record. A tombstone of something missing has no effect: compaction may have removed the rest."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._by_key: dict[type, Callable[[StreamsGroup, Any, Any, Now], None]] = {
            StreamsGroupMetadataKey: self._epoch,
            StreamsGroupMemberMetadataKey: self._member,
            StreamsGroupTargetAssignmentMetadataKey: self._target_epoch,
            StreamsGroupTargetAssignmentMemberKey: self._target,
            StreamsGroupCurrentMemberAssignmentKey: self._current,
            StreamsGroupTopologyKey: self._topology,
        }

    def apply(self, record: Record, now: Now) -> bool:
        """Apply a record, if it is one of a streams group; `now` converts its timestamp to the monotonic clock."""
        replay = self._by_key.get(type(record.key))
        if replay is None:
            return False
        group_id = getattr(record.key, "group_id", None)
        assert isinstance(group_id, str)
        group = self._group(group_id, create=record.value is not None)
        if group is not None:
            replay(group, record.key, record.value, now)
        return True

    def _group(self, group_id: str, create: bool) -> StreamsGroup | None:
        """A group that existed only for its offsets becomes a streams group with its first such record."""
        group = self._registry.groups.get(group_id)
        if isinstance(group, StreamsGroup):
            return group
        if not create:
            return None
        is_simple = isinstance(group, ClassicGroup) and group.is_simple
        assert group is None or is_simple, f"{group_id} is a group of another type"
        created = self._registry.groups[group_id] = StreamsGroup(group_id)
        return created

    def _epoch(
        self, group: StreamsGroup, key: StreamsGroupMetadataKey, value: StreamsGroupMetadataValue | None, now: Now
    ) -> None:
        if value is None:
            del self._registry.groups[group.group_id]
            forget(self._registry, group)
            return
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash
        group.validated_topology_epoch = value.validated_topology_epoch
        group.assignment_configs = {entry.key: entry.value for entry in value.last_assignment_configs or ()}

    def _member(
        self,
        group: StreamsGroup,
        key: StreamsGroupMemberMetadataKey,
        value: StreamsGroupMemberMetadataValue | None,
        now: Now,
    ) -> None:
        if value is not None:
            member = group.members.get(key.member_id, StreamsMember(member_id=key.member_id))
            group.update_member(member.with_metadata(value))
        elif key.member_id in group.members:
            group.remove_member(key.member_id)

    def _target_epoch(
        self,
        group: StreamsGroup,
        key: StreamsGroupTargetAssignmentMetadataKey,
        value: StreamsGroupTargetAssignmentMetadataValue | None,
        now: Now,
    ) -> None:
        group.assignment_epoch = NO_ASSIGNMENT_EPOCH if value is None else value.assignment_epoch
        timestamp_ms = 0 if value is None else value.assignment_timestamp
        group.assigned_ms = None if timestamp_ms == 0 else now.monotonic_of(timestamp_ms)

    def _target(
        self,
        group: StreamsGroup,
        key: StreamsGroupTargetAssignmentMemberKey,
        value: StreamsGroupTargetAssignmentMemberValue | None,
        now: Now,
    ) -> None:
        if value is None:
            group.target.pop(key.member_id, None)
        else:
            group.target[key.member_id] = Assignment(
                tasks_of(value.active_tasks), tasks_of(value.standby_tasks), tasks_of(value.warmup_tasks)
            )

    def _current(
        self,
        group: StreamsGroup,
        key: StreamsGroupCurrentMemberAssignmentKey,
        value: StreamsGroupCurrentMemberAssignmentValue | None,
        now: Now,
    ) -> None:
        member = group.members.get(key.member_id)
        if value is not None:
            group.update_member((member or StreamsMember(member_id=key.member_id)).with_current(value))
        elif member is not None:
            group.update_member(
                replace(
                    member,
                    epoch=LEAVE_EPOCH,
                    previous_epoch=LEAVE_EPOCH,
                    assigned=NOTHING_OWNED,
                    revoking=NOTHING_OWNED,
                )
            )

    def _topology(
        self, group: StreamsGroup, key: StreamsGroupTopologyKey, value: StreamsGroupTopologyValue | None, now: Now
    ) -> None:
        before = group.required_topics
        group.topology = None if value is None else Topology.of_record(value)
        self._registry.resubscribe(group.group_id, before, group.required_topics)
