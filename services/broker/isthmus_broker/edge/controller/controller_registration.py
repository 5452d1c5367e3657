"""The registration of this controller in the metadata log: its endpoints and supported features (KIP-919)."""

import asyncio
import logging
import socket
from typing import Final
from uuid import UUID

from isthmus_model.endpoints import SecurityProtocol
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from kio.schema.controller_registration.v0.request import ControllerRegistrationRequest, Feature, Listener

from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.metadata.delta import Changes
from isthmus_broker.core.metadata.features import SUPPORTED
from isthmus_broker.edge.controller.controller_channel import ControllerChannel, ControllerUnreachable

logger = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 0.1
_RETRY_SECONDS_MAX: Final = 120.0


class ControllerRegistration:
    """Registers this controller, and again whenever the metadata log has no registration of this process.

    A registration can be replaced after it was made: a request of the node's previous process, still on its way, may be appended later.
    """

    def __init__(self, request: ControllerRegistrationRequest, channel: ControllerChannel) -> None:
        self._request = request
        self._channel = channel
        self._is_registered = False
        self._changed = asyncio.Event()

    def metadata_changed(self, changes: Changes) -> None:
        """Look for this process's registration in a new image. There is none to make before the cluster has finalised its features."""
        controller_id = self._request.controller_id
        if changes.features or controller_id in changes.controllers:
            registered = changes.after.controllers.get(controller_id)
            self._is_registered = registered is not None and registered.incarnation_id == self._request.incarnation_id
            self._changed.set()

    async def run(self) -> None:
        """Send registrations as long as the node runs; the pauses between failed ones double."""
        failures = 0
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._is_registered or await self._send():
                failures = 0
                continue
            await asyncio.sleep(min(_RETRY_SECONDS * 2**failures, _RETRY_SECONDS_MAX))
            failures += 1
            self._changed.set()

    async def _send(self) -> bool:
        """Whether the active controller accepted the registration; the metadata log then contains it."""
        try:
            response = await self._channel.send(self._request)
        except ControllerUnreachable as problem:
            logger.info("this controller cannot register: %s", problem)
            return False
        if response.error_code is not ErrorCode.none:
            logger.warning("the active controller refused this controller's registration: %s", response.error_code.name)
        return response.error_code is ErrorCode.none


def controller_registration(config: NodeConfig, incarnation_id: UUID) -> ControllerRegistrationRequest:
    """The registration of this controller."""
    return entity(
        ControllerRegistrationRequest,
        controller_id=config.node_id,
        incarnation_id=incarnation_id,
        zk_migration_ready=False,
        listeners=tuple(
            entity(
                Listener,
                name=listener.name,
                host=listener.host or socket.getfqdn(),
                port=listener.port,
                security_protocol=SecurityProtocol.PLAINTEXT,
            )
            for listener in config.listeners.advertised_to_controllers
        ),
        features=tuple(
            entity(Feature, name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, (lowest, highest) in sorted(SUPPORTED.items())
        ),
    )
