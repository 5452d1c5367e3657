"""UpdateRaftVoter: a voter reports its endpoints and supported versions to the leader (KIP-853)."""

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
    """Pass the update to the quorum; only the leader applies it."""
    body: UpdateRaftVoterRequest = request.decode()
    if body.cluster_id is not None and body.cluster_id != node.cluster_id:
        error = ErrorCode.inconsistent_cluster_id
        request.respond(_response(node, error, node.quorum.leader_id, node.quorum.epoch))
        return
    voter = Voter(
        ReplicaKey(body.voter_id, body.voter_directory_id),
        tuple(VoterEndpoint(each.name, each.host, each.port) for each in body.listeners),
        body.k_raft_version_feature.min_supported_version,
        body.k_raft_version_feature.max_supported_version,
    )
    response = await node.quorum.handle(messages.UpdateVoterRequest(epoch=body.current_leader_epoch, voter=voter))
    request.respond(_response(node, response.error, response.leader_id, response.epoch))


def _response(node: NodeServices, error: ErrorCode, leader_id: int | None, epoch: int) -> UpdateRaftVoterResponse:
    endpoint = None if leader_id is None else node.quorum.addresses.find(leader_id)
    host, port = ("", 0) if endpoint is None else (endpoint.host, endpoint.port)
    leader = entity(CurrentLeader, leader_id=node_id_or_none(leader_id), leader_epoch=epoch, host=host, port=port)
    return entity(UpdateRaftVoterResponse, throttle_time=NO_THROTTLE, error_code=error, current_leader=leader)
