"""EndQuorumEpoch: the leader resigns and names its successors."""

from kio.schema.end_quorum_epoch.v1.request import EndQuorumEpochRequest
from kio.schema.end_quorum_epoch.v1.response import EndQuorumEpochResponse, NodeEndpoint, PartitionData, TopicData

from isthmus_broker.core.raft import messages
from isthmus_broker.core.raft.types import ReplicaKey
from isthmus_broker.edge.requests.quorum_requests import Kinds, accepted, respond
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Request

_KINDS = Kinds(EndQuorumEpochResponse, TopicData, PartitionData, NodeEndpoint)


async def handle(node: NodeServices, request: Request) -> None:
    """The core decides how soon this voter starts an election."""
    body: EndQuorumEpochRequest = request.decode()
    part = accepted(node, request, body, _KINDS)
    if part is None:
        return
    response = await node.quorum.handle(
        messages.EndQuorumEpochRequest(
            epoch=part.leader_epoch,
            leader_id=part.leader_id,
            preferred_successors=tuple(
                ReplicaKey(each.candidate_id, each.candidate_directory_id) for each in part.preferred_candidates
            ),
        )
    )
    respond(node, request, _KINDS, response)
