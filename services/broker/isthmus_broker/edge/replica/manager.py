"""The partitions of this node: made, changed and removed as the cluster's metadata says."""

import logging
from collections.abc import Callable, Iterator
from uuid import UUID

from isthmus_wire.errors import ErrorCode
from isthmus_wire.hot import Topic

from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.config.topic_config import TopicConfig, resolve_topic
from isthmus_broker.core.metadata.delta import Changes
from isthmus_broker.core.metadata.image import EMPTY_IMAGE, ClusterImage, ResourceType, directory_of
from isthmus_broker.core.metadata.schema import PartitionRecord
from isthmus_broker.edge.disk.checkpoints import TopicPartition
from isthmus_broker.edge.disk.files import DiskFailure
from isthmus_broker.edge.disk.log import Log
from isthmus_broker.edge.disk.log_dir import LogDir
from isthmus_broker.edge.disk.log_manager import LogManager
from isthmus_broker.edge.replica.partition import Leadership, Partition

logger = logging.getLogger(__name__)


class ReplicaManager:
    """Partitions by topic name and by topic id."""

    def __init__(self, config: NodeConfig, logs: LogManager) -> None:
        self._config = config
        self._logs = logs
        self._image: ClusterImage = EMPTY_IMAGE
        self._by_name: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[bytes, dict[int, Partition]] = {}
        self.on_leadership: Callable[[Partition], None] = lambda _partition: None
        self.on_removed: Callable[[Partition], None] = lambda _partition: None
        logs.on_directory_failed = self._directory_failed

    def find(self, topic: Topic, index: int) -> Partition | ErrorCode:
        """The partition, or why there is none."""
        by_id = isinstance(topic, bytes)
        partitions = self._by_id.get(topic) if isinstance(topic, bytes) else self._by_name.get(topic)
        partition = None if partitions is None else partitions.get(index)
        if partition is not None:
            return partition
        known = (
            self._image.topics.by_id.get(UUID(bytes=topic))
            if isinstance(topic, bytes)
            else self._image.topics.named(topic)
        )
        if known is None:
            return ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
        return ErrorCode.not_leader_or_follower if index in known.partitions else ErrorCode.unknown_topic_or_partition

    def partitions(self) -> Iterator[Partition]:
        """All of them."""
        for partitions in self._by_name.values():
            yield from partitions.values()

    def topic_config(self, topic: str) -> TopicConfig:
        """The settings in force for a topic."""
        return resolve_topic(self._image.config(ResourceType.TOPIC, topic), self._config.topic_defaults)

    # -- following the metadata ----------------------------------------------------------------------------------------------

    def know(self, image: ClusterImage, config: NodeConfig) -> None:
        """What is in force before the logs are opened."""
        self._image = image
        self._config = config

    def log_moved(self, key: TopicPartition, log: Log) -> None:
        """The partition goes on in another directory."""
        partition = self._by_name.get(key[0], {}).get(key[1])
        if partition is not None:
            partition.log = log
            partition.wake()

    def apply(self, changes: Changes, config: NodeConfig) -> None:
        """Bring the partitions to what the new image says."""
        self._image = changes.after
        defaults_changed = config.topic_defaults != self._config.topic_defaults
        self._config = config
        for topic_id in sorted(changes.topics_deleted):
            self._remove_topic(changes.before.topics.by_id[topic_id].name, topic_id)
        for topic_id, indexes in changes.partitions.items():
            topic = changes.after.topics.by_id[topic_id]
            for index in sorted(indexes):
                self._update(topic.name, topic_id, index, topic.partitions.get(index))
        changed = {resource.name for resource in changes.configs if resource.type == ResourceType.TOPIC}
        for topic_name in self._by_name if defaults_changed else changed:
            self._reconfigure(topic_name)

    def _update(self, topic: str, topic_id: UUID, index: int, record: PartitionRecord | None) -> None:
        node_id = self._config.node_id
        if record is None or node_id not in record.replicas:
            partition = self._by_name.get(topic, {}).pop(index, None)
            if partition is not None:
                self._by_id[topic_id.bytes].pop(index)
                self._remove(partition)
            return
        leadership = Leadership(record.leader, record.leader_epoch, record.replicas, record.isr)
        partition = self._by_name.get(topic, {}).get(index)
        if partition is None:
            log = self._open_log(topic, index, topic_id, directory_of(record, node_id))
            partition = Partition(node_id, topic, index, topic_id, leadership, log)
            self._by_name.setdefault(topic, {})[index] = partition
            self._by_id.setdefault(topic_id.bytes, {})[index] = partition
        partition.take_leadership(leadership)
        if partition.log is not None:
            partition.advance()
        self.on_leadership(partition)

    def _open_log(self, topic: str, index: int, topic_id: UUID, directory: UUID | None) -> Log | None:
        """The log found at start, or a new one; a log of an older topic of that name makes way."""
        key = (topic, index)
        log = self._logs.logs.get(key)
        if log is not None and log.topic_id not in (topic_id, None):
            logger.warning(
                "the log of %s-%d belongs to topic id %s, which is gone: deleting it", topic, index, log.topic_id
            )
            self._logs.delete(key)
            log = None
        try:
            return log or self._logs.create(topic, index, topic_id, directory)
        except DiskFailure as failure:
            logger.error("no log for %s-%d: %s", topic, index, failure)
            return None

    def _remove_topic(self, topic: str, topic_id: UUID) -> None:
        for partition in self._by_name.pop(topic, {}).values():
            self._remove(partition)
        self._by_id.pop(topic_id.bytes, None)

    def _remove(self, partition: Partition) -> None:
        key = (partition.topic, partition.index)
        if partition.log is not None and self._logs.logs.get(key) is partition.log:
            self._logs.delete(key)
        partition.leadership = partition.leadership._replace(leader=-1)
        self.on_removed(partition)
        partition.wake()

    def _reconfigure(self, topic: str) -> None:
        config = self.topic_config(topic)
        for partition in self._by_name.get(topic, {}).values():
            if partition.log is not None:
                partition.log.take_config(config)

    def strays(self) -> list[TopicPartition]:
        """Logs that no topic of the metadata claims, once it is fully known."""
        return [key for key in self._logs.logs if key[1] not in self._by_name.get(key[0], {})]

    # -- failures ------------------------------------------------------------------------------------------------------------

    def fail(self, partition: Partition, failure: DiskFailure) -> None:
        """The directory of this partition's log fails."""
        self._logs.fail_log((partition.topic, partition.index), failure)

    def _directory_failed(self, _directory: LogDir, lost: list[TopicPartition]) -> None:
        for topic, index in lost:
            partition = self._by_name.get(topic, {}).get(index)
            if partition is not None:
                partition.log = None
                self.on_removed(partition)
                partition.wake()
