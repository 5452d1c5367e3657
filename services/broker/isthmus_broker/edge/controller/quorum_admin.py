"""Requests about the quorum itself: describe its replicas, add and remove voters."""

import asyncio
from typing import Final

from isthmus_model.internal_topics import METADATA_TOPIC
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE, to_millis
from kio.schema.add_raft_voter.v1.request import AddRaftVoterRequest
from kio.schema.add_raft_voter.v1.response import AddRaftVoterResponse
from kio.schema.describe_quorum.v2 import response as described
from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest
from kio.schema.remove_raft_voter.v0.request import RemoveRaftVoterRequest
from kio.schema.remove_raft_voter.v0.response import RemoveRaftVoterResponse

from isthmus_broker.core.metadata.result import NOT_HOSTED, ControllerContext, ControllerError
from isthmus_broker.core.raft.types import ReplicaKey, ReplicaProgress, Voter, VoterEndpoint
from isthmus_broker.edge.controller.controller import NotController
from isthmus_broker.edge.quorum.raft_driver import RaftDriver, RaftRefused

_MESSAGES: Final = {
    ErrorCode.duplicate_voter: "The voter id for {key} is already part of the set of voters {ids}.",
    ErrorCode.voter_not_found: "Cannot remove voter {key} from the set of voters {ids}",
    ErrorCode.unsupported_version: "Cluster doesn't support {verb} voter because the kraft.version feature is 0",
    ErrorCode.request_timed_out: (
        "The request did not finish in time: an earlier change of voters is not committed yet, or the voter {key} has not "
        "caught up with the leader"
    ),
}
_NOT_LEADER: Final = (
    "For requests intended only for the leader, this error indicates that the broker is not the current leader. For requests "
    "intended for any replica, this error indicates that the broker is not a replica of the topic partition."
)


# Voters


def voter_not_added(_request: AddRaftVoterRequest, why: ControllerError) -> AddRaftVoterResponse:
    """AddRaftVoter: one error."""
    return entity(AddRaftVoterResponse, throttle_time=NO_THROTTLE, error_code=why.code, error_message=why.message)


def voter_not_removed(_request: RemoveRaftVoterRequest, why: ControllerError) -> RemoveRaftVoterResponse:
    """RemoveRaftVoter: one error."""
    return entity(RemoveRaftVoterResponse, throttle_time=NO_THROTTLE, error_code=why.code, error_message=why.message)


async def add_voter(raft: RaftDriver, request: AddRaftVoterRequest, context: ControllerContext) -> AddRaftVoterResponse:
    """Add a voter; raises NotController when this node is not the quorum's leader."""
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    endpoints = tuple(VoterEndpoint(each.name, each.host, each.port) for each in request.listeners)
    code: ErrorCode
    why: str | None
    if request.cluster_id not in (None, context.cluster_id):
        code, why = _another_cluster(context.cluster_id, request.cluster_id)
    elif not endpoints or key.directory_id is None or key.node_id < 0:
        code, why = ErrorCode.invalid_request, "Add voter request didn't include a valid voter"
    else:
        change = raft.add_voter(Voter(key, endpoints))
        if request.ack_when_committed:
            code, why = await _outcome(raft, change, key, "adding", to_millis(request.timeout))
        else:
            code, why = await _accepted(raft, change, key)
    return entity(AddRaftVoterResponse, throttle_time=NO_THROTTLE, error_code=code, error_message=why)


async def remove_voter(
    raft: RaftDriver, request: RemoveRaftVoterRequest, context: ControllerContext
) -> RemoveRaftVoterResponse:
    """Remove a voter; raises NotController when this node is not the quorum's leader."""
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    code: ErrorCode
    why: str | None
    if request.cluster_id not in (None, context.cluster_id):
        code, why = _another_cluster(context.cluster_id, request.cluster_id)
    elif key.directory_id is None or key.node_id < 0:
        code, why = ErrorCode.invalid_request, "Remove voter request didn't include a valid voter"
    else:
        code, why = await _outcome(raft, raft.remove_voter(key), key, "removing")
    return entity(RemoveRaftVoterResponse, throttle_time=NO_THROTTLE, error_code=code, error_message=why)


def _another_cluster(expected: str, got: str | None) -> tuple[ErrorCode, str]:
    return ErrorCode.inconsistent_cluster_id, f'The given id "{got}" doesn\'t match the cluster id "{expected}"'


async def _accepted(raft: RaftDriver, change: "asyncio.Future[int]", key: ReplicaKey) -> tuple[ErrorCode, str | None]:
    """Respond to an appended change before it is committed: the new voter may itself be needed for the commit."""
    if not change.done():
        change.add_done_callback(lambda done: done.exception())
        return ErrorCode.none, None
    return await _outcome(raft, change, key, "adding")


async def _outcome(
    raft: RaftDriver, change: "asyncio.Future[int]", key: ReplicaKey, verb: str, timeout_ms: int | None = None
) -> tuple[ErrorCode, str | None]:
    try:
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            await change
    except RaftRefused as refused:
        if refused.error is ErrorCode.not_leader_or_follower:
            raise NotController(refused.error.name) from refused
        return refused.error, _why(raft, refused.error, key, verb)
    except TimeoutError:
        return ErrorCode.request_timed_out, _why(raft, ErrorCode.request_timed_out, key, verb)
    return ErrorCode.none, None


def _why(raft: RaftDriver, error: ErrorCode, key: ReplicaKey, verb: str) -> str | None:
    message = _MESSAGES.get(error)
    shown = f"{key.node_id} with directory {key.directory_id}"
    return None if message is None else message.format(key=shown, ids=list(raft.core.voters.node_ids()), verb=verb)


# DescribeQuorum


def quorum_not_described(request: DescribeQuorumRequest, why: ControllerError) -> described.DescribeQuorumResponse:
    """The error in every partition; NOT_LEADER_OR_FOLLOWER belongs to the partition, as in Kafka."""
    not_leader = why.code is ErrorCode.not_controller
    if not_leader:
        return _undescribed(request, ErrorCode.not_leader_or_follower, _NOT_LEADER)
    return _undescribed(request, why.code, why.message)


async def describe_quorum(
    raft: RaftDriver, request: DescribeQuorumRequest, _context: ControllerContext
) -> described.DescribeQuorumResponse:
    """Describe voters and observers; raises NotController when this node is not the quorum's leader."""
    partitions = [(topic.topic_name, [part.partition_index for part in topic.partitions]) for topic in request.topics]
    if partitions != [(METADATA_TOPIC, [0])]:
        return _undescribed(request, ErrorCode.unknown_topic_or_partition, NOT_HOSTED)
    info = raft.describe()
    if info is None:
        raise NotController
    partition = entity(
        described.PartitionData,
        partition_index=0,
        error_code=ErrorCode.none,
        error_message="",
        leader_id=info.leader_id,
        leader_epoch=info.epoch,
        high_watermark=info.high_watermark,
        current_voters=tuple(map(_row, info.voters)),
        observers=tuple(map(_row, info.observers)),
    )
    nodes = tuple(
        entity(
            described.Node,
            node_id=voter.key.node_id,
            listeners=tuple(entity(described.Listener, name=e.name, host=e.host, port=e.port) for e in voter.endpoints),
        )
        for voter in raft.core.voters.voters
    )
    topic = entity(described.TopicData, topic_name=METADATA_TOPIC, partitions=(partition,))
    return entity(
        described.DescribeQuorumResponse, error_code=ErrorCode.none, error_message="", topics=(topic,), nodes=nodes
    )


def _row(progress: ReplicaProgress) -> described.ReplicaState:
    return entity(
        described.ReplicaState,
        replica_id=progress.key.node_id,
        replica_directory_id=progress.key.directory_id,
        log_end_offset=progress.log_end_offset,
        last_fetch_timestamp=progress.last_fetch_ms,
        last_caught_up_timestamp=progress.last_caught_up_ms,
    )


def _undescribed(
    request: DescribeQuorumRequest, code: ErrorCode, message: str | None
) -> described.DescribeQuorumResponse:
    """The error in every partition; the other fields have the defaults of the schema, as in Kafka."""
    topics = tuple(
        entity(
            described.TopicData,
            topic_name=topic.topic_name,
            partitions=tuple(
                entity(
                    described.PartitionData,
                    partition_index=part.partition_index,
                    error_code=code,
                    leader_id=0,
                    leader_epoch=0,
                    high_watermark=0,
                    error_message=message,
                    current_voters=(),
                    observers=(),
                )
                for part in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return entity(
        described.DescribeQuorumResponse, error_code=ErrorCode.none, error_message="", topics=topics, nodes=()
    )
