"""Conversion of the raft core's requests and responses to and from Kafka's messages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from isthmus_model.internal_topics import METADATA_TOPIC
from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import CorruptBatch, DecodeError, ErrorCode
from isthmus_wire.messages import millis
from isthmus_wire.records import checksum_matches, header_at
from kio.schema.begin_quorum_epoch.v1 import request as begin
from kio.schema.end_quorum_epoch.v1 import request as end
from kio.schema.fetch.v18 import request as fetch
from kio.schema.fetch_snapshot.v1 import request as snapshot
from kio.schema.update_raft_voter.v0 import request as update
from kio.schema.vote.v2 import request as vote

from isthmus_broker.core.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    Response,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoteRequest,
    VoteResponse,
)
from isthmus_broker.core.raft.types import Entry, EpochEnd, SnapshotId, VoterEndpoint
from isthmus_broker.edge.quorum.raft_records import entries

METADATA_TOPIC_ID: Final = UUID(int=1)
NOBODY: Final = -1
NO_SESSION: Final = 0
_LAST_SESSION_EPOCH: Final = -1


class RefusedAsAWhole(Exception):
    """The peer refused the whole request: it belongs to another cluster, or does not understand it."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


@dataclass(frozen=True, slots=True)
class Speaker:
    """The sender of a request."""

    cluster_id: str
    endpoints: tuple[VoterEndpoint, ...]


class PeerResponse(NamedTuple):
    """A response, and the leader's endpoint according to its sender."""

    response: Response
    leader: tuple[int, str, int] | None


def to_wire(request: Request, speaker: Speaker) -> tuple[ApiKey, Any]:
    """The API and Kafka's message for a request."""
    match request:
        case VoteRequest():
            return ApiKey.VOTE, _vote(request, speaker)
        case BeginQuorumEpochRequest():
            return ApiKey.BEGIN_QUORUM_EPOCH, _begin(request, speaker)
        case EndQuorumEpochRequest():
            return ApiKey.END_QUORUM_EPOCH, _end(request, speaker)
        case FetchRequest():
            return ApiKey.FETCH, _fetch(request, speaker)
        case FetchSnapshotRequest():
            return ApiKey.FETCH_SNAPSHOT, _fetch_snapshot(request, speaker)
        case UpdateVoterRequest():
            return ApiKey.UPDATE_RAFT_VOTER, _update(request, speaker)


def from_wire(api: ApiKey, message: Any) -> PeerResponse:
    """Decode a response; raises RefusedAsAWhole, and DecodeError for one about another partition."""
    response = _READERS[api](message)
    endpoints = getattr(message, "node_endpoints", ())
    known = next(((n.node_id, n.host, n.port) for n in endpoints if n.node_id == response.leader_id), None)
    if api is ApiKey.UPDATE_RAFT_VOTER and message.current_leader.host:
        known = (message.current_leader.leader_id, message.current_leader.host, message.current_leader.port)
    return PeerResponse(response, known)


# Requests


def _vote(request: VoteRequest, speaker: Speaker) -> vote.VoteRequest:
    partition = entity(
        vote.PartitionData,
        partition_index=0,
        replica_epoch=request.epoch,
        replica_id=request.candidate.node_id,
        replica_directory_id=request.candidate.directory_id,
        voter_directory_id=request.voter.directory_id,
        last_offset_epoch=request.last_epoch,
        last_offset=request.end_offset,
        pre_vote=request.pre_vote,
    )
    topic = entity(vote.TopicData, topic_name=METADATA_TOPIC, partitions=(partition,))
    return entity(vote.VoteRequest, cluster_id=speaker.cluster_id, voter_id=request.voter.node_id, topics=(topic,))


def _begin(request: BeginQuorumEpochRequest, speaker: Speaker) -> begin.BeginQuorumEpochRequest:
    partition = entity(
        begin.PartitionData,
        partition_index=0,
        voter_directory_id=request.voter.directory_id,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    return entity(
        begin.BeginQuorumEpochRequest,
        cluster_id=speaker.cluster_id,
        voter_id=request.voter.node_id,
        topics=(entity(begin.TopicData, topic_name=METADATA_TOPIC, partitions=(partition,)),),
        leader_endpoints=_endpoints(begin.LeaderEndpoint, speaker.endpoints),
    )


def _end(request: EndQuorumEpochRequest, speaker: Speaker) -> end.EndQuorumEpochRequest:
    partition = entity(
        end.PartitionData,
        partition_index=0,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_candidates=tuple(
            entity(end.ReplicaInfo, candidate_id=key.node_id, candidate_directory_id=key.directory_id)
            for key in request.preferred_successors
        ),
    )
    return entity(
        end.EndQuorumEpochRequest,
        cluster_id=speaker.cluster_id,
        topics=(entity(end.TopicData, topic_name=METADATA_TOPIC, partitions=(partition,)),),
        leader_endpoints=_endpoints(end.LeaderEndpoint, speaker.endpoints),
    )


def _fetch(request: FetchRequest, speaker: Speaker) -> fetch.FetchRequest:
    partition = entity(
        fetch.FetchPartition,
        partition=0,
        current_leader_epoch=request.epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
        partition_max_bytes=request.max_bytes,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    return entity(
        fetch.FetchRequest,
        cluster_id=speaker.cluster_id,
        replica_state=entity(fetch.ReplicaState, replica_id=request.replica.node_id),
        max_wait=millis(request.max_wait_ms),
        min_bytes=0,
        max_bytes=request.max_bytes,
        session_id=NO_SESSION,
        session_epoch=_LAST_SESSION_EPOCH,
        topics=(entity(fetch.FetchTopic, topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
        forgotten_topics_data=(),
        rack_id="",
    )


def _fetch_snapshot(request: FetchSnapshotRequest, speaker: Speaker) -> snapshot.FetchSnapshotRequest:
    snapshot_id = entity(snapshot.SnapshotId, end_offset=request.snapshot.end_offset, epoch=request.snapshot.epoch)
    partition = entity(
        snapshot.PartitionSnapshot,
        partition=0,
        current_leader_epoch=request.epoch,
        snapshot_id=snapshot_id,
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    return entity(
        snapshot.FetchSnapshotRequest,
        cluster_id=speaker.cluster_id,
        replica_id=request.replica.node_id,
        max_bytes=request.max_bytes,
        topics=(entity(snapshot.TopicSnapshot, name=METADATA_TOPIC, partitions=(partition,)),),
    )


def _update(request: UpdateVoterRequest, speaker: Speaker) -> update.UpdateRaftVoterRequest:
    voter = request.voter
    return entity(
        update.UpdateRaftVoterRequest,
        cluster_id=speaker.cluster_id,
        current_leader_epoch=request.epoch,
        voter_id=voter.key.node_id,
        voter_directory_id=voter.key.directory_id,
        listeners=_endpoints(update.Listener, voter.endpoints),
        k_raft_version_feature=entity(
            update.KRaftVersionFeature,
            min_supported_version=voter.min_kraft_version,
            max_supported_version=voter.max_kraft_version,
        ),
    )


def _endpoints(kind: type, endpoints: tuple[VoterEndpoint, ...]) -> tuple[Any, ...]:
    return tuple(entity(kind, name=each.name, host=each.host, port=each.port) for each in endpoints)


# Responses


def leader_or_none(node_id: int) -> int | None:
    """The node id in a message, where -1 means that the leader is unknown."""
    return None if node_id == NOBODY else node_id


def _only(message: Any, topics: Sequence[Any]) -> Any:
    """The response's part about the metadata log's partition."""
    if message.error_code is not ErrorCode.none:
        raise RefusedAsAWhole(message.error_code)
    partitions = [partition for topic in topics for partition in topic.partitions]
    if len(partitions) != 1:
        raise DecodeError(f"a response about {len(partitions)} partitions of the metadata log")
    return partitions[0]


def _from_vote(message: Any) -> VoteResponse:
    part = _only(message, message.topics)
    return VoteResponse(
        error=part.error_code,
        epoch=part.leader_epoch,
        leader_id=leader_or_none(part.leader_id),
        granted=part.vote_granted,
    )


def _from_begin(message: Any) -> BeginQuorumEpochResponse:
    part = _only(message, message.topics)
    return BeginQuorumEpochResponse(
        error=part.error_code, epoch=part.leader_epoch, leader_id=leader_or_none(part.leader_id)
    )


def _from_end(message: Any) -> EndQuorumEpochResponse:
    part = _only(message, message.topics)
    return EndQuorumEpochResponse(
        error=part.error_code, epoch=part.leader_epoch, leader_id=leader_or_none(part.leader_id)
    )


def _from_fetch(message: Any) -> FetchResponse:
    part = _only(message, message.responses)
    diverging, snapshot_end = part.diverging_epoch, part.snapshot_id
    return FetchResponse(
        error=part.error_code,
        epoch=part.current_leader.leader_epoch,
        leader_id=leader_or_none(part.current_leader.leader_id),
        high_watermark=part.high_watermark,
        log_start=part.log_start_offset,
        diverging=None if diverging.epoch < 0 else EpochEnd(diverging.epoch, diverging.end_offset),
        snapshot=None if snapshot_end.end_offset < 0 else SnapshotId(snapshot_end.end_offset, snapshot_end.epoch),
        entries=_checked(bytes(part.records or b"")),
    )


def _checked(records: bytes) -> tuple[Entry, ...]:
    """Verify the fetched batches before they are appended; raises CorruptBatch."""
    batches = tuple(entries(records))
    for entry in batches:
        if not checksum_matches(entry.payload, header_at(entry.payload)):
            raise CorruptBatch(f"a batch of the metadata log at offset {entry.base_offset} has a wrong checksum")
    return batches


def _from_snapshot(message: Any) -> FetchSnapshotResponse:
    part = _only(message, message.topics)
    return FetchSnapshotResponse(
        error=part.error_code,
        epoch=part.current_leader.leader_epoch,
        leader_id=leader_or_none(part.current_leader.leader_id),
        snapshot=SnapshotId(part.snapshot_id.end_offset, part.snapshot_id.epoch),
        size=part.size,
        position=part.position,
        data=bytes(part.unaligned_records or b""),
    )


def _from_update(message: Any) -> UpdateVoterResponse:
    leader = message.current_leader
    return UpdateVoterResponse(
        error=message.error_code, epoch=leader.leader_epoch, leader_id=leader_or_none(leader.leader_id)
    )


_READERS: Final[Mapping[ApiKey, Callable[[Any], Response]]] = {
    ApiKey.VOTE: _from_vote,
    ApiKey.BEGIN_QUORUM_EPOCH: _from_begin,
    ApiKey.END_QUORUM_EPOCH: _from_end,
    ApiKey.FETCH: _from_fetch,
    ApiKey.FETCH_SNAPSHOT: _from_snapshot,
    ApiKey.UPDATE_RAFT_VOTER: _from_update,
}
