"""Groups as of the high watermark: ListGroups and the Describe APIs reflect committed records only and need not wait, as in Apache Kafka.

A batch of records that is not committed yet keeps the groups that it changes, as they were before it. A classic group is kept as the same
object: its state in memory changes with its records' commit.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from isthmus_broker.core.coordinator.result import Record
from isthmus_broker.core.group.consumer_group import ConsumerGroup
from isthmus_broker.core.group.records import GroupMetadataKey, OffsetCommitKey
from isthmus_broker.core.group.registry import Group, GroupLookup, Registry
from isthmus_broker.core.group.streams.group import StreamsGroup

STATES_MAX: Final = 8
"""States that are kept of a group; with more uncommitted batches, several of them count as one."""


@dataclass(slots=True)
class _Before:
    """A group before some uncommitted batches."""

    group: Group | None
    """None if there was no group."""
    last_offset: int
    """The end of the batches."""


class CommittedGroups(GroupLookup):
    """The committed groups of a shard."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._high_watermark = 0
        self._uncommitted: deque[tuple[int, list[str]]] = deque()
        """The last offset of each uncommitted batch, and the groups that it changes."""
        self._before: dict[str, deque[_Before]] = {}
        """By group: its states, the committed one first."""

    def replaying(self, records: Sequence[Record], last_offset: int) -> None:
        """A batch that ends at `last_offset` is about to be replayed."""
        if last_offset < self._high_watermark:
            return
        group_ids = list(dict.fromkeys(group_id for record in records if (group_id := self._changed_by(record))))
        for group_id in group_ids:
            states = self._before.setdefault(group_id, deque())
            if len(states) < STATES_MAX:
                group = self._registry.find(group_id)
                before = group.snapshot() if isinstance(group, ConsumerGroup | StreamsGroup) else group
                states.append(_Before(before, last_offset))
            else:
                states[-1].last_offset = last_offset
        if group_ids:
            self._uncommitted.append((last_offset, group_ids))

    def _changed_by(self, record: Record) -> str | None:
        """The group that a record changes; a committed offset only creates one."""
        key = record.key
        if isinstance(key, OffsetCommitKey):
            return None if key.group in self._registry.groups else key.group
        if isinstance(key, GroupMetadataKey):
            return key.group
        group_id = getattr(key, "group_id", None)
        assert isinstance(group_id, str), f"{key} names no group"
        return group_id

    def committed(self, high_watermark: int) -> None:
        """Every record below the high watermark is committed."""
        self._high_watermark = high_watermark
        while self._uncommitted and self._uncommitted[0][0] < high_watermark:
            for group_id in self._uncommitted.popleft()[1]:
                states = self._before.get(group_id)
                while states and states[0].last_offset < high_watermark:
                    states.popleft()
                if not states:
                    self._before.pop(group_id, None)

    def ids(self) -> list[str]:
        """The names of all groups, sorted."""
        return sorted(group_id for group_id in {*self._registry.groups, *self._before} if self.find(group_id))

    def find(self, group_id: str) -> Group | None:
        """The group of that name as of the high watermark."""
        states = self._before.get(group_id)
        return states[0].group if states else self._registry.find(group_id)
