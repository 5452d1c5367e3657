"""EndQuorumEpoch, versions 0 and 1: the leader gives up and names its successors."""

from isthmus_wire.apis import ApiKey
from isthmus_wire.errors import ErrorCode
from kio.schema.end_quorum_epoch.v1.request import EndQuorumEpochRequest
from kio.schema.end_quorum_epoch.v1.response import EndQuorumEpochResponse, NodeEndpoint, PartitionData, TopicData

from isthmus_broker.core.metadata.result import entity
from isthmus_broker.core.raft import messages
from isthmus_broker.core.raft.types import ReplicaKey
from isthmus_broker.edge.api.quorum_requests import leader_endpoints, named, node_id_or_none, refusal
from isthmus_broker.edge.api.registry import handles
from isthmus_broker.edge.disk.log_dir import METADATA_TOPIC
from isthmus_broker.edge.net.connection import Request
from isthmus_broker.edge.services import NodeServices


@handles(ApiKey.END_QUORUM_EPOCH)
async def end_quorum_epoch(node: NodeServices, request: Request) -> None:
    """The core decides how soon this voter stands for election."""
    asked: EndQuorumEpochRequest = request.decode()
    error = refusal(node, asked.cluster_id, named(asked.topics))
    if error is not ErrorCode.none:
        request.respond(entity(EndQuorumEpochResponse, error_code=error, topics=()))
        return
    part = asked.topics[0].partitions[0]
    answer = await node.quorum.handle(
        messages.EndQuorumEpochRequest(
            epoch=part.leader_epoch,
            leader_id=part.leader_id,
            preferred_successors=tuple(
                ReplicaKey(each.candidate_id, each.candidate_directory_id) for each in part.preferred_candidates
            ),
        )
    )
    result = entity(
        PartitionData,
        partition_index=0,
        error_code=answer.error,
        leader_id=node_id_or_none(answer.leader_id),
        leader_epoch=answer.epoch,
    )
    request.respond(
        entity(
            EndQuorumEpochResponse,
            error_code=ErrorCode.none,
            topics=(entity(TopicData, topic_name=METADATA_TOPIC, partitions=(result,)),),
            node_endpoints=leader_endpoints(node, NodeEndpoint, answer.leader_id),
        )
    )
