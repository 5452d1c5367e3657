"""Who follows the cluster's metadata on this node, and in which order they are told."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from isthmus_broker.core.config.node_config import NodeConfig, resolve_node
from isthmus_broker.core.config.values import ConfigRefused
from isthmus_broker.core.metadata.configs import layers_of
from isthmus_broker.core.metadata.delta import Changes
from isthmus_broker.core.metadata.history import Published
from isthmus_broker.core.metadata.image import ResourceType
from isthmus_broker.edge.requests.services import NodeServices

logger = logging.getLogger(__name__)


class MetadataFollower:
    """Brings a node to each committed image: first what handlers read, then the settings in force, then whoever follows the changes."""

    def __init__(self, services: NodeServices) -> None:
        self._services = services
        self._advanced = asyncio.Event()
        self.offset = -1
        self.on_config: Callable[[NodeConfig], None] = lambda _config: None
        self.on_changes: Callable[[Changes], None] = lambda _changes: None

    def published(self, published: Published) -> None:
        """A new committed image."""
        services = self._services
        services.image = published.image
        self.offset = published.offset
        if published.changes.features:
            services.features_epoch = published.offset
        if any(resource.type == ResourceType.BROKER for resource in published.changes.configs):
            self.take_config()
        self.on_changes(published.changes)
        self._advanced.set()

    async def reaches(self, offset: int) -> None:
        """Waits until the image holds everything up to this offset."""
        while self.offset < offset:
            self._advanced.clear()
            await self._advanced.wait()

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
