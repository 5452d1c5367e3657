"""This node's replica of the metadata log, voter or observer, with the quorum's peers and the active controller."""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from isthmus_model.clocks import Clocks
from isthmus_model.endpoints import Endpoint

from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.metadata.history import Published
from isthmus_broker.core.metadata.result import ControllerContext
from isthmus_broker.core.raft.config import FETCH_WAIT_MAX_MS, RaftConfig
from isthmus_broker.core.raft.messages import Request, Response
from isthmus_broker.core.raft.types import ReplicaKey, Voter, VoterEndpoint, VoterSet
from isthmus_broker.edge.background import background
from isthmus_broker.edge.controller.active_controller import ActiveController, Operation
from isthmus_broker.edge.controller.controller import Controller
from isthmus_broker.edge.controller.controller_channel import ControllerChannel
from isthmus_broker.edge.controller.controller_registration import ControllerRegistration, controller_registration
from isthmus_broker.edge.quorum.metadata_log import DIRECTORY, MetadataLogStore, metadata_log_config
from isthmus_broker.edge.quorum.quorum_addresses import QuorumAddresses, bootstrap_ids
from isthmus_broker.edge.quorum.raft_driver import RaftDriver, RaftSetting
from isthmus_broker.edge.storage.files import FilePool

if TYPE_CHECKING:
    from isthmus_broker.edge.quorum.peers import QuorumPeers

logger = logging.getLogger(__name__)

QUORUM_TIMEOUT_MIN_MS: Final = 10
"""Shorter timeouts of the quorum count as this."""
_ANYBODY: Final = -1


class Quorum:
    """Runs from `start` to `stop`. It serves other replicas as soon as it has started, before there is a leader."""

    def __init__(
        self,
        config: NodeConfig,
        directory_id: UUID,
        context: Callable[[], ControllerContext],
        operation_of: Callable[[int], Operation],
        publish: Callable[[Published], None],
        on_fault: Callable[[BaseException], None],
        on_leader: Callable[[], None],
        clocks: Clocks,
    ) -> None:
        """`on_leader` is called when another node becomes the quorum's leader, or this one is ready to serve as leader."""
        self.raft_config = raft_config(config, directory_id)
        self.controller = Controller(config.node_id, self._published, self._leader_changed, clocks.wall)
        self.active = ActiveController(
            self.controller, context, operation_of, _broker_listener(config), self._leader_known, clocks
        )
        self.addresses = QuorumAddresses(config, lambda: self._raft.core.voters)
        self._publish = publish
        self._on_leader = on_leader
        self._clocks = clocks
        self._config = config
        self._context = context
        self._on_fault = on_fault
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="raft")
        self._channels: list[ControllerChannel] = []
        self._peers: QuorumPeers | None = None
        self._store: MetadataLogStore | None = None
        self._registration: ControllerRegistration | None = None
        self._tasks: list[asyncio.Task[None]] = []

    # -- life ----------------------------------------------------------------------------------------------------------------

    def start(self, pool: FilePool) -> None:
        """Recover the log and join the quorum."""
        config = self._config
        directory = Path(config.metadata_log_dir).absolute()
        self._store = MetadataLogStore(pool, directory, metadata_log_config(config), self._clocks)
        setting = RaftSetting(
            config=self.raft_config,
            files=pool.files,
            directory=directory / DIRECTORY,
            log=self._store,
            state_machine=self.controller,
            peers=self,
            clock=self._clocks.monotonic,
            wall_clock=self._clocks.wall,
            executor=self._worker,
            on_fault=self._on_fault,
        )
        raft = self.controller.raft = RaftDriver(setting)
        if config.is_controller:
            request = controller_registration(config, self._context().new_id())
            self._registration = ControllerRegistration(request, self.channel())
            self._tasks.append(background(self._registration.run()))
        raft.start()
        if config.is_controller and config.settings.controller_quorum_auto_join_enable:
            from isthmus_broker.edge.controller.auto_join import join

            joining = join(raft, self.raft_config, self.channel(), self._context().cluster_id)
            self._tasks.append(background(joining))

    async def stop(self) -> None:
        """Controlled shutdown: a leader names its successors."""
        for task in self._tasks:
            task.cancel()
        self.active.stop()
        if self.controller.raft is not None:
            await self.controller.raft.stop()
        if self._peers is not None:
            await self._peers.stop()
        for channel in self._channels:
            channel.close()
        if self._store is not None:
            self._store.close()
        self._worker.shutdown()

    def channel(self) -> ControllerChannel:
        """A channel to the active controller with a connection of its own."""
        channel = ControllerChannel(self.active, self._leader_place, self._config.settings.controller_socket_timeout_ms)
        self._channels.append(channel)
        return channel

    def send(self, peer: int, request_id: int, request: Request) -> None:
        """Send a request of raft to another node. A node that is the whole quorum never loads the code for it."""
        if self._peers is None:
            from isthmus_broker.edge.quorum.peers import QuorumPeers
            from isthmus_broker.edge.quorum.raft_requests import Speaker

            config = self.raft_config
            speaker = Speaker(self._context().cluster_id, config.local.endpoints)
            self._peers = QuorumPeers(self._raft, speaker, self.addresses, config.request_timeout_ms / 1000)
        self._peers.send(peer, request_id, request)

    # -- for the API handlers ------------------------------------------------------------------------------------------------

    @property
    def leader_id(self) -> int | None:
        """The leader's node id, as far as this node knows."""
        return self._raft.core.leader_id

    @property
    def epoch(self) -> int:
        """The quorum's current epoch, as far as this node knows."""
        return self._raft.core.epoch

    @property
    def is_settled(self) -> bool:
        """Whether this node is the leader, or follows a leader that responds."""
        return self._raft.core.is_led

    @property
    def kraft_version(self) -> int:
        """1 if the voters are in the log, 0 if they are in the settings."""
        return self._raft.core.kraft_version

    def handle(self, request: Request) -> "asyncio.Future[Response]":
        """Serve a request from another replica."""
        return self._raft.handle(request)

    def addressed(self, voter_id: int, directory_id: UUID | None) -> ReplicaKey:
        """The replica to which a request is addressed; one without an addressee is for this node."""
        return self.raft_config.key if voter_id == _ANYBODY else ReplicaKey(voter_id, directory_id)

    def learn_leader(self, epoch: int, leader_id: int, endpoints: Sequence[Any]) -> None:
        """Record the endpoints of a leader that announces itself."""
        if endpoints and epoch >= self._raft.core.epoch:
            listener = self._config.listeners.controller_names[0]
            chosen = next((each for each in endpoints if each.name == listener), endpoints[0])
            self.addresses.learn(leader_id, chosen.host, chosen.port)

    # -- inside --------------------------------------------------------------------------------------------------------------

    @property
    def _raft(self) -> RaftDriver:
        assert self.controller.raft is not None, "not started"
        return self.controller.raft

    def _leader_place(self) -> Endpoint | None:
        leader_id = self.controller.leader_id
        return None if leader_id is None else self.addresses.find(leader_id)

    def _published(self, published: Published) -> None:
        self._publish(published)
        if self._registration is not None:
            self._registration.metadata_changed(published.changes)

    def _leader_changed(self, leads: bool) -> None:
        self.active.leadership_changed(leads)
        if not leads:
            self._leader_known()

    def _leader_known(self) -> None:
        for channel in self._channels:
            channel.leader_changed()
        self._on_leader()


def _broker_listener(config: NodeConfig) -> str | None:
    """The inter-broker listener; a controller that is no broker, and has no such setting, does not know it."""
    is_set = config.values["inter.broker.listener.name"] is not None
    return config.listeners.inter_broker if config.is_broker or is_set else None


def local_voter(config: NodeConfig, directory_id: UUID) -> Voter:
    """This node as a voter."""
    return Voter(
        ReplicaKey(config.node_id, directory_id),
        tuple(
            VoterEndpoint(listener.name, listener.host or socket.getfqdn(), listener.port)
            for listener in config.listeners.advertised_to_controllers
        ),
    )


def raft_config(config: NodeConfig, directory_id: UUID) -> RaftConfig:
    """The quorum's settings. A parked fetch returns before its sender gives up, however short the timeouts are."""
    settings = config.settings
    fetch_timeout_ms = max(settings.controller_quorum_fetch_timeout_ms, QUORUM_TIMEOUT_MIN_MS)
    request_timeout_ms = max(settings.controller_quorum_request_timeout_ms, QUORUM_TIMEOUT_MIN_MS)
    retry_backoff_ms = max(settings.controller_quorum_retry_backoff_ms, 1)
    voters = VoterSet(
        tuple(
            Voter(
                ReplicaKey(voter.node_id),
                (VoterEndpoint(config.listeners.controller_names[0], voter.address.host, voter.address.port),),
            )
            for voter in sorted(config.voters, key=lambda voter: voter.node_id)
        )
    )
    return RaftConfig(
        local=local_voter(config, directory_id),
        static_voters=voters if voters.voters else None,
        bootstrap=bootstrap_ids(config),
        election_timeout_ms=max(settings.controller_quorum_election_timeout_ms, QUORUM_TIMEOUT_MIN_MS),
        fetch_timeout_ms=fetch_timeout_ms,
        fetch_wait_max_ms=min(FETCH_WAIT_MAX_MS, fetch_timeout_ms // 2, request_timeout_ms // 2),
        election_backoff_max_ms=max(settings.controller_quorum_election_backoff_max_ms, retry_backoff_ms),
        request_timeout_ms=request_timeout_ms,
        retry_backoff_ms=retry_backoff_ms,
        fetch_bytes_max=settings.controller_quorum_fetch_max_bytes,
        snapshot_chunk_bytes_max=settings.controller_quorum_fetch_snapshot_max_bytes,
        snapshot_after_bytes=settings.metadata_log_max_record_bytes_between_snapshots,
        snapshot_after_ms=settings.metadata_log_max_snapshot_interval_ms,
    )
