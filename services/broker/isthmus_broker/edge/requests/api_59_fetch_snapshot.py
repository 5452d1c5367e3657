"""FetchSnapshot: a part of a snapshot of the metadata, for a replica whose place is gone from the log."""

from isthmus_model.internal_topics import METADATA_TOPIC
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.fetch_snapshot.v1 import response as wire
from kio.schema.fetch_snapshot.v1.request import FetchSnapshotRequest

from isthmus_broker.core.raft import messages
from isthmus_broker.core.raft.types import ReplicaKey, SnapshotId
from isthmus_broker.edge.requests.quorum_requests import leader_endpoints, node_id_or_none, refusal
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Request


async def handle(node: NodeServices, request: Request) -> None:
    """The parts need not begin or end where a batch does."""
    asked: FetchSnapshotRequest = request.decode()
    topics = [(topic.name, [part.partition for part in topic.partitions]) for topic in asked.topics]
    error = refusal(node, asked.cluster_id, topics)
    if error is not ErrorCode.none:
        request.respond(entity(wire.FetchSnapshotResponse, throttle_time=NO_THROTTLE, error_code=error, topics=()))
        return
    part = asked.topics[0].partitions[0]
    answer = await node.quorum.handle(
        messages.FetchSnapshotRequest(
            epoch=part.current_leader_epoch,
            replica=ReplicaKey(asked.replica_id, part.replica_directory_id),
            snapshot=SnapshotId(part.snapshot_id.end_offset, part.snapshot_id.epoch),
            position=part.position,
            max_bytes=asked.max_bytes,
        )
    )
    assert isinstance(answer, messages.FetchSnapshotResponse)
    request.respond(_response(node, answer))


def _response(node: NodeServices, answer: messages.FetchSnapshotResponse) -> wire.FetchSnapshotResponse:
    snapshot = entity(wire.SnapshotId, end_offset=answer.snapshot.end_offset, epoch=answer.snapshot.epoch)
    leader = entity(wire.LeaderIdAndEpoch, leader_id=node_id_or_none(answer.leader_id), leader_epoch=answer.epoch)
    part = entity(
        wire.PartitionSnapshot,
        index=0,
        error_code=answer.error,
        snapshot_id=snapshot,
        current_leader=leader,
        size=answer.size,
        position=answer.position,
        unaligned_records=answer.data,
    )
    return entity(
        wire.FetchSnapshotResponse,
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        topics=(entity(wire.TopicSnapshot, name=METADATA_TOPIC, partitions=(part,)),),
        node_endpoints=leader_endpoints(node, wire.NodeEndpoint, answer.leader_id),
    )
