"""FetchSnapshot: a part of a metadata snapshot, for a replica whose fetch offset is below the log start."""

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
    """Parts need not begin or end at a batch boundary."""
    body: FetchSnapshotRequest = request.decode()
    topics = [(topic.name, [part.partition for part in topic.partitions]) for topic in body.topics]
    error = refusal(node, body.cluster_id, topics)
    if error is not ErrorCode.none:
        request.respond(entity(wire.FetchSnapshotResponse, throttle_time=NO_THROTTLE, error_code=error, topics=()))
        return
    part = body.topics[0].partitions[0]
    response = await node.quorum.handle(
        messages.FetchSnapshotRequest(
            epoch=part.current_leader_epoch,
            replica=ReplicaKey(body.replica_id, part.replica_directory_id),
            snapshot=SnapshotId(part.snapshot_id.end_offset, part.snapshot_id.epoch),
            position=part.position,
            max_bytes=body.max_bytes,
        )
    )
    assert isinstance(response, messages.FetchSnapshotResponse)
    request.respond(_response(node, response))


def _response(node: NodeServices, response: messages.FetchSnapshotResponse) -> wire.FetchSnapshotResponse:
    snapshot = entity(wire.SnapshotId, end_offset=response.snapshot.end_offset, epoch=response.snapshot.epoch)
    leader = entity(wire.LeaderIdAndEpoch, leader_id=node_id_or_none(response.leader_id), leader_epoch=response.epoch)
    part = entity(
        wire.PartitionSnapshot,
        index=0,
        error_code=response.error,
        snapshot_id=snapshot,
        current_leader=leader,
        size=response.size,
        position=response.position,
        unaligned_records=response.data,
    )
    return entity(
        wire.FetchSnapshotResponse,
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        topics=(entity(wire.TopicSnapshot, name=METADATA_TOPIC, partitions=(part,)),),
        node_endpoints=leader_endpoints(node, wire.NodeEndpoint, response.leader_id),
    )
