"""Publishes each committed image of the cluster's metadata to the parts of this node, in a fixed order."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from isthmus_model.config_resources import ResourceType

from isthmus_broker.core.config.node_config import NodeConfig, resolve_node
from isthmus_broker.core.config.values import ConfigRefused
from isthmus_broker.core.metadata.configs import layers_of
from isthmus_broker.core.metadata.delta import Changes
from isthmus_broker.core.metadata.history import Published
from isthmus_broker.edge.requests.services import NodeServices

logger = logging.getLogger(__name__)


class MetadataPublisher:
    """Updates the services of the request handlers, then the settings in force, then the parts that apply changes."""

    def __init__(
        self,
        services: NodeServices,
        apply_config: Callable[[NodeConfig], None],
        apply_changes: Callable[[Changes], None],
    ) -> None:
        self._services = services
        self._apply_config = apply_config
        self._apply_changes = apply_changes
        self._advanced = asyncio.Event()
        self.offset = -1

    def publish(self, published: Published) -> None:
        """Publish a new committed image."""
        services = self._services
        services.image = published.image
        self.offset = published.offset
        if published.changes.features:
            services.features_epoch = published.offset
        if any(resource.type == ResourceType.BROKER for resource in published.changes.configs):
            self.take_config()
        if published.changes.after is not published.changes.before:
            self._apply_changes(published.changes)
        self._advanced.set()

    async def wait_for(self, offset: int) -> None:
        """Wait until the image includes this offset of the metadata log."""
        while self.offset < offset:
            self._advanced.clear()
            await self._advanced.wait()

    def take_config(self) -> None:
        """Apply the dynamic settings of all brokers and of this one on top of the node's own file.

        An invalid combination (the file may have changed since a dynamic setting was made) leaves the settings as they were.
        """
        services = self._services
        try:
            config = resolve_node(layers_of(services.image, services.context))
        except ConfigRefused as refusal:
            logger.error("ignoring dynamic settings: %s", refusal)
            return
        services.config = config
        services.context = replace(services.context, node=config)
        self._apply_config(config)
