"""BeginQuorumEpoch, versions 0 and 1: a new leader announces itself, since 1 with its endpoints (KIP-853)."""

from isthmus_wire.apis import ApiKey
from isthmus_wire.errors import ErrorCode
from kio.schema.begin_quorum_epoch.v1.request import BeginQuorumEpochRequest
from kio.schema.begin_quorum_epoch.v1.response import (
    BeginQuorumEpochResponse,
    NodeEndpoint,
    PartitionData,
    TopicData,
)

from isthmus_broker.core.metadata.result import entity
from isthmus_broker.core.raft import messages
from isthmus_broker.edge.api.quorum_requests import leader_endpoints, named, node_id_or_none, refusal
from isthmus_broker.edge.api.registry import handles
from isthmus_broker.edge.disk.log_dir import METADATA_TOPIC
from isthmus_broker.edge.net.connection import Request
from isthmus_broker.edge.services import NodeServices


@handles(ApiKey.BEGIN_QUORUM_EPOCH)
async def begin_quorum_epoch(node: NodeServices, request: Request) -> None:
    """Where the leader is must be known before the core follows it."""
    asked: BeginQuorumEpochRequest = request.decode()
    error = refusal(node, asked.cluster_id, named(asked.topics))
    if error is not ErrorCode.none:
        request.respond(entity(BeginQuorumEpochResponse, error_code=error, topics=()))
        return
    part = asked.topics[0].partitions[0]
    node.quorum.learn_leader(part.leader_epoch, part.leader_id, asked.leader_endpoints)
    answer = await node.quorum.handle(
        messages.BeginQuorumEpochRequest(
            epoch=part.leader_epoch,
            leader_id=part.leader_id,
            voter=node.quorum.addressed(asked.voter_id, part.voter_directory_id),
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
            BeginQuorumEpochResponse,
            error_code=ErrorCode.none,
            topics=(entity(TopicData, topic_name=METADATA_TOPIC, partitions=(result,)),),
            node_endpoints=leader_endpoints(node, NodeEndpoint, answer.leader_id),
        )
    )
