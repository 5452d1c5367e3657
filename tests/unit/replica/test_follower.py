"""The follower's decisions: what it fetches, where it truncates its log, how it continues after errors."""

import random
from typing import Any

import pytest
from isthmus_broker.core.replica.follower import (
    AppendFetched,
    NextFetch,
    ReplicaFollower,
    ResolveOffsets,
    RestartAt,
    Truncate,
    Wait,
)
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode
from isthmus_wire.fetch import FetchedPartition

from tests.unit.replica.logs import ModelLog

NOW, BACKOFF = MonotonicMs(5_000), 1_000


def follower() -> ReplicaFollower:
    return ReplicaFollower(1, 9, BACKOFF)


def response(error: ErrorCode = ErrorCode.none, **fields: Any) -> FetchedPartition:
    return FetchedPartition(0, error.value, **fields)


def next_fetch(one: ReplicaFollower, log: ModelLog) -> NextFetch:
    fetch = one.next_fetch(log, NOW)
    assert fetch is not None
    return fetch


def test_it_fetches_from_its_log_end_with_the_epoch_of_its_last_record() -> None:
    log = ModelLog([3, 3, 5], start=10)
    assert next_fetch(follower(), log) == NextFetch(13, 9, 5, 10)


def test_records_are_appended_and_the_leaders_watermarks_applied() -> None:
    log = ModelLog([3, 3], high_watermark=1)
    one = follower()
    step = one.handle_response(next_fetch(one, log), response(high_watermark=3, log_start_offset=1), log, NOW)
    assert step == AppendFetched(3, 1)
    assert isinstance(step, AppendFetched)
    log.append(3)
    assert (step.high_watermark(log), step.log_start(log)) == (3, 1)


def test_the_high_watermark_is_at_most_the_log_end_and_never_moves_back() -> None:
    log = ModelLog([3, 3], high_watermark=1)
    assert AppendFetched(9, 0).high_watermark(log) == 2
    assert AppendFetched(0, 0).high_watermark(log) == 1
    assert AppendFetched(9, 5).log_start(log) == 2


def test_a_response_to_an_outdated_fetch_is_ignored() -> None:
    log = ModelLog([3, 3])
    one = follower()
    fetch = next_fetch(one, log)
    log.append(3)
    assert one.handle_response(fetch, response(diverging_epoch=(2, 0)), log, NOW) == Wait()


@pytest.mark.parametrize(
    ("records", "diverging", "truncated_to"),
    [
        ([1, 1, 2, 2], (2, 3), 3),  # the same epoch, shorter at the leader
        ([1, 1, 2, 2], (1, 3), 2),  # an epoch that ends earlier here
        ([1, 1, 2, 2], (1, 1), 1),
        ([1, 1, 4, 4], (3, 7), 2),  # an epoch that this log never had: back to the end of an older one
        ([4, 4], (3, 5), 0),  # all epochs here are newer
        ([1, 1], (1, -1), 1),  # no offset: back to the high watermark
    ],
)
def test_where_the_log_is_truncated(records: list[int], diverging: tuple[int, int], truncated_to: int) -> None:
    log = ModelLog(records, high_watermark=min(1, len(records)))
    one = follower()
    assert one.handle_response(next_fetch(one, log), response(diverging_epoch=diverging), log, NOW) == Truncate(
        truncated_to
    )


def test_records_below_the_leaders_log_start_cannot_be_compared_and_are_deleted() -> None:
    log = ModelLog([1, 1, 1, 1])
    one = follower()
    diverged = response(diverging_epoch=(1, 3), log_start_offset=3)
    assert one.handle_response(next_fetch(one, log), diverged, log, NOW) == RestartAt(3)


def leader_verdict(leader: ModelLog, fetch: NextFetch) -> tuple[int, int] | None:
    """The diverging epoch in a leader's response."""
    if fetch.last_fetched_epoch < 0:
        return None
    epoch, end = leader.epochs.end_offset(fetch.last_fetched_epoch, leader.end_offset)
    return (epoch, end) if epoch < fetch.last_fetched_epoch or end < fetch.offset else None


@pytest.mark.parametrize("seed", range(300))
def test_any_two_logs_converge_and_keep_the_records_they_share(seed: int) -> None:
    rng = random.Random(seed)
    shared = sorted(rng.randrange(4) for _ in range(rng.randrange(6)))
    last = shared[-1] if shared else 0
    # Each epoch after the divergence has one leader, so no epoch is in both logs.
    mine = sorted(rng.choice(range(last + 1, last + 9, 2)) for _ in range(rng.randrange(6)))
    theirs = sorted(rng.choice(range(last + 2, last + 10, 2)) for _ in range(rng.randrange(6)))
    log, leader = ModelLog([*shared, *mine]), ModelLog([*shared, *theirs])
    leader.epochs.assign(50, leader.end_offset)
    one = ReplicaFollower(1, 50, BACKOFF)
    for _ in range(20):
        fetch = next_fetch(one, log)
        verdict = leader_verdict(leader, fetch)
        step = one.handle_response(
            fetch, response(diverging_epoch=verdict, high_watermark=0, log_start_offset=0), log, NOW
        )
        if isinstance(step, Truncate):
            log.truncate(step.end_offset)
            continue
        assert isinstance(step, AppendFetched)
        break
    assert log.records == [*shared, *theirs][: log.end_offset], "the log has only records that the leader has"
    assert log.end_offset >= len(shared), "no shared record is removed"


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.unknown_topic_id,
        ErrorCode.kafka_storage_error,
        ErrorCode.inconsistent_topic_id,
    ],
)
def test_other_errors_are_retried_after_a_back_off(error: ErrorCode) -> None:
    log = ModelLog([3])
    one = follower()
    fetch = next_fetch(one, log)
    waits = []
    for _ in range(8):
        assert one.handle_response(fetch, response(error), log, NOW) == Wait()
        until = one.resume_ms()
        assert until is not None
        assert one.next_fetch(log, MonotonicMs(until - 1)) is None
        assert one.next_fetch(log, MonotonicMs(until)) == fetch
        waits.append(until - NOW)
    assert waits == [20, 40, 80, 160, 320, 640, BACKOFF, BACKOFF]
    one.handle_response(fetch, response(high_watermark=0, log_start_offset=0), log, NOW)
    one.back_off(NOW)
    assert one.resume_ms() == NOW + 20, "a response without an error resets the back-off"


def test_a_fenced_follower_waits_for_the_metadata() -> None:
    log = ModelLog([3])
    one = follower()
    assert one.handle_response(next_fetch(one, log), response(ErrorCode.fenced_leader_epoch), log, NOW) == Wait()
    assert one.next_fetch(log, MonotonicMs(NOW + 1_000_000)) is None
    assert one.resume_ms() is None


def test_an_offset_the_leader_does_not_have() -> None:
    log = ModelLog([3] * 4, start=10)
    one = follower()
    assert (
        one.handle_response(next_fetch(one, log), response(ErrorCode.offset_out_of_range), log, NOW) == ResolveOffsets()
    )
    assert one.handle_offsets(5, 12, log, NOW) == Truncate(12)
    assert one.handle_offsets(15, 20, log, NOW) == RestartAt(15)
    assert one.next_fetch(log, NOW) is not None
    assert one.handle_offsets(14, 20, log, NOW) == Wait()
    assert one.next_fetch(log, NOW) is None


def test_a_log_without_epochs_begins_at_the_high_watermark() -> None:
    log = ModelLog([0] * 4, high_watermark=2)
    log.epochs.truncate_from_end(0)
    assert follower().begin(log) == Truncate(2)
    assert follower().begin(ModelLog([1] * 4, high_watermark=2)) == Wait()
