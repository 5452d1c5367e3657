"""BeginQuorumEpoch: a new leader announces itself, since 1 with its endpoints (KIP-853)."""

from kio.schema.begin_quorum_epoch.v1.request import BeginQuorumEpochRequest
from kio.schema.begin_quorum_epoch.v1.response import (
    BeginQuorumEpochResponse,
    NodeEndpoint,
    PartitionData,
    TopicData,
)

from isthmus_broker.core.raft import messages
from isthmus_broker.edge.requests.quorum_requests import Kinds, accepted, respond
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Request

_KINDS = Kinds(BeginQuorumEpochResponse, TopicData, PartitionData, NodeEndpoint)


async def handle(node: NodeServices, request: Request) -> None:
    """Record the leader's endpoints before the core follows it."""
    body: BeginQuorumEpochRequest = request.decode()
    part = accepted(node, request, body, _KINDS)
    if part is None:
        return
    node.quorum.learn_leader(part.leader_epoch, part.leader_id, body.leader_endpoints)
    response = await node.quorum.handle(
        messages.BeginQuorumEpochRequest(
            epoch=part.leader_epoch,
            leader_id=part.leader_id,
            voter=node.quorum.addressed(body.voter_id, part.voter_directory_id),
        )
    )
    respond(node, request, _KINDS, response)
