"""A replica's fetch session as the leaders of its partitions see it: which of them are worth looking at when it fetches.

A replica may follow thousands of partitions, of which few have news. Each partition marks itself here when something is appended or its
high watermark moves; a fetch looks at those that are marked and at those it names, and is taken as a fetch of all.
"""

from collections.abc import Callable
from typing import Final

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.fast_fields import Topic
from isthmus_wire.fetch import FetchPartition

from isthmus_broker.core.replica.fetch_session import Key, Session
from isthmus_broker.core.replica.progress import LONG_AGO, FetchClock
from isthmus_broker.edge.replication.partition import Partition

LOOK_AT_ALL_MS: Final = 5_000
"""How often every partition is looked at: for what no append and no watermark tells of, such as retention at the log's start."""
FOLLOWER_SESSIONS_MAX: Final = 1_000
"""Sessions of replicas that are followed so; whoever comes after that has all its partitions looked at by every fetch."""


class FollowerSession:
    """One session."""

    def __init__(self, session: Session, replica_id: int) -> None:
        self.session = session
        self.clock = FetchClock()
        self._replica_id = replica_id
        self._looked_at_all_ms = LONG_AGO
        self._marked: dict[Key, None] = {}
        self._watched: dict[Key, tuple[Partition, Callable[[], None]]] = {}
        self._wake: Callable[[], None] | None = None

    def begins(
        self, topics: list[tuple[Topic, list[FetchPartition]]], forgotten: list[Key], now_ms: MonotonicMs
    ) -> None:
        """A fetch comes that names these."""
        for key in forgotten:
            self._detach(key)
        self.clock.fetched_ms = now_ms
        if now_ms - self._looked_at_all_ms >= LOOK_AT_ALL_MS:
            self._looked_at_all_ms = now_ms
            self._marked.update(dict.fromkeys(self.session.partitions))
        for topic, parts in topics:
            for part in parts:
                self._marked[topic, part.partition] = None

    def wanted(self) -> list[tuple[Topic, FetchPartition]]:
        """The partitions worth looking at, those that have waited longest first."""
        partitions = self.session.partitions
        for key in [key for key in self._marked if key not in partitions]:
            del self._marked[key]
        return [(key[0], partitions[key].wanted) for key in self._marked]

    def has_seen(self, key: Key, partition: Partition) -> None:
        """There is no more to tell of this partition until it marks itself."""
        self.attach(key, partition)
        if partition.leader is not None:
            partition.leader.progress[self._replica_id].clock = self.clock
            del self._marked[key]

    def attach(self, key: Key, partition: Partition) -> None:
        """From now on the partition marks itself when it has news."""
        known = self._watched.get(key)
        if known is None or known[0] is not partition:
            self._detach(key)
            watch = self._mark(key, partition)
            partition.watch(watch, appends_too=True)
            self._watched[key] = (partition, watch)

    def _mark(self, key: Key, partition: Partition) -> Callable[[], None]:
        def mark() -> None:
            if key not in self._marked:
                self._marked[key] = None
                _settle(partition, self._replica_id)
            if self._wake is not None:
                self._wake()

        return mark

    def _detach(self, key: Key) -> None:
        """The replica asks for this no more."""
        watched = self._watched.pop(key, None)
        if watched is not None:
            partition, watch = watched
            partition.unwatch(watch)
            _settle(partition, self._replica_id)

    def close(self) -> None:
        """The replica has another session. What it was told last may have gone to a connection that it had given up."""
        for key, (partition, _) in list(self._watched.items()):
            self._detach(key)
            if partition.leader is not None:
                partition.leader.tell_again(self._replica_id)

    # -- what a waiting fetch watches ----------------------------------------------------------------------------------------

    def watch(self, wake: Callable[[], None], *, appends_too: bool) -> None:
        """Call `wake` when a partition is marked."""
        self._wake = wake

    def unwatch(self, _wake: Callable[[], None]) -> None:
        """No more."""
        self._wake = None


def _settle(partition: Partition, replica_id: int) -> None:
    """From here on the replica's fetches tell of this partition only what they say."""
    if partition.leader is not None and (progress := partition.leader.progress.get(replica_id)) is not None:
        progress.settle()


class FollowerSessions:
    """The sessions of replicas, by replica and client id: a fetcher that connects anew takes the place of its last life."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[int, str | None], FollowerSession] = {}
        self._waiting: dict[tuple[int, str | None], Callable[[], None]] = {}

    def of(self, replica_id: int, client_id: str | None, session: Session | None) -> FollowerSession | None:
        """What is known of the session; None when the replica keeps none.

        A fetcher has one fetch under way: one that still waits belongs to a connection which the replica has given up.
        """
        fetcher = (replica_id, client_id)
        give_up = self._waiting.pop(fetcher, None)
        if give_up is not None:
            give_up()
        known = self._sessions.get(fetcher)
        if known is not None and known.session is session:
            return known
        if known is not None:
            self._sessions.pop(fetcher).close()
        if session is None or len(self._sessions) >= FOLLOWER_SESSIONS_MAX:
            return None
        made = self._sessions[fetcher] = FollowerSession(session, replica_id)
        return made

    def waits(self, replica_id: int, client_id: str | None, give_up: Callable[[], None]) -> None:
        """A fetch waits. It is given up when the fetcher's next one comes: its answer would count as news told, and reach nobody."""
        if len(self._waiting) < FOLLOWER_SESSIONS_MAX or (replica_id, client_id) in self._waiting:
            self._waiting[replica_id, client_id] = give_up
