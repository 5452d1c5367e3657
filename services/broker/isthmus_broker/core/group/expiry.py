"""Expiry of offsets, and removal of groups without members and offsets.

The time starts at the commit in a group without a protocol (offsets committed manually) and in a consumer or streams group. In a
classic group it starts when the group became empty, or at the commit for topics that its members are no longer subscribed to.
"""

from collections.abc import Callable

from isthmus_model.clocks import Now, WallMs

from isthmus_broker.core.coordinator.result import Record, Result
from isthmus_broker.core.group.classic_group import ClassicGroup, ClassicState
from isthmus_broker.core.group.offsets import Offsets, subscribes
from isthmus_broker.core.group.records import OffsetCommitKey, OffsetCommitValue
from isthmus_broker.core.group.registry import Group, Registry

StartOfTime = Callable[[OffsetCommitValue], int]
_KEY = ("expire", "offsets")


class Expiry:
    """The periodic clean-up of a shard."""

    def __init__(self, registry: Registry, offsets: Offsets) -> None:
        self._registry = registry
        self._offsets = offsets

    def schedule(self, now: Now) -> None:
        """Schedule the next clean-up, offsets.retention.check.interval.ms from now."""
        interval_ms = self._registry.config.offsets_retention_check_interval_ms
        self._registry.timers.schedule(_KEY, now.monotonic + interval_ms, self.clean, interval_ms)

    def clean(self, now: Now) -> Result:
        """Tombstones of expired offsets and of empty groups without offsets."""
        records: list[Record] = []
        for group_id in sorted(self._registry.groups):
            group = self._registry.groups[group_id]
            if self._expire(group, now, records):
                records += deletion_records(group)
        self.schedule(now)
        return Result(records=tuple(records), is_atomic=False)

    def _expire(self, group: Group, now: Now, records: list[Record]) -> bool:
        """Whether the group can be removed with its offsets."""
        offsets = self._offsets.by_group.get(group.group_id, {})
        start = _start_of_time(group)
        if offsets and start is None:
            return False
        pending = self._offsets.pending
        all_expired = is_empty(group) and not pending.partitions(group.group_id)
        for topic in sorted(offsets):
            subscribed = subscribes(group, topic)
            for index, value in sorted(offsets[topic].items()):
                is_used = subscribed or pending.is_unstable(group.group_id, topic, index)
                if start is not None and not is_used and self._is_expired(value, start, now.wall):
                    records.append(Record(OffsetCommitKey(group.group_id, topic, index)))
                else:
                    all_expired = False
        return all_expired

    def _is_expired(self, value: OffsetCommitValue, start: StartOfTime, now: WallMs) -> bool:
        if value.expire_timestamp >= 0:
            return now >= value.expire_timestamp
        return now - start(value) >= self._registry.config.offsets_retention_ms


def is_empty(group: Group) -> bool:
    """Whether the group has no members."""
    return group.state == ClassicState.EMPTY if isinstance(group, ClassicGroup) else not group.members


def deletion_records(group: Group) -> list[Record]:
    """The tombstones of an empty group."""
    return [group.tombstone()] if isinstance(group, ClassicGroup) else group.tombstones()


def _start_of_time(group: Group) -> StartOfTime | None:
    """The time since which an offset of the group is unused; None while it is in use."""
    if isinstance(group, ClassicGroup) and group.protocol_type is not None:
        emptied_ms = group.state_timestamp_ms
        if group.state == ClassicState.EMPTY:
            return lambda value: emptied_ms if emptied_ms >= 0 else value.commit_timestamp
        knows = group.uses_consumer_protocol and group.subscribed_topics is not None
        if not knows or group.state != ClassicState.STABLE:
            return None
    return lambda value: value.commit_timestamp
