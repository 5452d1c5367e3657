"""One node, put together: what is built, in which order it starts, and how it stops."""

import asyncio
import logging
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.config.values import ConfigRefused
from isthmus_broker.core.coordinator.runtime import Runtime
from isthmus_broker.core.group.view import ClusterView
from isthmus_broker.core.metadata.features import activation_records
from isthmus_broker.core.metadata.history import Published
from isthmus_broker.core.metadata.image import EMPTY_IMAGE
from isthmus_broker.core.metadata.result import ControllerContext, Result
from isthmus_broker.core.raft.config import RaftConfig
from isthmus_broker.core.raft.types import Endpoint, ReplicaKey, Voter, VoterSet
from isthmus_broker.core.replica.fetch_session import FetchSessions
from isthmus_broker.edge.clock import monotonic_ms, now_ms
from isthmus_broker.edge.disk.checkpoints import TopicPartition
from isthmus_broker.edge.disk.files import DiskFailure, FilePool
from isthmus_broker.edge.disk.log import Log
from isthmus_broker.edge.disk.log_dir import LogDir, NotFormatted, read_meta
from isthmus_broker.edge.disk.log_manager import LogManager, raise_file_limit
from isthmus_broker.edge.disk.log_mover import LogMover
from isthmus_broker.edge.dispatch import Dispatcher
from isthmus_broker.edge.drive.controller import Controller, NotController
from isthmus_broker.edge.drive.controller_channel import ControllerChannel
from isthmus_broker.edge.drive.group_metadata import GroupMetadata
from isthmus_broker.edge.drive.groups import GroupCoordinators
from isthmus_broker.edge.drive.metadata_log import DIRECTORY, MetadataLogStore, metadata_log_config
from isthmus_broker.edge.drive.producer_ids import ProducerIds
from isthmus_broker.edge.drive.raft_driver import RaftDriver, RaftSetting
from isthmus_broker.edge.drive.replica_reports import ReplicaReports
from isthmus_broker.edge.drive.topic_creation import OFFSETS_TOPIC, TopicCreation
from isthmus_broker.edge.follower import MetadataFollower
from isthmus_broker.edge.format import directories_of, format_directories, random_uuid
from isthmus_broker.edge.lifecycle import BrokerLifecycle
from isthmus_broker.edge.net.admission import Admission, connection_limits
from isthmus_broker.edge.net.budget import Budget
from isthmus_broker.edge.net.listener import Listener, ListenerSettings
from isthmus_broker.edge.replica.manager import ReplicaManager
from isthmus_broker.edge.services import Services
from isthmus_broker.edge.upkeep import Upkeep

logger = logging.getLogger(__name__)


class Node:
    """A broker and controller in one process. Made inside a running event loop."""

    def __init__(self, config: NodeConfig) -> None:
        check_protocols(config)
        directories = directories_of(config)
        formatted = format_directories(directories, config.node_id, None)
        for path in formatted.written:
            logger.info("formatted %s for node %d of cluster %s", path, config.node_id, formatted.cluster_id)
        self._config = config
        self._pool = FilePool(raise_file_limit())
        self._directories = open_directories(directories)
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="raft")
        self._failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self._controls = asyncio.Event()
        self._listeners: list[Listener] = []
        self._admissions: list[Admission] = []
        self._metadata_log: MetadataLogStore | None = None
        self._controller = Controller(config.node_id, self._published, self._leadership_changed)
        self._lifecycle = BrokerLifecycle(
            self._controller, self._context, self._directories, last_clean_epoch(self._log_directories())
        )
        self._group_metadata = GroupMetadata(config)
        self._services = self._make_services(formatted.cluster_id)
        self._reports = ReplicaReports(
            self._services.controller, self._context, self._services.logs, lambda: self._lifecycle.epoch
        )
        self._follower = MetadataFollower(self._services, self._group_metadata, self._reports)
        self._follower.on_config = self._take_config
        self._upkeep = Upkeep(lambda: self._services.config, self._services.logs)

    def _make_services(self, cluster_id: str) -> Services:
        config, channel = self._config, ControllerChannel(self._controller, self._context)
        logs = LogManager(
            self._log_directories(), self._pool, lambda topic: self._services.replicas.topic_config(topic)
        )
        replicas = ReplicaManager(config, logs)
        return Services(
            cluster_id=cluster_id,
            config=config,
            context=ControllerContext(config, cluster_id, random.SystemRandom(), random_uuid),
            image=EMPTY_IMAGE,
            features_epoch=-1,
            controller=channel,
            logs=logs,
            mover=LogMover(logs, self._move_limit, self._log_moved),
            replicas=replicas,
            sessions=FetchSessions(config.settings.max_incremental_fetch_session_cache_slots, random.SystemRandom()),
            groups=GroupCoordinators(self._new_group_runtime, self._group_metadata.view, self._group_partitions),
            topics=TopicCreation(channel, self._context),
            producer_ids=ProducerIds(channel, self._context, lambda: self._lifecycle.epoch),
        )

    # -- start ---------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Recover, join, and serve."""
        self._start_raft()
        await self._controls.wait()
        await self._bind()
        await self._lifecycle.register({listener.listener_name: listener.port for listener in self._listeners})
        services = self._services
        self._follower.take_config()
        services.replicas.know(services.image, services.config)
        services.logs.load()
        self._follower.begin()
        for topic, index in services.replicas.strays():
            logger.warning("no topic claims the log of %s-%d: leaving it where it is", topic, index)
        await self._lifecycle.serve()
        for listener in self._listeners:
            await listener.accept()
        services.mover.resume()
        self._upkeep.start()

    def _start_raft(self) -> None:
        config = self._config
        directory = Path(config.metadata_log_dir).absolute()
        self._metadata_log = MetadataLogStore(self._pool, directory, metadata_log_config(config))
        setting = RaftSetting(
            config=raft_config(config),
            directory=directory / DIRECTORY,
            log=self._metadata_log,
            state_machine=self._controller,
            peers=None,
            clock=monotonic_ms,
            wall_clock=now_ms,
            executor=self._worker,
            on_fault=self._fault,
        )
        self._controller.raft = RaftDriver(setting)
        self._controller.raft.start()

    async def _bind(self) -> None:
        settings, listeners = self._config.settings, self._config.listeners
        fixed = ListenerSettings(
            frame_max=settings.socket_request_max_bytes,
            idle_ms=settings.connections_max_idle_ms,
            backlog=settings.socket_listen_backlog_size,
        )
        limits = connection_limits(self._services.config)
        # As in Kafka, controllers count their connections by themselves.
        brokers = Admission(limits, listeners.inter_broker if len(listeners.of_brokers) > 1 else None)
        controllers = Admission(limits)
        self._admissions = [brokers, controllers]
        dispatcher, budget = Dispatcher(self._services), Budget()
        for entry in listeners.bound:
            admission = controllers if entry.name in listeners.controller_names else brokers
            listener = Listener(entry.name, fixed, admission, budget, dispatcher.serve)
            await listener.bind(entry.host, entry.port)
            self._listeners.append(listener)

    @property
    def fault(self) -> BaseException | None:
        """Why the node could not go on, if it could not."""
        return self._failed.result() if self._failed.done() else None

    @property
    def addresses(self) -> str:
        """Its listeners, as bound."""
        bound = self._config.listeners.bound
        return ",".join(f"{e.name}://{e.host}:{made.port}" for e, made in zip(bound, self._listeners, strict=True))

    # -- stop ----------------------------------------------------------------------------------------------------------------

    async def failed(self) -> BaseException:
        """Waits for a fault after which the node cannot go on."""
        return await asyncio.shield(self._failed)

    async def stop(self) -> None:
        """Hand over, close connections, and leave the disks clean."""
        self._upkeep.stop()
        if not self._failed.done():
            await self._lifecycle.leave()
        for listener in self._listeners:
            await listener.stop()
        self._services.groups.stop()
        self._services.mover.stop()
        self._reports.stop()
        if self._controller.raft is not None:
            await self._controller.raft.stop()
        if self._metadata_log is not None:
            self._metadata_log.close()
        self._services.logs.close(self._lifecycle.epoch)
        for directory in self._directories:
            directory.release()
        self._worker.shutdown()

    def _context(self) -> ControllerContext:
        return self._services.context

    # -- what the parts call -------------------------------------------------------------------------------------------------

    def _published(self, published: Published) -> None:
        self._follower.published(published)

    def _take_config(self, config: NodeConfig) -> None:
        for admission in self._admissions:
            admission.change(connection_limits(config))

    def _leadership_changed(self, leads: bool) -> None:
        self._lifecycle.controller_changed(leads)
        if leads:
            self._activation = asyncio.get_running_loop().create_task(self._activate())

    async def _activate(self) -> None:
        history = self._controller.history
        try:
            await self._controller.run(
                lambda image: Result(
                    activation_records(image, self._context(), in_transaction=history.in_transaction), None
                )
            )
        except NotController:
            return
        self._controls.set()

    def _fault(self, error: BaseException) -> None:
        if not self._failed.done():
            self._failed.set_result(error)

    def _log_moved(self, key: TopicPartition, log: Log) -> None:
        self._services.replicas.log_moved(key, log)

    def _move_limit(self) -> float:
        limit = self._services.config.values["replica.alter.log.dirs.io.max.bytes.per.second"]
        assert isinstance(limit, int | float)
        return limit

    def _group_partitions(self) -> int:
        topic = self._services.image.topics.named(OFFSETS_TOPIC)
        return self._config.settings.offsets_topic_num_partitions if topic is None else len(topic.partitions)

    def _new_group_runtime(self, view: ClusterView) -> Runtime[ClusterView]:
        from isthmus_broker.core.group.shard import GroupShard, refuse  # large, and many nodes never coordinate a group

        configs = self._group_metadata.configs
        return Runtime(lambda timers, outbox: GroupShard(timers, outbox, configs, random_uuid), refuse, view)

    def _log_directories(self) -> list[LogDir]:
        named = {Path(name).absolute() for name in self._config.log_dirs}
        return [directory for directory in self._directories if directory.path in named]


def check_protocols(config: NodeConfig) -> None:
    """Listeners speak plain text so far; one that should not must not be opened as if it did."""
    for listener in config.listeners.bound:
        if listener.protocol != "PLAINTEXT":
            raise ConfigRefused(
                f"listener {listener.name} wants {listener.protocol}, which this release does not speak; "
                "only PLAINTEXT listeners can be used"
            )


def open_directories(paths: list[Path]) -> list[LogDir]:
    """Lock the directories that work; one that does not is offline from the start."""
    directories = []
    for path in paths:
        directory = LogDir(path)
        try:
            directory.directory_id = read_meta(path).directory_id
            directory.acquire()
            directory.take_clean_marker()
        except (DiskFailure, NotFormatted) as failure:
            logger.error("log directory %s is offline: %s", path, failure)
            directory.online = False
        directories.append(directory)
    return directories


def last_clean_epoch(directories: list[LogDir]) -> int:
    """The broker's epoch of the last life, if every directory says that it ended in order; else -1, and its replicas are suspect."""
    epochs = {directory.last_broker_epoch if directory.was_clean else -1 for directory in directories}
    return epochs.pop() if len(epochs) == 1 else -1


def raft_config(config: NodeConfig) -> RaftConfig:
    """The quorum's settings."""
    settings = config.settings
    voters = VoterSet(
        tuple(
            Voter(
                ReplicaKey(voter.node_id),
                (Endpoint(config.listeners.controller_names[0], voter.address.host, voter.address.port),),
            )
            for voter in sorted(config.voters, key=lambda voter: voter.node_id)
        )
    )
    local = voters.find(config.node_id)
    assert local is not None, "a controller is one of its voters"
    return RaftConfig(
        local=local,
        static_voters=voters,
        election_timeout_ms=settings.controller_quorum_election_timeout_ms,
        fetch_timeout_ms=settings.controller_quorum_fetch_timeout_ms,
        election_backoff_max_ms=settings.controller_quorum_election_backoff_max_ms,
        request_timeout_ms=settings.controller_quorum_request_timeout_ms,
        retry_backoff_ms=settings.controller_quorum_retry_backoff_ms,
        snapshot_after_bytes=settings.metadata_log_max_record_bytes_between_snapshots,
        snapshot_after_ms=settings.metadata_log_max_snapshot_interval_ms,
    )
