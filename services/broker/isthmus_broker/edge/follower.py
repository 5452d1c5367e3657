"""Who follows the cluster's metadata on this node, and in which order they are told."""

from isthmus_broker.core.config.node_config import NodeConfig, resolve_node
from isthmus_broker.core.metadata.configs import layers_of
from isthmus_broker.core.metadata.delta import Changes, changes_between
from isthmus_broker.core.metadata.history import Published
from isthmus_broker.core.metadata.image import EMPTY_IMAGE, ResourceType
from isthmus_broker.core.metadata.result import ControllerContext
from isthmus_broker.edge.drive.group_metadata import GroupMetadata
from isthmus_broker.edge.drive.topic_creation import OFFSETS_TOPIC
from isthmus_broker.edge.replica.partition import Partition
from isthmus_broker.edge.services import Services


class MetadataFollower:
    """Brings a node's parts to each committed image. Until the logs are open only the image itself is kept."""

    def __init__(self, services: Services, context: ControllerContext, groups: GroupMetadata) -> None:
        self._services = services
        self._context = context
        self._groups = groups
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
            services.config = self.config_in_force()
        if self._serving:
            self._spread(published.changes)

    def config_in_force(self) -> NodeConfig:
        """The node's settings with what the metadata says about all brokers and about this one."""
        return resolve_node(layers_of(self._services.image, self._context))

    def begin(self) -> None:
        """The logs are open: everybody learns all that is known so far."""
        self._serving = True
        self._spread(changes_between(EMPTY_IMAGE, self._services.image))

    def _spread(self, changes: Changes) -> None:
        services = self._services
        services.replicas.apply(changes, services.config)
        if self._groups.follow(changes, self._offset, services.config):
            services.groups.metadata_changed(self._groups.view)

    def _leadership(self, partition: Partition) -> None:
        if partition.topic == OFFSETS_TOPIC:
            self._services.groups.leadership_changed(partition)

    def _removed(self, partition: Partition) -> None:
        if partition.topic == OFFSETS_TOPIC:
            self._services.groups.resign(partition)
