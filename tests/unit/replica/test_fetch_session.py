"""Incremental fetch sessions, rule by rule."""

from random import Random

from isthmus_broker.core.replica.fetch_session import EVICTION_MS, FetchSessions, SessionFetch
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode
from isthmus_wire.fast_fields import Topic
from isthmus_wire.fetch import FetchedPartition, FetchPartition, FetchRequest


def request(epoch: int, partitions: list[int], session_id: int = 0, forgotten: list[int] | None = None) -> FetchRequest:
    topics: list[tuple[Topic, list[FetchPartition]]] = (
        [("t", [FetchPartition(index, 0, 1000) for index in partitions])] if partitions else []
    )
    removed: list[tuple[Topic, list[int]]] = [("t", forgotten)] if forgotten else []
    return FetchRequest(0, 1, 1000, topics, session_id=session_id, session_epoch=epoch, forgotten=removed)


def responses(
    fetching: SessionFetch, watermark: int = 0, records: dict[int, bytes] | None = None
) -> list[tuple[Topic, FetchedPartition]]:
    data = records or {}
    return [
        (
            topic,
            FetchedPartition(
                p.partition, 0, watermark, watermark, 0, records=(data[p.partition],) if p.partition in data else ()
            ),
        )
        for topic, p in fetching.partitions
    ]


def begun(sessions: FetchSessions, sent_request: FetchRequest, now_ms: int = 0) -> SessionFetch:
    fetching = sessions.begin(sent_request, by_id=False, now_ms=MonotonicMs(now_ms))
    assert isinstance(fetching, SessionFetch)
    return fetching


def opened(sessions: FetchSessions, partitions: list[int], now_ms: int = 0) -> int:
    fetching = begun(sessions, request(0, partitions), now_ms)
    session_id, sent = sessions.finish(fetching, responses(fetching), MonotonicMs(now_ms))
    assert [p.partition for _, group in sent for p in group] == partitions
    return session_id


def test_a_session_returns_only_changes_and_reads_partitions_in_rotation() -> None:
    sessions = FetchSessions(10, Random(1))
    session_id = opened(sessions, [0, 1, 2])
    assert session_id > 0
    quiet = begun(sessions, request(1, [], session_id))
    assert [p.partition for _, p in quiet.partitions] == [0, 1, 2]
    assert sessions.finish(quiet, responses(quiet), MonotonicMs(0)) == (session_id, [])
    busy = begun(sessions, request(2, [], session_id))
    _, sent = sessions.finish(busy, responses(busy, records={0: b"x"}), MonotonicMs(0))
    assert [p.partition for _, group in sent for p in group] == [0]
    after = begun(sessions, request(3, [], session_id))
    assert [p.partition for _, p in after.partitions] == [1, 2, 0]
    _, sent = sessions.finish(after, responses(after, watermark=5), MonotonicMs(0))
    assert sorted(p.partition for _, group in sent for p in group) == [0, 1, 2]


def test_partitions_join_and_leave_a_session() -> None:
    sessions = FetchSessions(10, Random(1))
    session_id = opened(sessions, [0, 1])
    changed = begun(sessions, request(1, [4], session_id, forgotten=[0]))
    assert [p.partition for _, p in changed.partitions] == [1, 4]
    emptied = begun(sessions, request(2, [], session_id, forgotten=[1, 4]))
    assert list(emptied.partitions) == []
    assert sessions.finish(emptied, [], MonotonicMs(0)) == (0, [])
    assert len(sessions) == 0


def test_wrong_ids_and_epochs_are_refused() -> None:
    sessions = FetchSessions(10, Random(1))
    session_id = opened(sessions, [0])
    assert (
        sessions.begin(request(1, [], session_id + 1), by_id=False, now_ms=MonotonicMs(0))
        is ErrorCode.fetch_session_id_not_found
    )
    assert (
        sessions.begin(request(2, [], session_id), by_id=False, now_ms=MonotonicMs(0))
        is ErrorCode.invalid_fetch_session_epoch
    )
    assert (
        sessions.begin(request(1, [], session_id), by_id=True, now_ms=MonotonicMs(0))
        is ErrorCode.fetch_session_topic_id_error
    )
    begun(sessions, request(-1, [0], session_id))
    assert (
        sessions.begin(request(1, [], session_id), by_id=False, now_ms=MonotonicMs(0))
        is ErrorCode.fetch_session_id_not_found
    )


def test_a_full_cache_evicts_only_sessions_that_were_unused_for_long() -> None:
    sessions = FetchSessions(1, Random(1))
    first = opened(sessions, [0], now_ms=0)
    assert opened(sessions, [0], now_ms=EVICTION_MS) == 0
    second = opened(sessions, [0], now_ms=EVICTION_MS + 1)
    assert second not in (0, first)
    assert len(sessions) == 1


def test_a_topic_deleted_within_a_session_is_unknown_by_name_not_by_id() -> None:
    sessions = FetchSessions(10, Random(1))
    session_id = opened(sessions, [0])
    for epoch in (1, 2):
        fetching = begun(sessions, request(epoch, [1], session_id))
        deleted: list[tuple[Topic, FetchedPartition]] = [
            ("t", FetchedPartition(index, ErrorCode.unknown_topic_id.value)) for index in (0, 1)
        ]
        _, sent = sessions.finish(fetching, deleted, MonotonicMs(0))
        assert [(p.partition, p.error_code) for _, group in sent for p in group] == [
            (1, ErrorCode.unknown_topic_id.value),
            (0, ErrorCode.unknown_topic_or_partition.value),
        ]


def test_a_fetch_in_another_epoch_gets_the_watermark_again() -> None:
    """It ignores responses to fetches of the last epoch: if they counted as sent, it would never get the high watermark."""
    sessions = FetchSessions(10, Random(1))
    session_id = opened(sessions, [0])
    sent_request = request(1, [], session_id)._replace(
        topics=[("t", [FetchPartition(0, 0, 1000, current_leader_epoch=4)])]
    )
    fetching = begun(sessions, sent_request)
    _, sent = sessions.finish(fetching, responses(fetching), MonotonicMs(0))
    assert [p.partition for _, group in sent for p in group] == [0]
    quiet = begun(sessions, request(2, [], session_id))
    assert sessions.finish(quiet, responses(quiet), MonotonicMs(0)) == (session_id, [])


def test_a_watermark_sent_with_a_divergence_does_not_count_as_received() -> None:
    """A reader that must truncate its log first ignores the watermark; it must be sent again although nothing has changed."""
    for opens in (True, False):
        sessions = FetchSessions(10, Random(1))
        session_id = 0 if opens else opened(sessions, [0])
        diverged = begun(sessions, request(0, [0]) if opens else request(1, [], session_id))
        (topic, response), *_ = responses(diverged, watermark=5)
        session_id, _ = sessions.finish(diverged, [(topic, response._replace(diverging_epoch=(1, 5)))], MonotonicMs(0))
        after = begun(sessions, request(1 if opens else 2, [], session_id))
        _, sent = sessions.finish(after, responses(after, watermark=5), MonotonicMs(0))
        assert [p.high_watermark for _, group in sent for p in group] == [5]
