"""A replica's fetch reads only partitions that have changed, but its leaders record its progress in all of them."""

import random
from pathlib import Path
from typing import Any

import pytest
from isthmus_broker.core.replica.consumer_reader import ReadResult
from isthmus_broker.core.replica.fetch_session import FetchSessions
from isthmus_broker.core.replica.follower_session import READ_ALL_MS, FollowerSession, FollowerSessions
from isthmus_broker.core.replica.replica_reader import ReplicaReader
from isthmus_broker.core.replica.throttles import Throttles
from isthmus_broker.edge.replication.partition import Partition
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode
from isthmus_wire.fast_fields import Topic
from isthmus_wire.fetch import FetchPartition, FetchRequest

from tests.edge.replication.nodes import EPOCHS, READ_LOG, RULES, become, leadership, node_config, partition, produce
from tests.edge.storage.logs import NOW

LAG_MAX = 10_000
Topics = list[tuple[Topic, list[FetchPartition]]]


class Leader:
    """Two partitions led by node 1, and node 2's session."""

    def __init__(self, directory: Path) -> None:
        self.parts: dict[int, Partition] = {}
        for index in (0, 1):
            part = self.parts[index] = partition(directory / str(index), 1)
            become(part, leadership(1, 4))
        self.sessions = FetchSessions(10, random.Random(1))
        first: Topics = [("t", [self.at(0, 0), self.at(1, 0)])]
        opening = self.sessions.begin(
            FetchRequest(0, 1, 1_000_000, first, session_epoch=0), by_id=False, now_ms=MonotonicMs(NOW)
        )
        assert not isinstance(opening, ErrorCode)
        self.session_id, _ = self.sessions.finish(opening, [], MonotonicMs(NOW))
        self.epoch = 0
        self.followers = FollowerSessions()

    @staticmethod
    def at(index: int, offset: int) -> FetchPartition:
        return FetchPartition(index, offset, 1_000_000, current_leader_epoch=4, log_start_offset=0)

    def fetch(self, *named: FetchPartition, now_ms: int = NOW) -> ReadResult:
        """An incremental fetch that names these partitions."""
        self.epoch += 1
        topics: Topics = [("t", list(named))] if named else []
        request = FetchRequest(0, 1, 1_000_000, topics, session_id=self.session_id, session_epoch=self.epoch)
        fetching = self.sessions.begin(request, by_id=False, now_ms=MonotonicMs(now_ms))
        assert not isinstance(fetching, ErrorCode)
        followed = self.followers.session_of(2, "fetcher", fetching.session)
        assert followed is not None
        followed.begin_fetch(request.topics, [], MonotonicMs(now_ms))
        self.followed = followed
        return self.reread(now_ms, is_new=True)

    def reread(self, now_ms: int = NOW, *, is_new: bool = False) -> ReadResult:
        reader = ReplicaReader(RULES, EPOCHS[2], Throttles(node_config()), READ_LOG, is_incremental=True)
        result = reader.read(
            self.followed.marked(),
            lambda _topic, index: self.parts[index],
            MonotonicMs(now_ms),
            self.followed,
            is_new=is_new,
        )
        reader.record_watermarks_sent(result)
        return result

    def marked(self) -> list[int]:
        return sorted(part.partition for _, part in self.followed.marked())

    def is_caught_up(self, index: int, now_ms: int) -> bool:
        leader, log = self.parts[index].leader, self.parts[index].log
        assert leader is not None
        assert log is not None
        return leader.progress[2].is_caught_up(log.end_offset, MonotonicMs(now_ms), LAG_MAX)


@pytest.fixture
def leader(tmp_path: Path) -> Leader:
    made = Leader(tmp_path)
    for _ in range(3):  # the first reads all; the second confirms the response to the first
        made.fetch()
    return made


def test_unchanged_partitions_are_not_read(leader: Leader) -> None:
    assert leader.marked() == []
    produce(leader.parts[1], b"a")
    assert leader.marked() == [1]
    assert [answer.partition for _, answer in leader.reread().responses] == [1]


def test_a_waiting_fetch_is_woken_by_every_append(leader: Leader) -> None:
    woken: list[int] = []
    leader.followed.watch(lambda: woken.append(1), appends_too=True)
    produce(leader.parts[0], b"a")
    produce(leader.parts[0], b"b")
    assert woken == [1, 1]


def test_a_partition_that_the_replica_names_is_read_until_it_has_caught_up(leader: Leader) -> None:
    produce(leader.parts[0], b"a")
    leader.fetch(leader.at(0, 0))
    response = leader.fetch(leader.at(0, 1))  # this fetch advances the high watermark
    assert [(answer.partition, answer.high_watermark) for _, answer in response.responses] == [(0, 1)]
    assert leader.marked() == [0], "it may not have received it"
    leader.fetch()
    assert leader.marked() == []


def test_every_fetch_of_the_session_counts_for_partitions_it_does_not_read(leader: Leader) -> None:
    late = NOW + 3 * LAG_MAX
    for step in range(1, 4):
        leader.fetch(now_ms=NOW + step * LAG_MAX)
    assert leader.parts[0].leader is not None
    produce(leader.parts[0], b"a")
    assert leader.is_caught_up(0, late + LAG_MAX)
    assert not leader.is_caught_up(0, late + LAG_MAX + 1)
    assert leader.parts[0].leader.progress[2].last_fetch_ms == late


def test_fetches_of_a_session_do_not_count_for_a_partition_removed_from_it(leader: Leader) -> None:
    leader.followed.begin_fetch([], [("t", 0)], MonotonicMs(NOW))
    leader.fetch(now_ms=NOW + 1_000)
    progress = [part.leader.progress[2] for part in leader.parts.values() if part.leader is not None]
    assert [one.last_fetch_ms for one in progress] == [NOW, NOW + 1_000]
    assert [one.last_caught_up_ms for one in progress] == [NOW, NOW + 1_000]


def test_every_partition_is_read_periodically(leader: Leader) -> None:
    leader.fetch(now_ms=NOW + READ_ALL_MS - 1)
    log = leader.parts[0].log
    assert log is not None
    log.raise_start(0)
    assert leader.marked() == []
    leader.followed.begin_fetch([], [], MonotonicMs(NOW + READ_ALL_MS))
    assert leader.marked() == [0, 1]


def test_partitions_of_a_replica_about_to_join_the_isr_are_always_read(leader: Leader) -> None:
    become(leader.parts[0], leadership(1, 4, (1,), partition_epoch=1))
    for _ in range(3):
        leader.fetch()
    assert leader.marked() == [0]
    become(leader.parts[0], leadership(1, 4, (1, 2), partition_epoch=2))
    leader.fetch()
    assert leader.marked() == []


def test_a_change_of_leaders_marks_the_partition(leader: Leader) -> None:
    become(leader.parts[0], leadership(2, 5))
    assert leader.marked() == [0]
    assert [answer.error_code for _, answer in leader.reread().responses] == [ErrorCode.fenced_leader_epoch.value]
    assert leader.marked() == [0], "the replica gets the error until it fetches with another epoch"


def test_a_fetcher_that_reconnects_replaces_its_former_session(leader: Leader) -> None:
    old: Any = leader.followed
    assert leader.followers.session_of(2, "fetcher", None) is None
    produce(leader.parts[0], b"a")
    assert old.marked() == [], "a closed session is not marked"
    fresh = leader.followers.session_of(2, "fetcher", old.session)
    assert isinstance(fresh, FollowerSession)
    assert fresh is not old


def test_a_waiting_fetch_is_cancelled_by_the_fetchers_next_one() -> None:
    """Its connection is lost: the response would count as watermarks sent, and the new session would never send them."""
    followers, given_up = FollowerSessions(), list[str]()
    followers.wait(2, "fetcher", lambda: given_up.append("first"))
    followers.wait(2, "another", lambda: given_up.append("another"))
    followers.session_of(2, "fetcher", None)
    followers.session_of(2, "fetcher", None)
    assert given_up == ["first"]
