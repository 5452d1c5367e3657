"""The roles of a raft node, the volatile state of each, and the legal transitions.

Everything here is lost in a crash; what must survive is `QuorumState` and the log.
"""

from collections import deque
from dataclasses import dataclass, field

from isthmus_model.clocks import MonotonicMs

from isthmus_broker.core.raft.messages import FetchRequest
from isthmus_broker.core.raft.quorum import Ballot
from isthmus_broker.core.raft.types import ReplicaKey, SnapshotId, Voter


@dataclass(slots=True)
class Unattached:
    """An epoch is known but no leader to follow; the node may have voted in it."""

    election_at_ms: int
    """When a voter starts an election. An observer only continues to look for the leader."""
    losses: int = 0
    """Consecutive lost elections. Each doubles the upper bound of the next pause."""


@dataclass(slots=True)
class Download:
    """A snapshot being fetched."""

    snapshot: SnapshotId
    position: int = 0
    complete: bool = False
    """Every part is written; the storage now verifies the snapshot."""


@dataclass(slots=True)
class Follower:
    leader_id: int
    fetch_deadline_ms: int
    has_fetched: bool = False
    """A follower in contact with its leader refuses pre-votes (KIP-996), so that an isolated node cannot depose a working leader."""
    download: Download | None = None
    update_at_ms: int = 0
    """When this voter may next describe itself to the leader."""
    has_described_itself: bool = False
    """Whether the leader has this voter's description, which it does not store while the voters are static."""
    losses: int = 0
    """Consecutive elections lost since the leader's last response. Each doubles the upper bound of the next pause."""
    is_majority_dead: bool = False
    """Whether most voters' processes were dead in the last of these elections."""

    def record_response(self, now_ms: MonotonicMs, fetch_timeout_ms: int) -> None:
        """Record a valid response from the leader."""
        self.has_fetched = True
        self.losses = 0
        self.fetch_deadline_ms = now_ms + fetch_timeout_ms


@dataclass(slots=True)
class Election:
    """What pre-votes and votes have in common."""

    ballot: Ballot
    deadline_ms: int
    losses: int = 0
    early_deadline_ms: int = 0
    """The deadline while only unresponsive voters can still decide."""

    def ends_ms(self) -> int:
        """When this election ends without a result."""
        early = self.early_deadline_ms if self.ballot.needs_unresponsive() else self.deadline_ms
        return min(early, self.deadline_ms)


@dataclass(slots=True)
class Prospective(Election):
    """Queries whether an election could be won, without raising the epoch (KIP-996)."""


@dataclass(slots=True)
class Candidate(Election):
    """Requests votes in an epoch of its own."""

    backing_off: bool = False
    """The election is lost; the deadline is now the end of the pause."""


@dataclass(slots=True)
class FetchState:
    """The progress of a replica, as its leader tracks it."""

    end_offset: int = -1
    contact_ms: int | None = None
    """Time of its last valid request of any kind. The leader resigns without recent contact to a majority."""
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    leader_end_at_fetch: int = -1
    """The leader's log end offset at the replica's last fetch. A later fetch at this offset shows that the replica was caught up then."""


@dataclass(slots=True)
class ParkedFetch:
    token: int
    request: FetchRequest
    deadline_ms: int


@dataclass(slots=True)
class PendingAppend:
    token: int
    base_offset: int
    last_offset: int


@dataclass(slots=True)
class PendingVoterChange:
    """A voter change whose requester waits for it. Its record may be committed even after the wait has timed out."""

    token: int
    offset: int
    deadline_ms: int


@dataclass(slots=True)
class Leader:
    since_ms: int
    epoch_start: int
    """Offset of the LeaderChange entry. Earlier entries count as committed only once it is committed."""
    granting: tuple[int, ...]
    predecessor_contact: tuple[int, MonotonicMs] | None = None
    """The leader that this node followed before, and when it received its last message."""
    progress: dict[ReplicaKey, FetchState] = field(default_factory=dict)
    parked: dict[ReplicaKey, ParkedFetch] = field(default_factory=dict)
    appends: deque[PendingAppend] = field(default_factory=deque)
    change: PendingVoterChange | None = None
    announced_ms: dict[int, int] = field(default_factory=dict)
    """When each voter was last sent BeginQuorumEpoch."""
    descriptions: dict[int, Voter] = field(default_factory=dict)
    """The other static voters as they describe themselves, for an upgrade to kraft.version 1."""


@dataclass(slots=True)
class Resigned:
    """Led this epoch and resigned. Does not lead or vote in it again."""

    deadline_ms: int
    successors: tuple[ReplicaKey, ...]
    uninformed: set[int]
    """Voters that have not acknowledged EndQuorumEpoch."""


Role = Unattached | Follower | Prospective | Candidate | Leader | Resigned

TRANSITIONS: dict[type[Role], tuple[type[Role], ...]] = {
    Unattached: (Unattached, Prospective, Follower),
    Follower: (Unattached, Prospective, Follower),
    Prospective: (Unattached, Candidate, Follower),
    Candidate: (Unattached, Prospective, Leader, Follower),
    Leader: (Unattached, Follower, Resigned),
    Resigned: (Unattached, Follower),
}
"""
Unattached   to Unattached on a higher epoch or after voting; to Prospective on the election timeout; to Follower when it learns of a leader
Follower     to Unattached or Follower on a higher epoch; to Prospective when fetching fails for too long
Prospective  to Candidate with a majority's pre-votes; to Follower of the current leader or Unattached when it loses, votes, or
             learns of a higher epoch
Candidate    to Leader with a majority's votes; to Prospective when it loses; to Follower or Unattached when it learns of another
Leader       to Unattached or Follower on a higher epoch; to Resigned on shutdown, without a majority, or when removed from the voters
Resigned     to Unattached on a timeout, always with a higher epoch; to Unattached or Follower when it learns of one
"""


def check_transition(old: Role, new: Role, old_epoch: int, new_epoch: int) -> None:
    """Assert that a transition is in the table and that the epochs are legal."""
    assert type(new) in TRANSITIONS[type(old)], f"illegal transition from {type(old).__name__} to {type(new).__name__}"
    assert new_epoch >= old_epoch, f"epoch decreases from {old_epoch} to {new_epoch}"
    if isinstance(old, Leader | Resigned) and not isinstance(new, Resigned):
        assert new_epoch > old_epoch, f"{type(old).__name__} must not act again in epoch {old_epoch}"
    if isinstance(new, Candidate):
        assert new_epoch == old_epoch + 1
