"""The broker role of a node: its logs, partitions and groups, and its registration. A node that is only a controller has none."""

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from isthmus_model.clocks import Clocks
from isthmus_model.endpoints import Endpoint

from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.config.topic_config import TopicConfig
from isthmus_broker.core.metadata.delta import Changes, changes_between
from isthmus_broker.core.metadata.image import EMPTY_IMAGE
from isthmus_broker.core.metadata.result import ControllerContext
from isthmus_broker.core.replica.fetch_session import FetchSessions
from isthmus_broker.core.security.authorizer import ALLOW_ALL
from isthmus_broker.edge.assembly.coordinators import Coordinators
from isthmus_broker.edge.assembly.lifecycle import BrokerLifecycle
from isthmus_broker.edge.assembly.maintenance import Maintenance
from isthmus_broker.edge.assembly.metadata_publisher import MetadataPublisher
from isthmus_broker.edge.controller.metadata_quorum import Quorum
from isthmus_broker.edge.controller.producer_ids import ProducerIds
from isthmus_broker.edge.controller.replica_reports import ReplicaReports
from isthmus_broker.edge.controller.streams_topics import StreamsTopics
from isthmus_broker.edge.controller.topic_creation import TopicCreation
from isthmus_broker.edge.coordinators.counts import GroupCounts, TransactionCounts
from isthmus_broker.edge.replication.manager import ReplicaManager
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.requests.recently_fenced import RecentlyFenced
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.storage.checkpoints import TopicPartition
from isthmus_broker.edge.storage.cleaner import Uncleanable
from isthmus_broker.edge.storage.files import FilePool
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.log_dir import LogDir
from isthmus_broker.edge.storage.log_manager import LogManager, NoDirectoryLeft
from isthmus_broker.edge.storage.log_mover import LogMover

if TYPE_CHECKING:
    from isthmus_broker.edge.tier.counts import TierCounts
    from isthmus_broker.edge.tier.tier import Tier

logger = logging.getLogger(__name__)


class Broker:
    """Constructed before the metadata is available; `start` when it arrives, `stop` in two steps around the closing of the listeners."""

    def __init__(
        self,
        config: NodeConfig,
        context: ControllerContext,
        quorum: Quorum,
        directories: list[LogDir],
        pool: FilePool,
        on_fault: Callable[[BaseException], None],
        clocks: Clocks,
    ) -> None:
        self._on_fault = on_fault
        self._clocks = clocks
        self._config = config
        self._quorum = quorum
        log_directories = _log_directories(config, directories)
        self._lifecycle = BrokerLifecycle(
            quorum.channel(),
            self._context,
            directories,
            last_clean_epoch(log_directories),
            lambda: quorum.controller.history.committed_offset,
            on_fault,
        )
        logs = LogManager(log_directories, pool, self._topic_config, self, clocks)
        channel = quorum.channel()
        replicas = ReplicaManager(config, logs, channel, lambda: self._lifecycle.epoch, self)
        producer_ids = ProducerIds(channel, self._context, lambda: self._lifecycle.epoch)
        self._coordinators = Coordinators(config, clocks, replicas, producer_ids, lambda: self.services.image)
        self.services = services = self._make_services(context, logs, replicas, producer_ids)
        self._reports = ReplicaReports(services.controller, self._context, services.logs, lambda: self._lifecycle.epoch)
        self._publisher: MetadataPublisher | None = None  # until the logs are open
        self._maintenance = Maintenance(lambda: services.config, services.logs, services.replicas)
        self._tier = self._make_tier(context.cluster_id) if config.settings.remote_log_storage_system_enable else None

    def _make_services(
        self, context: ControllerContext, logs: LogManager, replicas: ReplicaManager, producer_ids: ProducerIds
    ) -> Services:
        config, channel, coordinators = self._config, self._quorum.channel(), self._coordinators
        return Services(
            cluster_id=context.cluster_id,
            config=config,
            context=context,
            image=EMPTY_IMAGE,
            features_epoch=-1,
            quorum=self._quorum,
            controller=channel,
            authorizer=ALLOW_ALL,
            clocks=self._clocks,
            logs=logs,
            mover=LogMover(logs, self._move_limit, self._log_moved),
            replicas=replicas,
            recently_fenced=RecentlyFenced(self._clocks.monotonic),
            sessions=FetchSessions(config.settings.max_incremental_fetch_session_cache_slots, random.SystemRandom()),
            groups=coordinators.groups,
            transactions=coordinators.transactions,
            verifier=coordinators.verifier,
            markers=coordinators.markers,
            topics=TopicCreation(channel, self._context),
            streams_topics=StreamsTopics(channel, self._clocks.monotonic),
            producer_ids=producer_ids,
        )

    def _make_tier(self, cluster_id: str) -> "Tier":
        # Imported here because it needs the client and the stores, which a node without tiered storage does not.
        from isthmus_broker.edge.tier.destination import open_destination
        from isthmus_broker.edge.tier.tier import Tier

        services = self.services
        destination = open_destination(self._config, cluster_id)
        return Tier(lambda: services.config, services.replicas, destination, self._clocks)

    async def start(self, publisher: MetadataPublisher, ports: Mapping[str, int]) -> None:
        """Register, catch up with the metadata, and open the logs.

        No image older than this registration is applied to the logs: it may name topics that were deleted and created again since.
        """
        services = self.services
        await self._lifecycle.register(ports)
        await publisher.wait_for(self._lifecycle.epoch)
        publisher.take_config()
        opened_with = services.image
        services.replicas.know(opened_with, services.config)
        await services.logs.load(services.config.settings.num_recovery_threads_per_data_dir, self._topic_id)
        self._publisher = publisher
        self.apply_changes(changes_between(EMPTY_IMAGE, opened_with))
        self.apply_changes(changes_between(opened_with, services.image))  # what changed meanwhile
        for topic, index in services.replicas.strays():
            logger.warning("%s-%d belongs to no topic: its log is kept, but not used", topic, index)

    async def serve(self) -> None:
        """Get unfenced, once clients can connect."""
        await self._lifecycle.serve()

    def begin_maintenance(self, endpoint: Endpoint) -> None:
        """Start the background work, once clients are served at this endpoint."""
        self.services.mover.resume()
        self._maintenance.start()
        if self._tier is not None:
            self._tier.start(endpoint, self._on_fault)

    def uncleanable(self) -> Mapping[Path, Uncleanable]:
        """The logs that cannot be cleaned, by directory."""
        return self._maintenance.uncleanable()

    def transaction_counts(self) -> TransactionCounts:
        """The transactions whose coordinator is this broker."""
        return self._coordinators.transaction_counts()

    def tier_counts(self) -> "TierCounts | None":
        """What this broker does in the tier; None without tiered storage."""
        return None if self._tier is None else self._tier.counts

    def group_counts(self) -> GroupCounts:
        """The groups whose coordinator is this broker."""
        return self._coordinators.group_counts()

    async def leave(self) -> None:
        """Move leadership to other brokers (controlled shutdown)."""
        await self._lifecycle.leave()

    def stop(self) -> None:
        """Respond to pending requests and close the logs cleanly."""
        if self._tier is not None:
            self._tier.stop()
        self._maintenance.stop()
        self._lifecycle.stop()
        self._coordinators.stop()
        self.services.mover.stop()
        self._reports.stop()
        self.services.replicas.stop()
        self.services.logs.close(self._lifecycle.epoch)

    # -- callbacks of the parts ----------------------------------------------------------------------------------------------

    def quorum_leader_elected(self) -> None:
        """Retry at once the work that waited for an active controller."""
        self._lifecycle.wake()

    def apply_changes(self, changes: Changes) -> None:
        """Apply changes of the metadata; before the logs are open they only count as part of the first image."""
        services, publisher = self.services, self._publisher
        if publisher is None:
            return
        services.recently_fenced.changed(changes)
        services.replicas.apply(changes, services.config)
        if self._tier is not None:
            self._tier.apply(changes)
        self._coordinators.apply(changes, publisher.offset, services.config)
        self._reports.update(services.image)

    def leadership_changed(self, partition: Partition) -> None:
        """Load or unload the partition's coordinator."""
        self._coordinators.leadership_changed(partition)

    def replica_removed(self, partition: Partition) -> None:
        """Unload the partition's coordinator."""
        self._coordinators.replica_removed(partition)

    def log_truncated(self, key: TopicPartition, end_offset: int) -> None:
        """Truncate the copy of a log that moves to another directory."""
        self.services.mover.truncated(key, end_offset)

    def directory_failed(self, lost: Sequence[TopicPartition]) -> None:
        """Take the replicas in it offline."""
        self.services.replicas.directory_failed(lost)

    def all_directories_failed(self, error: NoDirectoryLeft) -> None:
        """End the node."""
        self._on_fault(error)

    def _context(self) -> ControllerContext:
        return self.services.context

    def _topic_id(self, topic: str) -> UUID | None:
        current = self.services.image.topics.named(topic)
        return None if current is None else current.id

    def _topic_config(self, topic: str) -> TopicConfig:
        return self.services.replicas.topic_config(topic)

    def _log_moved(self, key: TopicPartition, log: Log) -> None:
        self.services.replicas.log_moved(key, log)

    def _move_limit(self) -> float:
        limit = self.services.config.values["replica.alter.log.dirs.io.max.bytes.per.second"]
        assert isinstance(limit, int | float)
        return limit


def _log_directories(config: NodeConfig, directories: list[LogDir]) -> list[LogDir]:
    named = {Path(name).absolute() for name in config.log_dirs}
    return [directory for directory in directories if directory.path in named]


def last_clean_epoch(directories: list[LogDir]) -> int:
    """The broker's previous epoch, if every directory records a clean shutdown; else -1, and its replicas are suspect."""
    epochs = {directory.last_broker_epoch if directory.was_clean else -1 for directory in directories}
    return epochs.pop() if len(epochs) == 1 else -1
