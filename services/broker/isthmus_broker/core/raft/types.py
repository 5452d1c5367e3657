"""Types of the raft core: replicas, log entries, snapshots and the durable state of an election."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class ReplicaKey:
    """A replica: a node together with the log directory it started with, so that a wiped disk is another replica (KIP-853)."""

    node_id: int
    directory_id: UUID | None = None
    """None where the cluster's voters are static (kraft.version 0)."""

    def names(self, replica: "ReplicaKey") -> bool:
        """Whether this key identifies that replica. Without a directory, as with static voters, it identifies the node."""
        return self.node_id == replica.node_id and self.directory_id in (None, replica.directory_id)

    def sort_key(self) -> tuple[int, int]:
        return self.node_id, self.directory_id.int if self.directory_id else 0


@dataclass(frozen=True, slots=True, order=True)
class SnapshotId:
    """The state after every entry below `end_offset`; `epoch` is the epoch of the last of them."""

    end_offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """The end of an epoch in a log: the offset after its last entry."""

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class VoterEndpoint:
    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Voter:
    key: ReplicaKey
    endpoints: tuple[VoterEndpoint, ...] = ()
    min_kraft_version: int = 0
    max_kraft_version: int = 1


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters of a quorum, ordered by node id, at most one per node."""

    voters: tuple[Voter, ...] = ()

    def __post_init__(self) -> None:
        ids = self.node_ids()
        assert list(ids) == sorted(set(ids)), f"voters are not ordered and distinct: {ids}"

    def node_ids(self) -> tuple[int, ...]:
        return tuple(voter.key.node_id for voter in self.voters)

    def find(self, node_id: int) -> Voter | None:
        return next((voter for voter in self.voters if voter.key.node_id == node_id), None)

    def contains(self, key: ReplicaKey) -> bool:
        """Whether this replica is a voter."""
        voter = self.find(key.node_id)
        return voter is not None and voter.key.names(key)

    def is_only_voter(self, key: ReplicaKey) -> bool:
        return len(self.voters) == 1 and self.contains(key)

    def with_voter(self, voter: Voter) -> "VoterSet":
        """This set with one voter added, or replaced if the node already is a voter."""
        others = self.without(voter.key.node_id).voters
        return VoterSet(tuple(sorted((*others, voter), key=lambda each: each.key.node_id)))

    def without(self, node_id: int) -> "VoterSet":
        return VoterSet(tuple(voter for voter in self.voters if voter.key.node_id != node_id))


@dataclass(frozen=True, slots=True)
class Entry:
    """One record batch of the log, opaque except for what raft itself needs."""

    base_offset: int
    last_offset: int
    epoch: int
    payload: bytes
    voters: VoterSet | None = None
    """The voter set in the batch's VotersRecord; it is effective from the moment the entry is in the log."""


@dataclass(frozen=True, slots=True)
class QuorumState:
    """The state that must survive a crash for elections to be safe: Kafka's `quorum-state` file.

    Within one epoch at most one vote is given, and a known leader never changes. A vote need not be kept once the leader is known, since no
    vote is given in an epoch that has a leader.
    """

    epoch: int = 0
    leader_id: int | None = None
    voted: ReplicaKey | None = None


@dataclass(frozen=True, slots=True)
class Recovered:
    """The contents of storage at startup."""

    quorum: QuorumState = QuorumState()
    log_start: int = 0
    log_end: int = 0
    epochs: tuple[tuple[int, int], ...] = ()
    """(epoch, first offset) in order, for the entries of the log."""
    snapshots: tuple[SnapshotId, ...] = ()
    """Complete snapshots, oldest first. The log starts at or below the end of the oldest, or at 0."""
    voters: tuple[tuple[int, VoterSet], ...] = ()
    """(offset, voter set) of every VotersRecord in the log or the snapshots; offset -1 is the set a node was formatted with."""
    bytes_since_snapshot: int = 0


@dataclass(frozen=True, slots=True)
class ReplicaProgress:
    """A replica's progress as its leader tracks it: one row of DescribeQuorum. -1 means never."""

    key: ReplicaKey
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True)
class QuorumInfo:
    """The result of DescribeQuorum; available on the leader only."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: tuple[ReplicaProgress, ...]
    observers: tuple[ReplicaProgress, ...]
