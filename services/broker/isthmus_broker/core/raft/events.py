"""Inputs and outputs of the raft core: events, writes, sends, replies, notes."""

from dataclasses import dataclass

from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.contract import Ready
from isthmus_broker.core.raft.messages import Request, Response
from isthmus_broker.core.raft.types import Entry, QuorumState, ReplicaKey, SnapshotId, Voter, VoterSet

# Events. A token is the driver's name for a pending request; the core returns it with the response.


@dataclass(frozen=True, slots=True)
class RequestReceived:
    token: int
    request: Request


@dataclass(frozen=True, slots=True)
class ResponseReceived:
    peer: int
    request_id: int
    response: Response


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """The connection closed or was refused: no response will come."""

    peer: int
    request_id: int
    is_gone: bool = False
    """The peer's address refuses connections: its process is dead, and waiting for it is pointless."""


@dataclass(frozen=True, slots=True)
class AppendRequest:
    """Append one opaque batch. Results in Appended once it is committed, or in ChangeRejected."""

    token: int
    payload: bytes
    record_count: int


@dataclass(frozen=True, slots=True)
class AddVoter:
    token: int
    voter: Voter


@dataclass(frozen=True, slots=True)
class RemoveVoter:
    token: int
    key: ReplicaKey


@dataclass(frozen=True, slots=True)
class UpgradeKraftVersion:
    """Write the voters of the settings to the log, as they have described themselves to this leader (kraft.version 0 to 1)."""

    token: int


@dataclass(frozen=True, slots=True)
class SnapshotTaken:
    """The state machine has written the requested snapshot, and it is durable."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class SnapshotReceived:
    """A fetched snapshot is complete and durable; `voters` is the content of its VotersRecord, if it has one."""

    snapshot: SnapshotId
    voters: VoterSet | None


@dataclass(frozen=True, slots=True)
class Shutdown:
    """Controlled shutdown: a leader names successors."""


Event = (
    RequestReceived
    | ResponseReceived
    | RequestFailed
    | AppendRequest
    | AddVoter
    | RemoveVoter
    | UpgradeKraftVersion
    | SnapshotTaken
    | SnapshotReceived
    | Shutdown
)


# Writes, in the order they must become durable.


@dataclass(frozen=True, slots=True)
class SaveQuorumState:
    state: QuorumState
    static_voters: VoterSet | None = None
    """The voters if they are those of the settings: the file then has the format of kraft.version 0."""


@dataclass(frozen=True, slots=True)
class AppendEntry:
    entry: Entry


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """Remove every entry from `offset` on."""

    offset: int


@dataclass(frozen=True, slots=True)
class WriteSnapshotChunk:
    """Part of a snapshot being fetched; position 0 starts it again. SnapshotReceived follows the last part."""

    snapshot: SnapshotId
    position: int
    data: bytes
    last: bool


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """Replace the whole log by the received snapshot. The log is then empty and starts at the snapshot's end."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class DropBefore:
    """Entries before the end of this snapshot, and older snapshots, are no longer needed."""

    snapshot: SnapshotId


Write = SaveQuorumState | AppendEntry | TruncateTo | WriteSnapshotChunk | InstallSnapshot | DropBefore


# Sends. `read` names the part of a response that comes from storage; the driver reads it when it takes the Ready.


@dataclass(frozen=True, slots=True)
class LogRead:
    """Whole batches from `offset` up to `end_offset`, as many as fit in `max_bytes`, but at least one."""

    offset: int
    end_offset: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class SnapshotRead:
    snapshot: SnapshotId
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class SendRequest:
    peer: int
    request_id: int
    request: Request


@dataclass(frozen=True, slots=True)
class SendResponse:
    token: int
    response: Response
    read: LogRead | SnapshotRead | None = None
    """Fills `entries` of a FetchResponse, or `data` and `size` of a FetchSnapshotResponse."""


Send = SendRequest | SendResponse


# Replies, in order: to pending requests and to the state machine.


@dataclass(frozen=True, slots=True)
class Appended:
    token: int
    base_offset: int


@dataclass(frozen=True, slots=True)
class VoterChanged:
    token: int


@dataclass(frozen=True, slots=True)
class ChangeRejected:
    """An append or a voter change was refused, or its outcome is unknown because leadership was lost meanwhile."""

    token: int
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class Committed:
    """Entries from `offset` up to `end_offset` are committed and durable here: apply them. Each offset comes exactly once."""

    offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class LoadSnapshot:
    """Replace the state by this snapshot. The high watermark is at least its end."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Write the state that results from the preceding replies as a snapshot. SnapshotTaken follows."""

    snapshot: SnapshotId
    voters: VoterSet | None
    """For the snapshot's VotersRecord; None while voters are static."""


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """The current leader. The leader itself receives it once everything from before its epoch has been committed and delivered."""

    epoch: int
    leader_id: int | None


Reply = Appended | VoterChanged | ChangeRejected | Committed | LoadSnapshot | TakeSnapshot | LeaderChanged


# Notes.


@dataclass(frozen=True, slots=True)
class RoleChanged:
    epoch: int
    role: str
    leader_id: int | None


@dataclass(frozen=True, slots=True)
class HighWatermarkAdvanced:
    offset: int


@dataclass(frozen=True, slots=True)
class LogTruncated:
    """Entries from `offset` up to `end_offset` were dropped; they were never committed."""

    offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class LeadershipLost:
    """The leader did not receive requests from a majority in time and resigned."""

    epoch: int


@dataclass(frozen=True, slots=True)
class PeerRefused:
    """A peer responded with an error."""

    peer: int
    request: str
    error: ErrorCode


Note = RoleChanged | HighWatermarkAdvanced | LogTruncated | LeadershipLost | PeerRefused

RaftReady = Ready[Write, Send, Reply, Note]
