"""Vote: a candidate requests this voter's vote; since 2 also a pre-vote (KIP-996)."""

from kio.schema.vote.v2.request import VoteRequest
from kio.schema.vote.v2.response import NodeEndpoint, PartitionData, TopicData, VoteResponse

from isthmus_broker.core.raft import messages
from isthmus_broker.core.raft.types import ReplicaKey
from isthmus_broker.edge.requests.quorum_requests import Kinds, accepted, respond
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Request

_KINDS = Kinds(VoteResponse, TopicData, PartitionData, NodeEndpoint)


async def handle(node: NodeServices, request: Request) -> None:
    """Respond once a granted vote is durable."""
    body: VoteRequest = request.decode()
    part = accepted(node, request, body, _KINDS)
    if part is None:
        return
    response = await node.quorum.handle(
        messages.VoteRequest(
            epoch=part.replica_epoch,
            candidate=ReplicaKey(part.replica_id, part.replica_directory_id),
            voter=node.quorum.addressed(body.voter_id, part.voter_directory_id),
            last_epoch=part.last_offset_epoch,
            end_offset=part.last_offset,
            pre_vote=part.pre_vote,
        )
    )
    assert isinstance(response, messages.VoteResponse)
    respond(node, request, _KINDS, response, vote_granted=response.granted)
