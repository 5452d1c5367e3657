"""A follower's fetch session at the leader: which of its partitions must be read for a fetch.

A replica may follow thousands of partitions, and few of them change between two fetches. Each partition marks itself here when something
is appended or its high watermark moves; a fetch reads those that are marked and those it names, and counts as a fetch of all.
"""

from collections.abc import Callable
from typing import Any, Final

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.fast_fields import Topic
from isthmus_wire.fetch import FetchPartition

from isthmus_broker.core.replica.fetch_session import Key, Session
from isthmus_broker.core.replica.progress import LONG_AGO, FetchClock
from isthmus_broker.core.replica.replica import Replica

READ_ALL_MS: Final = 5_000
"""The interval at which every partition is read, for changes that mark no partition, such as a log start moved by retention."""
FOLLOWER_SESSIONS_MAX: Final = 1_000
"""Upper bound on tracked sessions of replicas; every fetch of another session reads all its partitions."""


class FollowerSession:
    """One session."""

    def __init__(self, session: Session, replica_id: int) -> None:
        self.session = session
        self.clock = FetchClock()
        self._replica_id = replica_id
        self._all_read_ms = LONG_AGO
        self._marked: dict[Key, None] = {}
        self._watched: dict[Key, tuple[Replica[Any], Callable[[], None]]] = {}
        self._wake: Callable[[], None] | None = None

    def begin_fetch(
        self, topics: list[tuple[Topic, list[FetchPartition]]], forgotten: list[Key], now_ms: MonotonicMs
    ) -> None:
        """Record a fetch that names these partitions."""
        for key in forgotten:
            self._detach(key)
        self.clock.fetched_ms = now_ms
        if now_ms - self._all_read_ms >= READ_ALL_MS:
            self._all_read_ms = now_ms
            self._marked.update(dict.fromkeys(self.session.partitions))
        for topic, parts in topics:
            for part in parts:
                self._marked[topic, part.partition] = None

    def marked(self) -> list[tuple[Topic, FetchPartition]]:
        """The partitions to read, those marked longest ago first."""
        partitions = self.session.partitions
        for key in [key for key in self._marked if key not in partitions]:
            del self._marked[key]
        return [(key[0], partitions[key].request) for key in self._marked]

    def clear(self, key: Key, replica: Replica[Any]) -> None:
        """Stop reading this partition until it marks itself again: the follower has caught up."""
        self.attach(key, replica)
        if replica.leader is not None:
            replica.leader.progress[self._replica_id].clock = self.clock
            del self._marked[key]

    def attach(self, key: Key, replica: Replica[Any]) -> None:
        """Let the partition mark itself when it changes."""
        current = self._watched.get(key)
        if current is None or current[0] is not replica:
            self._detach(key)
            watch = self._mark(key, replica)
            replica.watch(watch, appends_too=True)
            self._watched[key] = (replica, watch)

    def _mark(self, key: Key, replica: Replica[Any]) -> Callable[[], None]:
        def mark() -> None:
            if key not in self._marked:
                self._marked[key] = None
                _settle(replica, self._replica_id)
            if self._wake is not None:
                self._wake()

        return mark

    def _detach(self, key: Key) -> None:
        """Stop tracking a partition that the session no longer fetches."""
        watched = self._watched.pop(key, None)
        if watched is not None:
            replica, watch = watched
            replica.unwatch(watch)
            _settle(replica, self._replica_id)

    def close(self) -> None:
        """Close the session: the follower has another. It may not have received the last response."""
        for key, (replica, _) in list(self._watched.items()):
            self._detach(key)
            if replica.leader is not None:
                replica.leader.forget_watermarks_sent(self._replica_id)

    # -- waiting fetches -----------------------------------------------------------------------------------------------------

    def watch(self, wake: Callable[[], None], *, appends_too: bool) -> None:
        """Call `wake` when a partition is marked."""
        self._wake = wake

    def unwatch(self, _wake: Callable[[], None]) -> None:
        """Stop calling `wake`."""
        self._wake = None


def _settle(replica: Replica[Any], replica_id: int) -> None:
    """From now on, count only those fetches of the follower that name this partition."""
    if replica.leader is not None and (progress := replica.leader.progress.get(replica_id)) is not None:
        progress.settle()


class FollowerSessions:
    """The sessions of replicas, by replica and client id: a fetcher that reconnects replaces its former connection."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[int, str | None], FollowerSession] = {}
        self._waiting: dict[tuple[int, str | None], Callable[[], None]] = {}

    def session_of(self, replica_id: int, client_id: str | None, session: Session | None) -> FollowerSession | None:
        """The tracked session of a fetcher; None when the replica uses none.

        A fetcher has one fetch under way: an older one that still waits belongs to a connection that the replica has closed.
        """
        fetcher = (replica_id, client_id)
        give_up = self._waiting.pop(fetcher, None)
        if give_up is not None:
            give_up()
        current = self._sessions.get(fetcher)
        if current is not None and current.session is session:
            return current
        if current is not None:
            self._sessions.pop(fetcher).close()
        if session is None or len(self._sessions) >= FOLLOWER_SESSIONS_MAX:
            return None
        opened = self._sessions[fetcher] = FollowerSession(session, replica_id)
        return opened

    def wait(self, replica_id: int, client_id: str | None, give_up: Callable[[], None]) -> None:
        """Cancel the waiting fetch when the fetcher's next one arrives: its response would be lost but count as watermarks sent."""
        if len(self._waiting) < FOLLOWER_SESSIONS_MAX or (replica_id, client_id) in self._waiting:
            self._waiting[replica_id, client_id] = give_up
