"""Every bound and interval of the raft core, with the defaults of Kafka's `controller.quorum.*` where it has them."""

from dataclasses import dataclass
from typing import Final

from isthmus_broker.core.raft.types import ReplicaKey, Voter, VoterSet

REPLICAS_OBSERVED_MAX = 1_000
"""Limit on the non-voters that a leader tracks. Further ones are served, but neither listed nor parked."""


FETCH_WAIT_MAX_MS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    """Configuration of one node, fixed at startup. Times are in milliseconds."""

    local: Voter
    """This node's key, and its endpoints and versions if it is or becomes a voter."""
    static_voters: VoterSet | None = None
    """The voters of `controller.quorum.voters`, effective while the log contains none (kraft.version 0)."""
    bootstrap: tuple[int, ...] = ()
    """Further nodes to query for the leader. The log may contain no voters yet, or only voters that no longer exist."""

    election_timeout_ms: int = 1_000
    """A node without a leader starts an election after this time plus a random time of up to the same length."""
    fetch_timeout_ms: int = 2_000
    """A voter that cannot fetch from its leader for this long starts an election. A leader that a majority has not fetched from for 1.5
    times as long resigns."""
    election_backoff_max_ms: int = 1_000
    """Upper bound on the pause before a retry, and on the random pause after a lost election, which starts at `retry_backoff_ms` and
    doubles with each loss."""
    request_timeout_ms: int = 2_000
    """Timeout of a request to a peer, and of a voter change (REQUEST_TIMED_OUT)."""
    retry_backoff_ms: int = 20
    """First pause before a retry at a peer that failed or refused a request; it grows while the peer keeps failing."""
    fetch_wait_max_ms: int = FETCH_WAIT_MAX_MS
    """Upper bound on how long a leader parks a fetch that has nothing to return."""

    fetch_bytes_max: int = 8 * 1024 * 1024
    """Maximum size of a fetch response. A larger first batch is returned anyway."""
    snapshot_chunk_bytes_max: int = 1024 * 1024
    """Maximum size of one part of a snapshot."""
    append_bytes_max: int = 8 * 1024 * 1024
    """A larger batch is refused with RECORD_LIST_TOO_LARGE."""
    appends_pending_max: int = 10_000
    """Maximum number of appends waiting for their commit. Further ones are refused with THROTTLING_QUOTA_EXCEEDED."""

    snapshot_after_bytes: int = 20 * 1024 * 1024
    """A snapshot is requested when this much has been appended since the last one,"""
    snapshot_after_ms: int = 3_600_000
    """or after this time if anything has been appended."""
    snapshots_kept: int = 2
    """The log is retained from the oldest of these snapshots on, so that a slow follower need not fetch a snapshot."""

    observer_forgotten_after_ms: int = 300_000
    """An observer that has not fetched for this long is no longer listed and cannot become a voter."""

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
        """How long a leader remains leader without a majority. It exceeds the time in which a follower notices a lost leader."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def query_patience_ms(self) -> int:
        """How long a node that looks for the leader waits for one node before it queries another as well."""
        return max(self.election_timeout_ms // 4, 1)

    @property
    def begin_epoch_period_ms(self) -> int:
        """The interval of a leader's announcements to voters that do not fetch."""
        return self.fetch_timeout_ms // 2
