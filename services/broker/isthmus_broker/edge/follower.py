"""Who follows the cluster's metadata on this node, and in which order they are told."""

import logging
from collections.abc import Callable
from dataclasses import replace

from isthmus_broker.core.config.node_config import NodeConfig, resolve_node
from isthmus_broker.core.config.values import ConfigRefused
from isthmus_broker.core.metadata.configs import layers_of
from isthmus_broker.core.metadata.delta import Changes, changes_between
from isthmus_broker.core.metadata.history import Published
from isthmus_broker.core.metadata.image import EMPTY_IMAGE, ResourceType
from isthmus_broker.edge.drive.group_metadata import GroupMetadata
from isthmus_broker.edge.drive.replica_reports import ReplicaReports
from isthmus_broker.edge.drive.topic_creation import OFFSETS_TOPIC
from isthmus_broker.edge.replica.partition import Partition
from isthmus_broker.edge.services import Services

logger = logging.getLogger(__name__)


class MetadataFollower:
    """Brings a node's parts to each committed image. Until the logs are open only the image itself is kept."""

    def __init__(self, services: Services, groups: GroupMetadata, reports: ReplicaReports) -> None:
        self._services = services
        self._groups = groups
        self._reports = reports
        self.on_config: Callable[[NodeConfig], None] = lambda _config: None
        self._serving = False
        self._offset = -1
        services.replicas.on_leadership = self._leadership
        services.replicas.on_removed = self._removed

    def published(self, published: Published) -> None:
        """A new committed image."""
        services = self._services
        services.image = published.image
        self._offset = published.offset
        if published.changes.features:
            services.features_epoch = published.offset
        if any(resource.type == ResourceType.BROKER for resource in published.changes.configs):
            self.take_config()
        if self._serving:
            self._spread(published.changes)

    def take_config(self) -> None:
        """Obey what the metadata says about all brokers and about this one, over the node's own settings.

        What cannot stand together (the file may have changed since a dynamic setting was made) leaves everything as it was.
        """
        services = self._services
        try:
            config = resolve_node(layers_of(services.image, services.context))
        except ConfigRefused as refusal:
            logger.error("dynamic settings are not used: %s", refusal)
            return
        services.config = config
        services.context = replace(services.context, node=config)
        self.on_config(config)

    def begin(self) -> None:
        """The logs are open: everybody learns all that is known so far."""
        self._serving = True
        self._spread(changes_between(EMPTY_IMAGE, self._services.image))

    def _spread(self, changes: Changes) -> None:
        services = self._services
        services.replicas.apply(changes, services.config)
        if self._groups.follow(changes, self._offset, services.config):
            services.groups.metadata_changed(self._groups.view)
        self._reports.follow(services.image)

    def _leadership(self, partition: Partition) -> None:
        if partition.topic == OFFSETS_TOPIC:
            self._services.groups.leadership_changed(partition)

    def _removed(self, partition: Partition) -> None:
        if partition.topic == OFFSETS_TOPIC:
            self._services.groups.resign(partition)
