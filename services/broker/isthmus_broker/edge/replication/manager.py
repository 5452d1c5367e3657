"""The partitions of this node: created, changed and removed according to the cluster's metadata."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol
from uuid import UUID

from isthmus_model.config_resources import ResourceType
from isthmus_model.constraints import constraints_of
from isthmus_model.endpoints import Endpoint
from isthmus_wire.errors import ErrorCode
from isthmus_wire.fast_fields import Topic

from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.config.topic_config import TopicConfig, resolve_topic
from isthmus_broker.core.metadata.delta import Changes
from isthmus_broker.core.metadata.image import EMPTY_IMAGE, ClusterImage, directory_of, is_active
from isthmus_broker.core.metadata.image import Topic as TopicOfImage
from isthmus_broker.core.metadata.links import mirror_of, mirror_role, mirrors_touched
from isthmus_broker.core.metadata.near_replica import NearReplica
from isthmus_broker.core.metadata.schema import BrokerEndpoint, PartitionRecord
from isthmus_broker.core.replica.follower_session import FollowerSessions
from isthmus_broker.core.replica.leader import IsrProposal
from isthmus_broker.core.replica.leadership import IsrRules, Leadership, isr_rules
from isthmus_broker.core.replica.mirror_source import MirrorRole
from isthmus_broker.core.replica.throttles import Throttles
from isthmus_broker.edge.replication.batch_opener import BatchOpener
from isthmus_broker.edge.replication.delayed_requests import DelayedRequests
from isthmus_broker.edge.replication.fetch_settings import FetchSettings, fetch_settings
from isthmus_broker.edge.replication.isr_changes import Controllers, IsrChanges
from isthmus_broker.edge.replication.log_reads import LogReader
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.storage.checkpoints import TopicPartition
from isthmus_broker.edge.storage.files import DiskFailure
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.log_manager import LogManager
from isthmus_broker.edge.storage.recovery import identify

if TYPE_CHECKING:
    from isthmus_broker.edge.replication.fetchers import Fetchers

logger = logging.getLogger(__name__)

RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The only supported replica selector; without one consumers read from leaders."""


class ReplicaEvents(Protocol):
    """Called when replicas of this node change."""

    def leadership_changed(self, partition: Partition) -> None:
        """The partition has another leader or leader epoch, or is new."""
        ...

    def replica_removed(self, partition: Partition) -> None:
        """The replica was deleted, or its log directory failed."""
        ...

    def log_truncated(self, key: TopicPartition, end_offset: int) -> None:
        """A follower truncated its log to `end_offset`."""
        ...


class ReplicaManager:
    """Partitions by topic name and by topic id."""

    def __init__(
        self,
        config: NodeConfig,
        logs: LogManager,
        controllers: Controllers,
        broker_epoch: Callable[[], int],
        events: ReplicaEvents,
    ) -> None:
        self._config = config
        self._logs = logs
        self._clocks = logs.clocks
        self.throttles = Throttles(config)
        self.delayed_requests = DelayedRequests(config.node_id, logs.clocks.monotonic)
        self.followers = FollowerSessions()
        self.opener = BatchOpener()
        self.read_log = LogReader(self.fail)
        self._fetch_settings = fetch_settings(config)
        self._isr_changes = IsrChanges(controllers, config.node_id, broker_epoch, logs.clocks.monotonic)
        self._broker_epoch = broker_epoch
        self._fetchers: Fetchers | None = None
        self._image: ClusterImage = EMPTY_IMAGE
        self._by_name: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[bytes, dict[int, Partition]] = {}
        self._events = events

    def find(self, topic: Topic, index: int) -> Partition | ErrorCode:
        """The partition, or the error if there is none."""
        by_id = isinstance(topic, bytes)
        partitions = self._by_id.get(topic) if isinstance(topic, bytes) else self._by_name.get(topic)
        partition = None if partitions is None else partitions.get(index)
        if partition is not None:
            return partition
        existing = self._existing(topic)
        if existing is None:
            return ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
        return (
            ErrorCode.not_leader_or_follower if index in existing.partitions else ErrorCode.unknown_topic_or_partition
        )

    def find_leader(self, topic: Topic, index: int) -> tuple[int, int] | None:
        """The leader and the leader epoch of a partition that has no replica here; None if it does not exist."""
        existing = self._existing(topic)
        partition = None if existing is None else existing.partitions.get(index)
        return None if partition is None else (partition.leader, partition.leader_epoch)

    def _existing(self, topic: Topic) -> TopicOfImage | None:
        topics = self._image.topics
        return topics.by_id.get(UUID(bytes=topic)) if isinstance(topic, bytes) else topics.named(topic)

    def partitions(self) -> Iterator[Partition]:
        """All partitions of this node."""
        for partitions in self._by_name.values():
            yield from partitions.values()

    def topic_config(self, topic: str) -> TopicConfig:
        """The current settings of a topic."""
        config = resolve_topic(self._image.config(ResourceType.TOPIC, topic), self._config.topic_defaults)
        return config if mirror_of(self._image, topic) is None else replace(config, is_mirrored=True)

    # -- following the metadata ----------------------------------------------------------------------------------------------

    def know(self, image: ClusterImage, config: NodeConfig) -> None:
        """Set the metadata and settings with which the logs are opened."""
        self._image = image
        self._config = config

    def log_moved(self, key: TopicPartition, log: Log) -> None:
        """Use the log of a partition that was moved to another directory."""
        partition = self._by_name.get(key[0], {}).get(key[1])
        if partition is not None:
            partition.log = log
            partition.wake()

    def apply(self, changes: Changes, config: NodeConfig) -> None:
        """Apply changed metadata to the partitions."""
        self._image = changes.after
        self.delayed_requests.metadata_changed(changes.after)
        defaults_changed = config.topic_defaults != self._config.topic_defaults
        if config is not self._config:
            self._config = config
            self._fetch_settings = fetch_settings(config)
            self.throttles.apply_config(config)
        for topic_id in sorted(changes.topics_deleted):
            self._remove_topic(changes.before.topics.by_id[topic_id].name, topic_id)
        self._update_mirror_roles(
            changes
        )  # before leadership: a leader of a mirror topic does not record its epoch in the log
        for topic_id, indexes in changes.partitions.items():
            topic = changes.after.topics.by_id[topic_id]
            role = mirror_role(changes.after, topic.name)
            for index in sorted(indexes):
                self._update(topic.name, topic_id, index, topic.partitions.get(index), role)
        changed = {resource.name for resource in changes.configs if resource.type == ResourceType.TOPIC}
        for topic_name in self._by_name if defaults_changed else changed:
            self._reconfigure(topic_name)

    def _update_mirror_roles(self, changes: Changes) -> None:
        touched = {topic for resource in changes.configs for topic in mirrors_touched(changes.after, resource)}
        for topic in sorted(touched):
            role = mirror_role(changes.after, topic)
            for partition in self._by_name.get(topic, {}).values():
                partition.mirror = role

    def _update(
        self, topic: str, topic_id: UUID, index: int, record: PartitionRecord | None, role: MirrorRole | None
    ) -> None:
        node_id = self._config.node_id
        if record is None or node_id not in record.replicas:
            partition = self._by_name.get(topic, {}).pop(index, None)
            if partition is not None:
                self._by_id[topic_id.bytes].pop(index)
                self._remove(partition)
            return
        partition = self._by_name.get(topic, {}).get(index)
        if partition is None:
            log = self._open_log(topic, index, topic_id, directory_of(record, node_id))
            partition = Partition(node_id, topic, index, topic_id, log, self._active_epoch, self)
            self._by_name.setdefault(topic, {})[index] = partition
            self._by_id.setdefault(topic_id.bytes, {})[index] = partition
        partition.mirror = role
        backoff_ms = self._fetch_settings.backoff_ms
        try:
            partition.take_leadership(
                leadership_of(record), self._isr_rules(topic, partition), backoff_ms, self._clocks.now()
            )
        except DiskFailure as failure:
            self.fail(partition, failure)
        self._fetch(partition)
        self._events.leadership_changed(partition)

    def _isr_rules(self, topic: str, partition: Partition) -> IsrRules:
        min_isr = 1 if partition.log is None else partition.log.config.min_insync_replicas
        constraints = constraints_of(self._image.config(ResourceType.TOPIC, topic))
        return isr_rules(constraints, lag_max_ms=self._config.settings.replica_lag_time_max_ms, min_isr=min_isr)

    def _open_log(self, topic: str, index: int, topic_id: UUID, directory: UUID | None) -> Log | None:
        """The log that was opened at start, or a new one; deletes the log of an older topic of that name."""
        key = (topic, index)
        log = self._logs.logs.get(key)
        if log is not None and log.topic_id not in (topic_id, None):
            logger.warning(
                "the log of %s-%d belongs to a deleted topic (id %s): deleting it", topic, index, log.topic_id
            )
            self._logs.delete(key)
            log = None
        try:
            if log is None:
                return self._logs.create(topic, index, topic_id, directory)
            if log.topic_id is None:  # or it would be taken for the log of the next topic of that name
                identify(log, topic_id)
            return log
        except DiskFailure as failure:
            logger.error("cannot create the log of %s-%d, or record its topic id: %s", topic, index, failure)
            if log is not None:
                self._logs.fail_log(key, failure)
            return None

    def _remove_topic(self, topic: str, topic_id: UUID) -> None:
        for partition in self._by_name.pop(topic, {}).values():
            self._remove(partition)
        self._by_id.pop(topic_id.bytes, None)

    def _remove(self, partition: Partition) -> None:
        key = (partition.topic, partition.index)
        if partition.log is not None and self._logs.logs.get(key) is partition.log:
            self._logs.delete(key)
        partition.remove()
        self._fetch(partition)
        self._events.replica_removed(partition)

    def _reconfigure(self, topic: str) -> None:
        config = self.topic_config(topic)
        for partition in self._by_name.get(topic, {}).values():
            if partition.log is not None:
                partition.log.apply_config(config)
                partition.update_isr_rules(self._isr_rules(topic, partition), self._clocks.monotonic())

    def strays(self) -> list[TopicPartition]:
        """Logs that belong to no topic; valid only when the metadata is complete."""
        return [key for key in self._logs.logs if key[1] not in self._by_name.get(key[0], {})]

    def _fetch(self, partition: Partition) -> None:
        """Fetch the partition from its current leader, or stop."""
        if self._fetchers is None:
            if partition.follower is None:
                return
            # Imported here because it needs the client, which a node without followers does not.
            from isthmus_broker.edge.replication.fetchers import FetcherContext, Fetchers

            context = FetcherContext(
                self._config.node_id,
                self._broker_epoch,
                self.address_of,
                self._settings,
                self.throttles,
                self.fail,
                self.delayed_requests,
                self._clocks.monotonic,
            )
            self._fetchers = Fetchers(context)
        self._fetchers.follow(partition)

    # -- events of partitions ------------------------------------------------------------------------------------------------

    def isr_proposed(self, partition: Partition, proposal: IsrProposal) -> None:
        """Send the proposal to the controller."""
        self._isr_changes.propose(partition, proposal)

    def truncated(self, partition: Partition, end_offset: int) -> None:
        """Report that a follower truncated its log."""
        self._events.log_truncated((partition.topic, partition.index), end_offset)

    # -- other brokers -------------------------------------------------------------------------------------------------------

    def check_isr(self) -> None:
        """Propose to remove replicas that have fallen behind; called periodically."""
        now = self._clocks.monotonic()
        for partition in self.partitions():
            partition.propose(now)

    def preference(self, rack: str, listener: str) -> NearReplica:
        """The choice of replicas for consumers of that rack and listener."""
        return NearReplica(self._image, self._selects_by_rack, rack, listener)

    def endpoints_of(self, brokers: Iterable[int], listener: str) -> tuple[tuple[int, str, int, str | None], ...]:
        """Id, host, port and rack of the brokers that clients of a listener can reach."""
        endpoints = ((broker, self._endpoint_of(broker, listener)) for broker in brokers)
        return tuple(
            (broker, endpoint.host, endpoint.port, self._image.brokers[broker].rack)
            for broker, endpoint in endpoints
            if endpoint is not None
        )

    def stop(self) -> None:
        """Stop fetching and proposing."""
        if self._fetchers is not None:
            self._fetchers.stop()
        self._isr_changes.stop()

    @property
    def _selects_by_rack(self) -> bool:
        return self._config.values["replica.selector.class"] == RACK_AWARE_SELECTOR

    def _settings(self) -> FetchSettings:
        return self._fetch_settings

    def _active_epoch(self, broker_id: int) -> int | None:
        broker = self._image.brokers.get(broker_id)
        return broker.broker_epoch if broker is not None and is_active(broker) else None

    def address_of(self, broker_id: int) -> Endpoint | None:
        """The endpoint of a broker for other brokers; None if it is not registered, or fenced."""
        endpoint = self._endpoint_of(broker_id, self._config.listeners.inter_broker)
        return None if endpoint is None else Endpoint(endpoint.host, endpoint.port)

    def _endpoint_of(self, broker_id: int, listener: str) -> BrokerEndpoint | None:
        broker = self._image.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return None
        return next((endpoint for endpoint in broker.endpoints if endpoint.name == listener), None)

    # -- failures ------------------------------------------------------------------------------------------------------------

    def fail(self, partition: Partition, failure: DiskFailure) -> None:
        """Take the directory of this partition's log offline: it has failed."""
        self._logs.fail_log((partition.topic, partition.index), failure)

    def directory_failed(self, lost: Iterable[TopicPartition]) -> None:
        """Take these partitions offline until the node restarts."""
        for topic, index in lost:
            partition = self._by_name.get(topic, {}).get(index)
            if partition is not None:
                partition.go_offline()
                self._fetch(partition)
                self._events.replica_removed(partition)
                partition.wake()


def leadership_of(record: PartitionRecord) -> Leadership:
    """The leadership in a partition's record."""
    return Leadership(
        record.leader,
        record.leader_epoch,
        record.replicas,
        record.isr,
        record.partition_epoch,
        record.observers or (),
        recovering=bool(record.leader_recovery_state),
    )
