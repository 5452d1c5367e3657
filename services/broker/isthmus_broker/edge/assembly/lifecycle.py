"""The registration of this node's broker: registered at the start, unfenced when its logs are open, fenced before it stops."""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from uuid import UUID

from isthmus_model.endpoints import SecurityProtocol
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
from kio.schema.broker_heartbeat.v2.response import BrokerHeartbeatResponse
from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest, Feature
from kio.schema.broker_registration.v4.request import Listener as RegisteredListener
from kio.schema.broker_registration.v4.response import BrokerRegistrationResponse

from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.metadata.features import SUPPORTED
from isthmus_broker.core.metadata.result import ControllerContext
from isthmus_broker.edge.assembly.format import random_uuid
from isthmus_broker.edge.background import background
from isthmus_broker.edge.controller.controller_channel import ControllerChannel, ControllerUnreachable
from isthmus_broker.edge.storage.log_dir import LogDir

logger = logging.getLogger(__name__)

SHUTDOWN_SECONDS: Final = 15.0
"""How long a stopping broker waits for the controlled shutdown to complete; then it stops anyway."""
FAREWELL_SECONDS: Final = 2.0
"""How long a stopping broker looks for an active controller."""
_ROUND_SECONDS: Final = 0.02
_RETRY_SECONDS: Final = 0.1
_WAITING: Final = ErrorCode.duplicate_broker_registration
_FORGOTTEN: Final = (ErrorCode.stale_broker_epoch, ErrorCode.broker_id_not_registered)
_WHY: Final = {
    ErrorCode.duplicate_broker_registration: "another broker with this node.id is alive",
    ErrorCode.inconsistent_cluster_id: "it belongs to another cluster",
    ErrorCode.invalid_registration: "its log directories or its registration do not fit the cluster",
    ErrorCode.unsupported_version: "the cluster uses features that this release does not support",
}


class RefusedByController(Exception):
    """The cluster refuses this node as a broker, for example because it uses features that this release does not support."""


class DirectoryNotReported(Exception):
    """A log directory failed, and could not be reported to the controller within log.dir.failure.timeout.ms."""


class BrokerLifecycle:
    """Registration and heartbeats, over a channel of their own."""

    def __init__(
        self,
        channel: ControllerChannel,
        context: Callable[[], ControllerContext],
        directories: list[LogDir],
        previous_epoch: int,
        metadata_offset: Callable[[], int],
        on_fault: Callable[[BaseException], None],
    ) -> None:
        """`metadata_offset` is the offset up to which this node has applied the metadata."""
        self._on_fault = on_fault
        self._reported: frozenset[UUID] = frozenset()  # failed directories that the controller knows of
        self._unreported_since: float | None = None
        self._channel = channel
        self._context = context
        self._directories = directories
        self._previous_epoch = previous_epoch
        self._metadata_offset = metadata_offset
        self._incarnation = random_uuid()
        self._ports: Mapping[str, int] = {}
        self._heart: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._has_cordoned = False
        self.epoch = -1

    async def register(self, ports: Mapping[str, int]) -> None:
        """Register this process, with the actual ports of its listeners; it is fenced until it serves.

        The session of this broker's previous life may have to time out first.
        """
        self._ports = ports
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._context().node.settings.initial_broker_registration_timeout_ms / 1000
        while True:
            try:
                error = await self._register_once(max(deadline - loop.time(), _RETRY_SECONDS))
            except ControllerUnreachable as problem:
                raise RefusedByController(
                    f"no active controller responded within initial.broker.registration.timeout.ms: {problem}"
                ) from problem
            if error is ErrorCode.none:
                return
            if error is not _WAITING or loop.time() > deadline:
                why = _WHY.get(error, error.name)
                raise RefusedByController(f"the controller refuses this node as a broker: {why}")
            await asyncio.sleep(_RETRY_SECONDS)

    async def serve(self) -> None:
        """Send heartbeats until the broker is unfenced, then continue at their interval."""
        while True:
            try:
                if not await self._is_fenced():
                    break
            except ControllerUnreachable as problem:
                logger.warning("waiting to be unfenced: %s", problem)
            await asyncio.sleep(_ROUND_SECONDS)
        self._heart = background(self._beat())

    def wake(self) -> None:
        """Send a heartbeat to a new active controller at once, so that it can monitor the connection."""
        self._wake.set()

    async def leave(self) -> None:
        """Controlled shutdown: move leadership of this broker's partitions, and get fenced."""
        if self._heart is None:
            return
        self.stop()
        logger.info("controlled shutdown: moving the leaderships of this broker")
        deadline = asyncio.get_running_loop().time() + SHUTDOWN_SECONDS
        while asyncio.get_running_loop().time() < deadline:
            try:
                response = await self._heartbeat(FAREWELL_SECONDS, want_shut_down=True)
            except ControllerUnreachable as problem:
                logger.warning("controlled shutdown failed, stopping anyway: %s", problem)
                return
            if response.error_code is not ErrorCode.none:
                logger.warning("controlled shutdown failed, stopping anyway: %s", response.error_code.name)
                return
            if response.should_shut_down:
                return
            await asyncio.sleep(_ROUND_SECONDS)
        logger.warning("controlled shutdown timed out, stopping anyway")

    def stop(self) -> None:
        """Stop the heartbeats."""
        if self._heart is not None:
            self._heart.cancel()
            self._heart = None

    async def _beat(self) -> None:
        interval = self._context().node.settings.broker_heartbeat_interval_ms / 1000
        pause = interval
        while True:
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                pause = _RETRY_SECONDS if await self._is_fenced() else interval
            except ControllerUnreachable as problem:
                logger.warning("cannot send a heartbeat to the active controller: %s", problem)
            self._check_reports()

    def _check_reports(self) -> None:
        """A broker that cannot report a failed directory in time stops: the cluster still counts the replicas in it as alive."""
        now = asyncio.get_running_loop().time()
        if self._offline() <= self._reported:
            self._unreported_since = None
            return
        self._unreported_since = now if self._unreported_since is None else self._unreported_since
        seconds = self._context().node.settings.log_dir_failure_timeout_ms / 1000
        if now - self._unreported_since >= seconds:
            why = f"a failed log directory could not be reported to the controller for {seconds:.0f} s"
            self._on_fault(DirectoryNotReported(f"{why} (log.dir.failure.timeout.ms)"))

    def _offline(self) -> frozenset[UUID]:
        return frozenset(one.directory_id for one in self._directories if not one.online and one.directory_id.int)

    async def _is_fenced(self) -> bool:
        """Send one heartbeat, after a new registration if the controller has dropped this one."""
        seconds = self._context().node.settings.broker_session_timeout_ms / 1000
        response = await self._heartbeat(seconds, want_shut_down=False)
        if response.error_code in _FORGOTTEN:
            logger.warning("the controller does not know this broker any more: registering again")
            error = await self._register_once(seconds)
            if error is not ErrorCode.none:
                logger.warning("the registration was refused: %s", _WHY.get(error, error.name))
            return True
        if response.error_code is not ErrorCode.none:
            logger.warning("a heartbeat was refused: %s", response.error_code.name)
        return response.is_fenced or response.error_code is not ErrorCode.none

    async def _register_once(self, seconds: float) -> ErrorCode:
        request = self._registration(self._context().node, self._ports)
        response: BrokerRegistrationResponse = await self._channel.send(request, seconds=seconds)
        if response.error_code is ErrorCode.none:
            self.epoch = int(response.broker_epoch)
        return response.error_code

    async def _heartbeat(self, seconds: float, *, want_shut_down: bool) -> BrokerHeartbeatResponse:
        offline = self._offline()
        cordoned = self._cordoned()
        request = entity(
            BrokerHeartbeatRequest,
            broker_id=self._context().node.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=False,
            want_shut_down=want_shut_down,
            offline_log_dirs=tuple(sorted(offline)),
            cordoned_log_dirs=cordoned,
        )
        response: BrokerHeartbeatResponse = await self._channel.send(request, seconds=seconds)
        if response.error_code is ErrorCode.none:
            self._reported = offline
        return response

    def _cordoned(self) -> tuple[UUID, ...] | None:
        """The directories that get no new replicas; None as long as there was never one."""
        paths = {Path(text).absolute() for text in self._context().node.cordoned_log_dirs}
        self._has_cordoned = self._has_cordoned or bool(paths)
        if not self._has_cordoned:
            return None
        return tuple(directory.directory_id for directory in self._directories if directory.path in paths)

    def _registration(self, node: NodeConfig, ports: Mapping[str, int]) -> BrokerRegistrationRequest:
        listeners = tuple(
            entity(
                RegisteredListener,
                name=listener.name,
                host=listener.host or socket.getfqdn(),
                port=listener.port or ports[listener.name],
                security_protocol=SecurityProtocol.PLAINTEXT,
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
