"""State shared by the parts of one group shard: the groups, the timers, the outbox, the configuration and the view of the metadata."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from isthmus_broker.core.coordinator.result import Outbox
from isthmus_broker.core.coordinator.timers import Timers
from isthmus_broker.core.group.classic_group import ClassicGroup
from isthmus_broker.core.group.config import GroupConfig, GroupConfigs
from isthmus_broker.core.group.consumer_group import ConsumerGroup
from isthmus_broker.core.group.errors import UnknownGroup
from isthmus_broker.core.group.streams.group import StreamsGroup
from isthmus_broker.core.group.view import NO_TOPICS, ClusterView, group_hash, topic_hash

Group = ClassicGroup | ConsumerGroup | StreamsGroup
NewId = Callable[[], UUID]
UNKNOWN_MEMBER_ID: Final = ""


class GroupLookup(ABC):
    """Groups by name."""

    __slots__ = ()

    @abstractmethod
    def find(self, group_id: str) -> Group | None:
        """The group of that name, if there is one."""

    def group(self, group_id: str) -> Group:
        """Any group of that name."""
        group = self.find(group_id)
        if group is None:
            raise UnknownGroup(f"Group {group_id} not found.")
        return group

    def consumer_group(self, group_id: str) -> ConsumerGroup:
        """The group, which must be a consumer group."""
        group = self.group(group_id)
        if not isinstance(group, ConsumerGroup):
            raise UnknownGroup(f"Group {group_id} is not a consumer group.")
        return group

    def streams_group(self, group_id: str) -> StreamsGroup:
        """The group, which must be a streams group."""
        group = self.group(group_id)
        if not isinstance(group, StreamsGroup):
            raise UnknownGroup(f"Group {group_id} is not a streams group.")
        return group

    def classic_group(self, group_id: str) -> ClassicGroup:
        """The group, which must be a classic group."""
        group = self.group(group_id)
        if not isinstance(group, ClassicGroup):
            raise UnknownGroup(f"Group {group_id} is not a classic group.")
        return group


@dataclass(slots=True)
class Registry(GroupLookup):
    """Everything that more than one part of the shard reads or writes."""

    timers: Timers
    outbox: Outbox
    configs: GroupConfigs
    new_id: NewId
    view: ClusterView = NO_TOPICS
    groups: dict[str, Group] = field(default_factory=dict)
    # Consumer and streams groups by the topics they need.
    subscribers: dict[str, set[str]] = field(default_factory=dict)
    # The metadata version at which topics were last created: regular expressions may match more since.
    topics_created_version: int = -1
    _topic_hashes: dict[str, int] = field(default_factory=dict)

    @property
    def config(self) -> GroupConfig:
        """The broker's values."""
        return self.configs.broker

    def find(self, group_id: str) -> Group | None:
        """The group of that name with everything in the log, committed or not."""
        return self.groups.get(group_id)

    def find_classic(self, group_id: str) -> ClassicGroup | None:
        """The group for a timer, which may have outlived it."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def metadata_hash(self, topics: Iterable[str]) -> int:
        """Kafka's hash of the existing ones among the topics."""
        hashes = {}
        for name in topics:
            topic = self.view.topic(name)
            if topic is not None:
                if name not in self._topic_hashes:
                    self._topic_hashes[name] = topic_hash(topic)
                hashes[name] = self._topic_hashes[name]
        return group_hash(hashes)

    def topic_ids(self, topics: Iterable[str]) -> set[UUID]:
        """The ids of the existing ones among the topics."""
        return {topic.topic_id for name in topics if (topic := self.view.topic(name)) is not None}

    def resubscribe(self, group_id: str, before: set[str], after: set[str]) -> None:
        """Record the changed subscriptions of a consumer or streams group."""
        for topic in before - after:
            groups = self.subscribers.get(topic, set())
            groups.discard(group_id)
            if not groups:
                self.subscribers.pop(topic, None)
                self._topic_hashes.pop(topic, None)
        for topic in after - before:
            self.subscribers.setdefault(topic, set()).add(group_id)

    def see(self, view: ClusterView) -> None:
        """Apply a new view, and make metadata checks of affected groups due."""
        older, self.view = self.view, view
        if self.topics_created_version < 0 or not view.names <= older.names:
            self.topics_created_version = view.version
        for name in list(self._topic_hashes):
            if older.topic(name) != view.topic(name):
                del self._topic_hashes[name]
        for name, group_ids in self.subscribers.items():
            if older.topic(name) != view.topic(name):
                for group_id in group_ids:
                    group = self.groups.get(group_id)
                    if isinstance(group, ConsumerGroup | StreamsGroup):
                        group.request_refresh()
