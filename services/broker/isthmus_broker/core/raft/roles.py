"""The roles of a raft node, what each remembers, and the only moves between them.

Everything here is lost in a crash; what must survive is `QuorumState` and the log.
"""

from collections import deque
from dataclasses import dataclass, field

from isthmus_model.clocks import MonotonicMs

from isthmus_broker.core.raft.messages import FetchRequest
from isthmus_broker.core.raft.quorum import Ballot
from isthmus_broker.core.raft.types import ReplicaKey, SnapshotId


@dataclass(slots=True)
class Unattached:
    """Knows an epoch but no leader to follow; may have voted in it."""

    election_at_ms: int
    """When a voter stands for election; an observer only keeps asking who leads."""


@dataclass(slots=True)
class Download:
    """A snapshot being fetched."""

    snapshot: SnapshotId
    position: int = 0
    complete: bool = False
    """Every part is written; the node waits to be told that it holds together."""


@dataclass(slots=True)
class Follower:
    leader_id: int
    fetch_deadline_ms: int
    has_fetched: bool = False
    """A follower in touch with its leader refuses pre-votes (KIP-996), so that a cut-off node cannot depose a working leader."""
    download: Download | None = None
    update_at_ms: int = 0
    """When the leader may next be told that this voter's endpoints have changed."""

    def hear(self, now_ms: MonotonicMs, fetch_timeout_ms: int) -> None:
        """The leader has answered as one."""
        self.has_fetched = True
        self.fetch_deadline_ms = now_ms + fetch_timeout_ms


@dataclass(slots=True)
class Prospective:
    """Asks whether an election could be won, without raising the epoch (KIP-996)."""

    ballot: Ballot
    deadline_ms: int
    losses: int = 0
    """Elections lost in a row; each doubles the longest pause before the next."""


@dataclass(slots=True)
class Candidate:
    ballot: Ballot
    deadline_ms: int
    losses: int = 0
    backing_off: bool = False
    """The election is lost; the deadline is now the end of the pause."""


@dataclass(slots=True)
class FetchState:
    """How far a replica is, as its leader knows it."""

    end_offset: int = -1
    heard_ms: int | None = None
    """Its last valid request of any kind: what the leader's claim to lead rests on."""
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    end_seen_at_fetch: int = -1
    """Where the leader's log ended at its last fetch: reaching it later means it was caught up then."""


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
    """A voter change somebody waits for. Its record may commit even after the wait was given up."""

    token: int
    offset: int
    deadline_ms: int


@dataclass(slots=True)
class Leader:
    since_ms: int
    epoch_start: int
    """Offset of the LeaderChange entry: only when it is committed is anything from before it known to be."""
    granting: tuple[int, ...]
    progress: dict[ReplicaKey, FetchState] = field(default_factory=dict)
    parked: dict[ReplicaKey, ParkedFetch] = field(default_factory=dict)
    appends: deque[PendingAppend] = field(default_factory=deque)
    change: PendingVoterChange | None = None
    announced_ms: dict[int, int] = field(default_factory=dict)
    """When each voter was last sent BeginQuorumEpoch."""


@dataclass(slots=True)
class Resigned:
    """Led this epoch and gave up; leads no more in it and gives no vote in it."""

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
Unattached   to Unattached on a higher epoch or after voting; to Prospective on the election timeout; to Follower on hearing of a leader
Follower     to Unattached or Follower on a higher epoch; to Prospective when fetching fails for too long
Prospective  to Candidate with a majority's pre-votes; to Follower of the known leader or Unattached when it loses, votes, or
             hears of a higher epoch
Candidate    to Leader with a majority's votes; to Prospective when it loses; to Follower or Unattached on hearing of another
Leader       to Unattached or Follower on a higher epoch; to Resigned on shutdown, without a majority, or when voted out
Resigned     to Unattached on a timeout, always with a higher epoch; to Unattached or Follower on hearing of one
"""


def check_transition(old: Role, new: Role, old_epoch: int, new_epoch: int) -> None:
    """Crash on a move that is not in the table, or that keeps an epoch it must leave."""
    assert type(new) in TRANSITIONS[type(old)], f"illegal move from {type(old).__name__} to {type(new).__name__}"
    assert new_epoch >= old_epoch, f"epoch would go back from {old_epoch} to {new_epoch}"
    if isinstance(old, Leader | Resigned) and not isinstance(new, Resigned):
        assert new_epoch > old_epoch, f"{type(old).__name__} must stay out of epoch {old_epoch}"
    if isinstance(new, Candidate):
        assert new_epoch == old_epoch + 1
