"""The assembly of one node: its parts by role, the order of its start, and its shutdown."""

import asyncio
import logging
import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from isthmus_client.clock import CLOCKS
from isthmus_model.clocks import Clocks
from isthmus_model.endpoints import Endpoint

from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.config.values import ConfigRefused
from isthmus_broker.core.config.without_effect import messages_for
from isthmus_broker.core.metadata.delta import Changes
from isthmus_broker.core.metadata.history import Published
from isthmus_broker.core.metadata.image import EMPTY_IMAGE
from isthmus_broker.core.metadata.result import ControllerContext
from isthmus_broker.core.security.authorizer import ALLOW_ALL
from isthmus_broker.edge.assembly.format import directories_of, identify, random_uuid
from isthmus_broker.edge.assembly.metadata_publisher import MetadataPublisher
from isthmus_broker.edge.background import ENDED
from isthmus_broker.edge.controller.metadata_quorum import Quorum
from isthmus_broker.edge.observe.node_view import NodeView
from isthmus_broker.edge.observe.observation import Observation
from isthmus_broker.edge.requests.dispatch import Dispatcher
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.requests.table import Side, operation_of
from isthmus_broker.edge.storage.files import DiskFailure, FilePool, raise_file_limit
from isthmus_broker.edge.storage.filesystem import SYSTEM, FileSystem
from isthmus_broker.edge.storage.log_dir import Inconsistent, LogDir, NotFormatted, read_meta
from isthmus_broker.edge.transport.admission import Admission, connection_limits
from isthmus_broker.edge.transport.budget import Budget
from isthmus_broker.edge.transport.listener import Listener, ListenerSettings

if TYPE_CHECKING:
    from isthmus_broker.edge.assembly.broker import Broker

logger = logging.getLogger(__name__)

LOOPBACK: Final = "127.0.0.1"
ANY_ADDRESS: Final = ("", "0.0.0.0", "::")


class StartTimedOut(Exception):
    """The node did not start within server.max.startup.time.ms."""


class Node:
    """A broker, a controller, or both, in one process. Created inside a running event loop."""

    def __init__(self, config: NodeConfig, clocks: Clocks = CLOCKS, files: FileSystem = SYSTEM) -> None:
        check_protocols(config)
        for message in messages_for(config.given):
            logger.warning("%s", message)
        directories = directories_of(config)
        identity = identify(files, config, directories)
        for path in identity.written:
            logger.info("formatted %s for node %d of cluster %s", path, config.node_id, identity.cluster_id)
        self._config = config
        self._clocks = clocks
        self._pool = FilePool(files, raise_file_limit())
        self._directories = open_directories(files, directories)
        self._failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self._listeners: list[Listener] = []
        self._admissions: list[Admission] = []
        self._dispatchers: dict[Side, Dispatcher] = {}
        self.observation = Observation(config)
        self._serves = False
        context = ControllerContext(config, identity.cluster_id, random.SystemRandom(), random_uuid)
        self._quorum = Quorum(
            config,
            self._metadata_directory().directory_id,
            lambda: self._services.context,
            operation_of,
            self._published,
            self._fault,
            self._quorum_leader_known,
            clocks,
        )
        self._broker: Broker | None = None
        self._services = self._make_services(context)
        self._publisher = MetadataPublisher(self._services, self._apply_config, self._apply_changes)

    def _make_services(self, context: ControllerContext) -> NodeServices:
        config, quorum = self._config, self._quorum
        if config.is_broker:
            from isthmus_broker.edge.assembly.broker import Broker

            self._broker = Broker(config, context, quorum, self._directories, self._pool, self._fault, self._clocks)
            return self._broker.services
        return NodeServices(
            cluster_id=context.cluster_id,
            config=config,
            context=context,
            image=EMPTY_IMAGE,
            features_epoch=-1,
            quorum=quorum,
            controller=quorum.channel(),
            authorizer=ALLOW_ALL,
            clocks=self._clocks,
        )

    # -- start ---------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Recover, join, and serve, or raise StartTimedOut."""
        seconds = self._config.settings.server_max_startup_time_ms / 1000
        try:
            async with asyncio.timeout(seconds) as limit:
                await self._start()
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise StartTimedOut(f"not started within {seconds:.0f} s (server.max.startup.time.ms)") from error

    async def _start(self) -> None:
        """Controllers connect to each other before there is a cluster for brokers to join."""
        await self._bind()
        self._quorum.start(self._pool)
        await self.observation.serve(self._view(), self._not_ready)
        await self._accept(self._of_controllers(self._listeners))
        if self._broker is not None:
            ports = {listener.listener_name: listener.port for listener in self._listeners}
            await self._broker.start(self._publisher, ports)
            controllers = self._of_controllers(self._listeners)
            await self._accept([listener for listener in self._listeners if listener not in controllers])
            await self._broker.serve()
            self._broker.begin_maintenance(self.own_endpoint())
            self.observation.sample(self._broker.services, self.own_endpoint())
        self._serves = True

    async def _bind(self) -> None:
        settings, listeners = self._config.settings, self._config.listeners
        send_buffer, receive_buffer = self._config.socket_buffers
        fixed = ListenerSettings(
            frame_max=settings.socket_request_max_bytes,
            idle_ms=settings.connections_max_idle_ms,
            backlog=settings.socket_listen_backlog_size,
            send_buffer=send_buffer,
            receive_buffer=receive_buffer,
        )
        limits, clock = connection_limits(self._services.config), self._clocks.monotonic
        # As in Kafka, controllers count their connections separately.
        brokers = Admission(limits, clock, listeners.inter_broker if len(listeners.of_brokers) > 1 else None)
        controllers = Admission(limits, clock)
        self._admissions = [brokers, controllers]
        self._dispatchers = {side: Dispatcher(self._services, side) for side in Side}
        budget = Budget()
        for entry in listeners.bound:
            if entry.name in listeners.controller_names:
                serve, liveness = self._dispatchers[Side.CONTROLLER].serve, self._quorum.active.liveness
                listener = Listener(entry.name, fixed, controllers, budget, serve, on_closed=liveness.closed)
            else:
                listener = Listener(entry.name, fixed, brokers, budget, self._dispatchers[Side.BROKER].serve)
            await listener.bind(entry.host, entry.port)
            self._listeners.append(listener)

    def _of_controllers(self, listeners: list[Listener]) -> list[Listener]:
        names = self._config.listeners.controller_names
        return [listener for listener in listeners if listener.listener_name in names]

    async def _accept(self, listeners: list[Listener]) -> None:
        for listener in listeners:
            await listener.accept()

    @property
    def fault(self) -> BaseException | None:
        """The fault that stopped the node, if any."""
        return self._failed.result() if self._failed.done() else None

    @property
    def addresses(self) -> str:
        """Its listeners, as bound."""
        bound = self._config.listeners.bound
        return ",".join(f"{e.name}://{e.host}:{made.port}" for e, made in zip(bound, self._listeners, strict=True))

    def unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """The event loop's exception handler: logs the exception, and stops the node if its background work ended with it."""
        loop.default_exception_handler(context)
        if ENDED in context:
            self._fault(context["exception"])

    # -- stop ----------------------------------------------------------------------------------------------------------------

    async def failed(self) -> BaseException:
        """Waits for a fault that stops the node."""
        return await asyncio.shield(self._failed)

    async def stop(self) -> None:
        """Move leadership, close connections, and shut down cleanly. The channels to controllers close last."""
        await self.observation.stop()
        if self._broker is not None and not self._failed.done() and self._config.settings.controlled_shutdown_enable:
            await self._broker.leave()
        controllers = self._of_controllers(self._listeners)
        for listener in self._listeners:
            if listener not in controllers:
                await listener.stop()
        if self._broker is not None:
            self._broker.stop()
        await self._quorum.stop()
        for listener in controllers:
            await listener.stop()
        for directory in self._directories:
            directory.release()

    # -- health and endpoints ------------------------------------------------------------------------------------------------

    def _view(self) -> NodeView:
        broker = self._broker
        return NodeView(
            node_id=self._config.node_id,
            quorum=self._quorum,
            listeners=self._listeners,
            served=lambda: sum((dispatcher.served for dispatcher in self._dispatchers.values()), Counter()),
            image=lambda: self._services.image,
            replicas=None if broker is None else broker.services.replicas,
            uncleanable=dict if broker is None else broker.uncleanable,
            transactions=None if broker is None else broker.transaction_counts,
            tier=None if broker is None else broker.tier_counts(),
            groups=None if broker is None else broker.group_counts,
            wall_clock=self._clocks.wall,
            transaction_max_timeout_ms=self._config.settings.transaction_max_timeout_ms,
        )

    def _not_ready(self) -> str:
        if not self._serves:
            return "the node has not started yet"
        if not self._quorum.is_settled:
            return "no active controller is reachable"
        own = self._services.image.brokers.get(self._config.node_id)
        return "the broker is fenced" if self._broker is not None and (own is None or own.fenced) else ""

    def own_endpoint(self) -> Endpoint:
        """The inter-broker listener, through which this broker connects to itself."""
        named = self._config.listeners.inter_broker
        entry, listener = next(
            (entry, made)
            for entry, made in zip(self._config.listeners.bound, self._listeners, strict=True)
            if entry.name == named
        )
        return Endpoint(LOOPBACK if entry.host in ANY_ADDRESS else entry.host, listener.port)

    # -- callbacks of the parts ----------------------------------------------------------------------------------------------

    def _published(self, published: Published) -> None:
        self._publisher.publish(published)

    def _quorum_leader_known(self) -> None:
        if self._broker is not None:
            self._broker.quorum_leader_elected()

    def _apply_changes(self, changes: Changes) -> None:
        if self._broker is not None:
            self._broker.apply_changes(changes)

    def _apply_config(self, config: NodeConfig) -> None:
        for admission in self._admissions:
            admission.change(connection_limits(config))

    def _fault(self, error: BaseException) -> None:
        if not self._failed.done():
            self._failed.set_result(error)

    def _metadata_directory(self) -> LogDir:
        path = Path(self._config.metadata_log_dir).absolute()
        directory = next(directory for directory in self._directories if directory.path == path)
        if not directory.online:
            raise Inconsistent(f"{path} cannot be used, and the metadata log is in it")
        return directory


def check_protocols(config: NodeConfig) -> None:
    """Only PLAINTEXT listeners are supported so far; any other must not be opened unencrypted."""
    for listener in config.listeners.bound:
        if listener.protocol != "PLAINTEXT":
            raise ConfigRefused(
                f"listener {listener.name} uses {listener.protocol}, which this release does not support; "
                "only PLAINTEXT listeners can be used"
            )


def open_directories(files: FileSystem, paths: list[Path]) -> list[LogDir]:
    """Lock the usable directories; the others are offline from the start."""
    directories = []
    for path in paths:
        directory = LogDir(files, path)
        try:
            directory.directory_id = read_meta(files, path).directory_id
            directory.acquire()
            directory.remove_clean_marker()
        except (DiskFailure, NotFormatted) as failure:
            logger.error("log directory %s is offline: %s", path, failure)
            directory.online = False
        directories.append(directory)
    return directories
