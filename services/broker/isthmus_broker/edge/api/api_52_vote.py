"""Vote, versions 0 to 2: a candidate asks for this voter's vote; since 2 also whether it would get it (KIP-996)."""

from isthmus_wire.apis import ApiKey
from isthmus_wire.errors import ErrorCode
from kio.schema.vote.v2.request import VoteRequest
from kio.schema.vote.v2.response import NodeEndpoint, PartitionData, TopicData, VoteResponse

from isthmus_broker.core.metadata.result import entity
from isthmus_broker.core.raft import messages
from isthmus_broker.core.raft.types import ReplicaKey
from isthmus_broker.edge.api.quorum_requests import leader_endpoints, named, node_id_or_none, refusal
from isthmus_broker.edge.api.registry import handles
from isthmus_broker.edge.disk.log_dir import METADATA_TOPIC
from isthmus_broker.edge.net.connection import Request
from isthmus_broker.edge.services import NodeServices


@handles(ApiKey.VOTE)
async def vote(node: NodeServices, request: Request) -> None:
    """The answer leaves when a vote that was given is durable."""
    asked: VoteRequest = request.decode()
    error = refusal(node, asked.cluster_id, named(asked.topics))
    if error is not ErrorCode.none:
        request.respond(entity(VoteResponse, error_code=error, topics=()))
        return
    part = asked.topics[0].partitions[0]
    answer = await node.quorum.handle(
        messages.VoteRequest(
            epoch=part.replica_epoch,
            candidate=ReplicaKey(part.replica_id, part.replica_directory_id),
            voter=node.quorum.addressed(asked.voter_id, part.voter_directory_id),
            last_epoch=part.last_offset_epoch,
            end_offset=part.last_offset,
            pre_vote=part.pre_vote,
        )
    )
    assert isinstance(answer, messages.VoteResponse)
    result = entity(
        PartitionData,
        partition_index=0,
        error_code=answer.error,
        leader_id=node_id_or_none(answer.leader_id),
        leader_epoch=answer.epoch,
        vote_granted=answer.granted,
    )
    request.respond(
        entity(
            VoteResponse,
            error_code=ErrorCode.none,
            topics=(entity(TopicData, topic_name=METADATA_TOPIC, partitions=(result,)),),
            node_endpoints=leader_endpoints(node, NodeEndpoint, answer.leader_id),
        )
    )
