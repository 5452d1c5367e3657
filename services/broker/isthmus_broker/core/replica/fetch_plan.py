"""The fetches of one fetcher from one leader: the partitions of the next fetch, the handling of responses, and the retries.

How to drive it, with one fetch under way at a time:

    add(replica), drop(replica)   the partitions that follow this leader
    update(now, max)              before each fetch: False when there is nothing to fetch before `idle_ms`
    fetches, changed              for the session: every partition's fetch, and the keys that may differ from the last request
    handle(key, fetched, now)     for each partition of the response: the follower's decision
    restart()                     the connection is lost: the next fetch names everything
    failed(), succeeded()         attempts to connect, for `backoff_ms`
"""

from typing import Any, Final, Generic, NamedTuple, TypeVar

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.fast_fields import Topic
from isthmus_wire.fetch import FetchedPartition, FetchPartition

from isthmus_broker.core.replica.follower import FIRST_RETRY_MS, NextFetch, ReplicaFollower, Step
from isthmus_broker.core.replica.replica import Replica
from isthmus_broker.core.replica.throttles import Throttles

BACKOFF_DOUBLED_MAX: Final = 16
"""Upper bound on the doublings of the connection back-off; replica.fetch.backoff.ms is usually reached first."""
THROTTLED_MS: Final = 100
"""The interval at which a throttled fetcher checks whether it may fetch again."""

Key = tuple[Topic, int]
P = TypeVar("P", bound=Replica[Any])


class Decision(NamedTuple, Generic[P]):
    """How the follower of a partition handles a response."""

    replica: P
    follower: ReplicaFollower
    step: Step


class FetchPlan(Generic[P]):
    """The partitions of one fetcher."""

    def __init__(self, throttles: Throttles) -> None:
        self.partitions: dict[Key, P] = {}
        self.fetches: dict[Key, FetchPartition] = {}
        self.changed: list[Key] = []
        self.failures = 0
        """Attempts to connect since the last that succeeded."""
        self._throttles = throttles
        self._due: dict[Key, None] = {}
        """Partitions whose next fetch may differ from the last; the others repeat theirs."""
        self._sent: dict[Key, tuple[ReplicaFollower, NextFetch]] = {}

    def add(self, replica: P) -> None:
        """Fetch this partition too; one that was added before now follows in another epoch."""
        key = (replica.topic_id.bytes, replica.index)
        self.partitions[key] = replica
        self._due[key] = None

    def drop(self, replica: P) -> None:
        """Stop fetching this partition."""
        key = (replica.topic_id.bytes, replica.index)
        if self.partitions.pop(key, None) is not None:
            self._due[key] = None

    def update(self, now_ms: MonotonicMs, partition_max: int) -> bool:
        """Decide the fetches of the partitions that are due; returns whether there is anything to fetch."""
        self.changed = list(self._due)
        for key in self.changed:
            self.fetches.pop(key, None)
            replica = self.partitions.get(key)
            if replica is None:
                del self._due[key]
                continue
            follower, log = replica.follower, replica.log
            if follower is None or log is None or self._throttles.holds_back_fetcher(replica, now_ms):
                continue
            fetch = follower.next_fetch(log, now_ms)
            if fetch is None:
                continue
            offset, epoch, last_epoch, start = fetch
            self.fetches[key] = FetchPartition(key[1], offset, partition_max, epoch, last_epoch, start)
            self._sent[key] = (follower, fetch)
            if not self._throttles.is_follower_throttled(replica):
                del self._due[key]
        return bool(self.fetches)

    def idle_ms(self, now_ms: MonotonicMs) -> int:
        """How long to wait when there is nothing to fetch."""
        followers = [self.partitions[key].follower for key in self._due if key in self.partitions]
        resumes = [at for follower in followers if follower is not None and (at := follower.resume_ms()) is not None]
        left = min(resumes) - now_ms if resumes else THROTTLED_MS
        return left if left > 0 else THROTTLED_MS

    def handle(self, key: Key, fetched: FetchedPartition, now_ms: MonotonicMs) -> Decision[P] | None:
        """Handle a partition's response; None if its leader or epoch has changed since the fetch."""
        replica, sent = self.partitions.get(key), self._sent.get(key)
        self._due[key] = None
        if replica is None or sent is None or replica.log is None or replica.follower is not sent[0]:
            return None
        follower, fetch = sent
        return Decision(replica, follower, follower.handle_response(fetch, fetched, replica.log, now_ms))

    def restart(self) -> None:
        """Name every partition in the next fetch."""
        self._due.update(dict.fromkeys(self.partitions))

    # -- connecting ----------------------------------------------------------------------------------------------------------

    def failed(self, backoff_max_ms: int) -> int:
        """Record an attempt to connect that failed; returns how long to wait before the next."""
        backoff_ms = min(FIRST_RETRY_MS << min(self.failures, BACKOFF_DOUBLED_MAX), backoff_max_ms)
        self.failures += 1
        return backoff_ms

    def succeeded(self) -> None:
        """Record that the leader was reached."""
        self.failures = 0
