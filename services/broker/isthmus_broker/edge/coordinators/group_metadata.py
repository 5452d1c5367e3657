"""The part of the cluster's metadata that groups need: topics with their partitions' racks, and the settings of groups."""

from dataclasses import fields
from typing import Any, Final

from isthmus_model.config_resources import ResourceType

from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.group.config import GroupConfig, GroupConfigs, GroupOverrides, MigrationPolicy
from isthmus_broker.core.group.view import NO_TOPICS, Topics, TopicView
from isthmus_broker.core.metadata.delta import Changes
from isthmus_broker.core.metadata.image import ClusterImage, Resource, Topic

_OVERRIDES: Final = {
    "consumer.session.timeout.ms": "consumer_session_timeout_ms",
    "consumer.heartbeat.interval.ms": "consumer_heartbeat_interval_ms",
    "consumer.assignment.interval.ms": "consumer_assignment_interval_ms",
    "streams.session.timeout.ms": "streams_session_timeout_ms",
    "streams.heartbeat.interval.ms": "streams_heartbeat_interval_ms",
    "streams.assignment.interval.ms": "streams_assignment_interval_ms",
    "streams.initial.rebalance.delay.ms": "streams_initial_rebalance_delay_ms",
    "streams.num.standby.replicas": "streams_num_standby_replicas",
}


class GroupMetadata:
    """The current view, and the configurations that all shards share."""

    def __init__(self, config: NodeConfig) -> None:
        self.view: Topics = NO_TOPICS
        self.configs = GroupConfigs(broker=group_config(config))

    def apply(self, changes: Changes, offset: int, config: NodeConfig) -> bool:
        """Apply changes; returns whether topics changed."""
        self.configs.broker = group_config(config)
        for resource in changes.configs:
            if resource.type == ResourceType.GROUP:
                self._override(changes.after, resource)
        touched = set(changes.partitions) | changes.topics_created
        if not touched and not changes.topics_deleted:
            return False
        by_name, by_id = dict(self.view.by_name), dict(self.view.by_id)
        for topic_id in changes.topics_deleted:
            view = by_id.pop(topic_id)
            if by_name[view.name] is view:
                del by_name[view.name]
        for topic_id in touched:
            view = _view_of(changes.after, changes.after.topics.by_id[topic_id])
            if by_id.get(topic_id) != view:
                by_id[topic_id] = by_name[view.name] = view
        self.view = Topics(offset, by_name, by_id)
        return True

    def _override(self, image: ClusterImage, resource: Resource) -> None:
        settings = image.configs.get(resource, {})
        own = {attribute: int(settings[key]) for key, attribute in _OVERRIDES.items() if key in settings}
        if own:
            self.configs.groups[resource.name] = GroupOverrides(**own)
        else:
            self.configs.groups.pop(resource.name, None)


def _view_of(image: ClusterImage, topic: Topic) -> TopicView:
    racks = []
    for index in range(len(topic.partitions)):
        brokers = (image.brokers.get(replica) for replica in topic.partitions[index].replicas)
        racks.append(tuple(sorted({broker.rack for broker in brokers if broker is not None and broker.rack})))
    return TopicView(topic.id, topic.name, tuple(racks))


def group_config(config: NodeConfig) -> GroupConfig:
    """The node's settings that apply to groups."""
    values: dict[str, Any] = {field.name: config.values[field.name.replace("_", ".")] for field in fields(GroupConfig)}
    values["group_consumer_migration_policy"] = MigrationPolicy(str(values["group_consumer_migration_policy"]).lower())
    return GroupConfig(**values)
