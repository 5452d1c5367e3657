"""Implements controller.quorum.auto.join.enable: a controller that is not a voter adds itself once it has caught up with the leader
(KIP-1186)."""

import asyncio
import logging
from typing import Any, Final

from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import millis
from kio.schema.add_raft_voter.v1.request import AddRaftVoterRequest, Listener
from kio.schema.remove_raft_voter.v0.request import RemoveRaftVoterRequest

from isthmus_broker.core.raft.config import RaftConfig
from isthmus_broker.core.raft.types import ReplicaKey
from isthmus_broker.edge.controller.controller_channel import ControllerChannel, ControllerUnreachable
from isthmus_broker.edge.quorum.raft_driver import RaftDriver

logger = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 0.5


async def join(raft: RaftDriver, config: RaftConfig, channel: ControllerChannel, cluster_id: str) -> None:
    """Request AddRaftVoter until this replica is a voter. A voter with this node's id and another directory is this node's lost disk: it is
    removed first."""
    while True:
        await asyncio.sleep(PAUSE_SECONDS)
        if raft.core.voters.contains(config.key):
            break  # read now, not before the pause: a replica that was added meanwhile must not be mistaken for a lost disk
        if not raft.core.voters.voters:
            continue  # the log has not arrived yet, so the voters are unknown
        former = raft.core.voters.find(config.node_id)
        request = _addition(config, cluster_id) if former is None else _removal(former.key, cluster_id)
        try:
            response = await channel.send(request)
        except ControllerUnreachable:
            continue
        if response.error_code not in (ErrorCode.none, ErrorCode.duplicate_voter, ErrorCode.request_timed_out):
            logger.warning("this controller cannot join the voters: %s", response.error_message)
    channel.close()


def _addition(config: RaftConfig, cluster_id: str) -> Any:
    listeners = tuple(entity(Listener, name=e.name, host=e.host, port=e.port) for e in config.local.endpoints)
    return entity(
        AddRaftVoterRequest,
        cluster_id=cluster_id,
        timeout=millis(config.request_timeout_ms),
        voter_id=config.node_id,
        voter_directory_id=config.key.directory_id,
        listeners=listeners,
        ack_when_committed=False,
    )


def _removal(former: ReplicaKey, cluster_id: str) -> Any:
    return entity(
        RemoveRaftVoterRequest,
        cluster_id=cluster_id,
        voter_id=former.node_id,
        voter_directory_id=former.directory_id,
    )
