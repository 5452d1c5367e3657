"""Messages between raft nodes: Kafka's Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot, UpdateRaftVoter.

Plain values without topic, cluster id and endpoints: the driver maps them to and from the wire. Every response carries the responder's
epoch and leader, so that any response can bring a lagging node up to date.
"""

from dataclasses import dataclass

from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.raft.types import Entry, EpochEnd, ReplicaKey, SnapshotId, Voter


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest:
    """Request a vote in `epoch`, or (KIP-996) query whether a vote would be given, without raising the epoch yet."""

    epoch: int
    candidate: ReplicaKey
    voter: ReplicaKey
    last_epoch: int
    end_offset: int
    pre_vote: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteResponse:
    error: ErrorCode
    epoch: int
    leader_id: int | None
    granted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochRequest:
    epoch: int
    leader_id: int
    voter: ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochResponse:
    error: ErrorCode
    epoch: int
    leader_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndQuorumEpochRequest:
    """A leader resigns. The successors it names, best first, need not wait for a timeout."""

    epoch: int
    leader_id: int
    preferred_successors: tuple[ReplicaKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndQuorumEpochResponse:
    error: ErrorCode
    epoch: int
    leader_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """Fetch entries. The offset acknowledges that everything before it is durable on the replica."""

    epoch: int
    replica: ReplicaKey
    fetch_offset: int
    last_fetched_epoch: int
    high_watermark: int
    """The replica's high watermark. The leader does not park a fetch if it has a newer one (KIP-1166)."""
    max_wait_ms: int
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    error: ErrorCode
    epoch: int
    leader_id: int | None
    high_watermark: int = -1
    log_start: int = -1
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None
    """The replica's fetch offset is no longer in the log: it must fetch this snapshot first."""
    entries: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshotRequest:
    epoch: int
    replica: ReplicaKey
    snapshot: SnapshotId
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshotResponse:
    error: ErrorCode
    epoch: int
    leader_id: int | None
    snapshot: SnapshotId
    size: int = 0
    position: int = 0
    data: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateVoterRequest:
    """A voter reports its endpoints and versions when they differ from those in the voter set."""

    epoch: int
    voter: Voter


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateVoterResponse:
    error: ErrorCode
    epoch: int
    leader_id: int | None


Request = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | UpdateVoterRequest
)
Response = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | UpdateVoterResponse
)
