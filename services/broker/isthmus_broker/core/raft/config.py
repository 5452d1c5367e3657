"""Every bound and period of the raft core in one place, with the defaults of Kafka's `controller.quorum.*` where it has them."""

from dataclasses import dataclass

from isthmus_broker.core.raft.types import ReplicaKey, Voter, VoterSet

REPLICAS_OBSERVED_MAX = 1_000
"""Replicas outside the voter set that a leader keeps track of. Beyond it a new one is served, but neither listed nor parked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    """What one node is told at its start. Times are in milliseconds."""

    local: Voter
    """This node's key, and the endpoints and versions it would have as a voter."""
    static_voters: VoterSet | None = None
    """The voters of `controller.quorum.voters` (kraft.version 0); None where the log says who votes (kraft.version 1)."""
    bootstrap: tuple[int, ...] = ()
    """Further node ids to ask for the leader: the log may name no voter yet, or only ones that are gone."""

    election_timeout_ms: int = 1_000
    """A node without a leader waits this long, and up to as long again at random, before it stands for election."""
    fetch_timeout_ms: int = 2_000
    """A voter that cannot fetch from its leader for this long asks for an election; a leader without a majority's fetches for
    half as long again resigns."""
    election_backoff_max_ms: int = 1_000
    """The longest random pause after a lost election; it starts at `retry_backoff_ms` and doubles with each loss."""
    request_timeout_ms: int = 2_000
    """An unanswered request is given up; also the time after which a voter change is answered REQUEST_TIMED_OUT."""
    retry_backoff_ms: int = 20
    """The pause before asking a peer again that failed or refused."""
    fetch_wait_max_ms: int = 500
    """How long a leader may hold a fetch that has nothing to return."""

    fetch_bytes_max: int = 8 * 1024 * 1024
    """A fetch asks for and gets no more than this, apart from a first batch that is larger."""
    snapshot_chunk_bytes_max: int = 1024 * 1024
    """A snapshot travels in parts of at most this size."""
    append_bytes_max: int = 8 * 1024 * 1024
    """A larger batch is refused with RECORD_LIST_TOO_LARGE."""
    appends_pending_max: int = 10_000
    """Appends waiting for their commit; beyond it an append is refused with THROTTLING_QUOTA_EXCEEDED."""

    snapshot_after_bytes: int = 20 * 1024 * 1024
    """A snapshot is asked for when this much has been appended since the last one,"""
    snapshot_after_ms: int = 3_600_000
    """or when so much time has passed and anything has."""
    snapshots_kept: int = 2
    """The log is kept from the oldest of them on, so that a slow follower need not fetch a snapshot."""

    observer_forgotten_after_ms: int = 300_000
    """An observer that has not fetched for so long is no longer listed, nor accepted as a voter."""

    def __post_init__(self) -> None:
        assert 0 < self.retry_backoff_ms <= self.election_backoff_max_ms
        assert 0 < self.fetch_wait_max_ms < self.fetch_timeout_ms, (
            "a parked fetch must return before its sender gives up"
        )
        assert self.fetch_wait_max_ms < self.request_timeout_ms
        assert self.election_timeout_ms > 0
        assert self.snapshots_kept >= 1
        assert min(self.fetch_bytes_max, self.snapshot_chunk_bytes_max, self.append_bytes_max) > 0

    @property
    def key(self) -> ReplicaKey:
        return self.local.key

    @property
    def node_id(self) -> int:
        return self.local.key.node_id

    @property
    def check_quorum_ms(self) -> int:
        """How long a leader leads without a majority: longer than a follower takes to notice that the leader is gone."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_epoch_period_ms(self) -> int:
        """How often a leader announces itself to voters that do not fetch."""
        return self.fetch_timeout_ms // 2
