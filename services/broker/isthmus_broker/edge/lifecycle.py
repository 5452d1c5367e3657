"""This node's broker in the eyes of the controller: registered, unfenced when its logs are open, fenced before it stops."""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
from kio.schema.broker_heartbeat.v2.response import BrokerHeartbeatResponse
from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest, Feature
from kio.schema.broker_registration.v4.request import Listener as RegisteredListener

from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.metadata.brokers import Sessions, broker_heartbeat, register_broker
from isthmus_broker.core.metadata.features import SUPPORTED
from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.metadata.result import ControllerContext, Refused, Result, entity
from isthmus_broker.edge.clock import now_ms
from isthmus_broker.edge.disk.log_dir import LogDir
from isthmus_broker.edge.drive.controller import Controller, NotController
from isthmus_broker.edge.format import random_uuid

logger = logging.getLogger(__name__)

PLAINTEXT: Final = 0
CONTROLLED_SHUTDOWN_ROUNDS: Final = 50
"""Heartbeats sent while waiting for leave to stop; then the broker stops all the same, and the session timeout does the rest."""
_ROUND_SECONDS: Final = 0.02


class RefusedByController(Exception):
    """The cluster's metadata does not let this node be a broker of it, for example because it uses features this release lacks."""


class BrokerLifecycle:
    """Registration and heartbeats with the controller in this process."""

    def __init__(
        self,
        controller: Controller,
        context: Callable[[], ControllerContext],
        directories: list[LogDir],
        previous_epoch: int,
    ) -> None:
        self._controller = controller
        self._context = context
        self._directories = directories
        self._previous_epoch = previous_epoch
        self._incarnation = random_uuid()
        self.epoch = -1
        self._heart: asyncio.Task[None] | None = None
        self.sessions: Sessions | None = None

    def controller_changed(self, leads: bool) -> None:
        """A controller that becomes active gives every broker a fresh session, but for the last life of this very process."""
        if not leads:
            self.sessions = None
            return
        timeout = self._context().node.settings.broker_session_timeout_ms
        self.sessions = Sessions(self._controller.history.latest, timeout, now_ms())
        self.sessions.forget(self._context().node.node_id)

    async def register(self, ports: Mapping[str, int]) -> None:
        """Announce this process, with the ports its listeners really have; it is fenced until it serves."""
        request = self._registration(self._context().node, ports)
        try:
            response = await self._controller.run(
                lambda image: register_broker(
                    image, request, self._context(), self._live_sessions(), self._next_offset(), now_ms()
                )
            )
        except Refused as refusal:
            raise RefusedByController(
                f"the controller does not take this node as a broker: {refusal.message}"
            ) from refusal
        self.epoch = int(response.broker_epoch)

    async def serve(self) -> None:
        """Ask to be unfenced, and keep telling the controller that this broker lives."""
        await self._heartbeat(want_fence=False, want_shut_down=False)
        self._heart = asyncio.get_running_loop().create_task(self._beat())

    async def leave(self) -> None:
        """Hand over what this broker leads, and be fenced."""
        if self._heart is None:
            return
        self._heart.cancel()
        self._heart = None
        for _ in range(CONTROLLED_SHUTDOWN_ROUNDS):
            try:
                response = await self._heartbeat(want_fence=False, want_shut_down=True)
            except (NotController, Refused) as refusal:
                logger.warning("stopping without the controller's leave: %s", refusal)
                return
            if response.should_shut_down:
                return
            await asyncio.sleep(_ROUND_SECONDS)
        logger.warning("the controller gave no leave to stop; stopping all the same")

    async def _beat(self) -> None:
        interval = self._context().node.settings.broker_heartbeat_interval_ms / 1000
        while True:
            await asyncio.sleep(interval)
            try:
                await self._heartbeat(want_fence=False, want_shut_down=False)
            except (NotController, Refused) as refusal:
                logger.warning("a heartbeat was refused: %s", refusal)

    async def _heartbeat(self, *, want_fence: bool, want_shut_down: bool) -> BrokerHeartbeatResponse:
        offline = tuple(d.directory_id for d in self._directories if not d.online and d.directory_id.int)

        def operation(image: ClusterImage) -> Result[BrokerHeartbeatResponse]:
            request = entity(
                BrokerHeartbeatRequest,
                broker_id=self._context().node.node_id,
                broker_epoch=self.epoch,
                current_metadata_offset=self._controller.history.committed_offset,
                want_fence=want_fence,
                want_shut_down=want_shut_down,
                offline_log_dirs=offline,
            )
            return broker_heartbeat(
                image, request, self._context(), self._live_sessions(), self._next_offset(), now_ms()
            )

        return await self._controller.run(operation)

    def _live_sessions(self) -> Sessions:
        if self.sessions is None:
            raise NotController
        return self.sessions

    def _next_offset(self) -> int:
        assert self._controller.raft is not None
        return self._controller.raft.core.log_end

    def _registration(self, node: NodeConfig, ports: Mapping[str, int]) -> BrokerRegistrationRequest:
        listeners = tuple(
            entity(
                RegisteredListener,
                name=listener.name,
                host=listener.host or socket.getfqdn(),
                port=listener.port or ports[listener.name],
                security_protocol=PLAINTEXT,
            )
            for listener in node.listeners.advertised
        )
        features = tuple(
            entity(Feature, name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, (lowest, highest) in sorted(SUPPORTED.items())
        )
        return entity(
            BrokerRegistrationRequest,
            broker_id=node.node_id,
            cluster_id=self._context().cluster_id,
            incarnation_id=self._incarnation,
            listeners=listeners,
            features=features,
            rack=node.settings.broker_rack,
            is_migrating_zk_broker=False,
            log_dirs=self._directory_ids(),
            previous_broker_epoch=self._previous_epoch,
        )

    def _directory_ids(self) -> tuple[UUID, ...]:
        return tuple(directory.directory_id for directory in self._directories if directory.online)
