"""UpdateRaftVoter: a voter tells the leader its endpoints and the versions it supports (KIP-853)."""

from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.update_raft_voter.v0.request import UpdateRaftVoterRequest
from kio.schema.update_raft_voter.v0.response import CurrentLeader, UpdateRaftVoterResponse

from isthmus_broker.core.raft import messages
from isthmus_broker.core.raft.types import ReplicaKey, Voter, VoterEndpoint
from isthmus_broker.edge.requests.quorum_requests import node_id_or_none
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Request


async def handle(node: NodeServices, request: Request) -> None:
    """Only the leader writes it down."""
    asked: UpdateRaftVoterRequest = request.decode()
    if asked.cluster_id is not None and asked.cluster_id != node.cluster_id:
        request.respond(_response(node, ErrorCode.inconsistent_cluster_id, None, -1))
        return
    voter = Voter(
        ReplicaKey(asked.voter_id, asked.voter_directory_id),
        tuple(VoterEndpoint(each.name, each.host, each.port) for each in asked.listeners),
        asked.k_raft_version_feature.min_supported_version,
        asked.k_raft_version_feature.max_supported_version,
    )
    answer = await node.quorum.handle(messages.UpdateVoterRequest(epoch=asked.current_leader_epoch, voter=voter))
    request.respond(_response(node, answer.error, answer.leader_id, answer.epoch))


def _response(node: NodeServices, error: ErrorCode, leader_id: int | None, epoch: int) -> UpdateRaftVoterResponse:
    place = None if leader_id is None else node.quorum.addresses.find(leader_id)
    host, port = ("", 0) if place is None else (place.host, place.port)
    leader = entity(CurrentLeader, leader_id=node_id_or_none(leader_id), leader_epoch=epoch, host=host, port=port)
    return entity(UpdateRaftVoterResponse, throttle_time=NO_THROTTLE, error_code=error, current_leader=leader)
