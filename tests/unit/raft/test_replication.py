"""Appending, fetching, committing, diverging, on the leader and on followers."""

from dataclasses import replace
from typing import Any

import pytest
from isthmus_broker.core.raft.events import (
    Appended,
    AppendEntry,
    AppendRequest,
    ChangeRejected,
    Committed,
    LeaderChanged,
    LogRead,
    LogTruncated,
    RaftReady,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    SendRequest,
    SendResponse,
    TruncateTo,
)
from isthmus_broker.core.raft.messages import BeginQuorumEpochRequest, FetchRequest, FetchResponse
from isthmus_broker.core.raft.roles import Follower, Prospective, Unattached
from isthmus_broker.core.raft.types import Entry, EpochEnd, QuorumState, Recovered
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode

from tests.unit.raft.bench import Bench, entry, formatted, key, only, requests, responses, voter_set

THREE = formatted(1, 2, 3)


def leader() -> Bench:
    """Node 1 leads epoch 1 of three voters; its log contains the three records of the epoch's first batch."""
    bench = Bench(THREE)
    bench.lead()
    return bench


def fetched(**fields: Any) -> FetchResponse:
    """A response from a leader of epoch 1."""
    return replace(FetchResponse(error=ErrorCode.none, epoch=1, leader_id=1, high_watermark=0, log_start=0), **fields)


# The leader


def test_an_entry_commits_when_a_majority_has_it_durably() -> None:
    bench = leader()
    bench.append(count=2)
    assert bench.core.high_watermark == 0
    ready = bench.request(bench.fetch(2, 5, 1))
    assert bench.core.high_watermark == 5
    assert ready.replies == (Committed(0, 5), Appended(1, 3), LeaderChanged(1, 1))


def test_entries_of_earlier_epochs_commit_only_together_with_one_of_the_leaders_own() -> None:
    bench = Bench(replace(THREE, log_end=4, epochs=((1, 0),)))
    bench.lead()
    assert bench.core.log_end > 4
    bench.request(bench.fetch(2, 4, 1))
    assert bench.core.high_watermark == 0
    bench.request(bench.fetch(2, bench.core.log_end, bench.core.epoch))
    assert bench.core.high_watermark == bench.core.log_end


def test_nothing_is_served_or_counted_before_it_is_durable_here() -> None:
    bench = leader()
    bench.core.step(AppendRequest(1, b"x", 1), bench.now)
    bench.core.step(RequestReceived(2, bench.fetch(2, 3, 1)), bench.now)
    bench.core.step(RequestReceived(3, bench.fetch(3, 0, 0)), bench.now)
    ready = bench.core.take()
    assert ready.send_now == (
        SendResponse(2, fetched(high_watermark=3)),
        SendResponse(3, fetched(high_watermark=3), LogRead(0, 3, 1_000_000)),
    )
    assert bench.core.high_watermark == 3


def test_a_fetch_with_nothing_to_return_waits_for_new_entries_or_its_timeout() -> None:
    bench = leader()
    bench.request(bench.fetch(2, 3, 1))
    assert responses(bench.request(bench.fetch(2, 3, 1, max_wait_ms=400))) == []
    ready = bench.append()
    assert ready.send_now == (SendResponse(2, fetched(high_watermark=3), LogRead(3, 4, 1_000_000)),)

    assert responses(bench.request(bench.fetch(3, 4, 1, max_wait_ms=400))) == []
    assert responses(bench.wait(399)) == []
    assert responses(bench.wait(1)) == [fetched(high_watermark=4)]


def test_a_fetch_with_an_old_high_watermark_does_not_wait() -> None:
    bench = leader()
    bench.request(bench.fetch(2, 3, 1))
    assert bench.respond(bench.fetch(3, 3, 1, max_wait_ms=400, high_watermark=0)) == fetched(high_watermark=3)


def test_a_second_fetch_of_a_replica_releases_the_first() -> None:
    bench = leader()
    bench.request(bench.fetch(2, 3, 1))
    bench.request(bench.fetch(2, 3, 1, max_wait_ms=400))
    ready = bench.request(bench.fetch(2, 3, 1, max_wait_ms=400))
    assert ready.send_now == (SendResponse(2, fetched(high_watermark=3)),)


def test_a_diverging_replica_receives_the_end_of_its_epoch() -> None:
    bench = Bench(replace(THREE, log_end=6, epochs=((1, 0), (3, 4))))
    bench.lead()
    answer = bench.respond(bench.fetch(2, 8, 2))
    assert isinstance(answer, FetchResponse)
    assert answer.diverging == EpochEnd(1, 4)
    assert bench.core.high_watermark == 0


@pytest.mark.parametrize(("epoch", "error"), [(0, ErrorCode.fenced_leader_epoch), (2, ErrorCode.unknown_leader_epoch)])
def test_a_fetch_of_another_epoch_is_refused(epoch: int, error: ErrorCode) -> None:
    bench = leader()
    assert bench.respond(bench.fetch(2, 3, 1, epoch=epoch)) == FetchResponse(error=error, epoch=1, leader_id=1)


def test_only_a_leader_serves_fetches_and_appends() -> None:
    bench = Bench(THREE)
    refused = FetchResponse(error=ErrorCode.not_leader_or_follower, epoch=0, leader_id=None)
    assert bench.respond(bench.fetch(2, 0, 0)) == refused
    assert bench.append().replies == (ChangeRejected(2, ErrorCode.not_leader_or_follower),)


def test_appends_are_bounded_in_size_and_number() -> None:
    bench = Bench(THREE, append_bytes_max=5, appends_pending_max=2)
    bench.lead()
    assert bench.append(b"123456").replies == (ChangeRejected(1, ErrorCode.record_list_too_large),)
    bench.append()
    bench.append()
    assert bench.append().replies == (ChangeRejected(4, ErrorCode.throttling_quota_exceeded),)


def test_losing_leadership_leaves_the_outcome_of_an_append_open() -> None:
    bench = leader()
    bench.append()
    bench.request(bench.fetch(2, 3, 1, max_wait_ms=400))
    ready = bench.request(BeginQuorumEpochRequest(epoch=2, leader_id=3, voter=key(1)))
    assert ready.replies == (ChangeRejected(1, ErrorCode.not_leader_or_follower), LeaderChanged(2, 3))
    assert bench.role() is Follower


def test_observers_are_described_and_never_counted() -> None:
    bench = leader()
    bench.request(bench.fetch(9, 3, 1))
    assert bench.core.high_watermark == 0
    bench.now = MonotonicMs(bench.now + 100)
    bench.request(bench.fetch(2, 3, 1))
    info = bench.core.describe(bench.now)
    assert info is not None
    assert (info.leader_id, info.epoch, info.high_watermark) == (1, 1, 3)
    rows = [(row.key.node_id, row.log_end_offset, row.last_fetch_ms, row.last_caught_up_ms) for row in info.voters]
    assert rows == [(1, 3, 5_100, 5_100), (2, 3, 5_100, 5_100), (3, -1, -1, -1)]
    assert [(row.key.node_id, row.last_fetch_ms) for row in info.observers] == [(9, 5_000)]
    later = bench.core.describe(MonotonicMs(bench.now + 300_000))
    assert later is not None
    assert later.observers == ()


def test_a_replica_was_caught_up_at_the_earlier_fetch_whose_log_end_it_reaches() -> None:
    bench = leader()
    bench.request(bench.fetch(2, 0, 0))
    bench.append()
    bench.now = MonotonicMs(bench.now + 700)
    bench.request(bench.fetch(2, 3, 1))
    info = bench.core.describe(bench.now)
    assert info is not None
    assert info.voters[1].last_caught_up_ms == bench.now - 700


# The follower


def follower(recovered: Recovered = THREE, **settings: Any) -> tuple[Bench, SendRequest]:
    """Node 1 follows node 2 in epoch 5 and has just sent the fetch that is returned."""
    bench = Bench(recovered, **settings)
    ready = bench.request(BeginQuorumEpochRequest(epoch=5, leader_id=2, voter=key(1)))
    return bench, only(requests(ready, FetchRequest))


def of_leader(**fields: Any) -> FetchResponse:
    return replace(FetchResponse(error=ErrorCode.none, epoch=5, leader_id=2, high_watermark=0, log_start=0), **fields)


def test_a_follower_appends_what_continues_its_log_and_acknowledges_it_when_durable() -> None:
    bench, sent = follower()
    batch = entry(0, 5, 3)
    bench.core.step(ResponseReceived(2, sent.request_id, of_leader(entries=(batch,), high_watermark=9)), bench.now)
    ready = bench.core.take()
    assert ready.persist == (AppendEntry(batch),)
    assert ready.send_now == ()
    fetch = only(requests(ready, FetchRequest)).request
    assert isinstance(sent.request, FetchRequest)
    assert fetch == replace(sent.request, fetch_offset=3, last_fetched_epoch=5, high_watermark=3)
    assert ready.replies == ()
    bench.core.persisted(ready.mark, bench.now)
    assert bench.core.take().replies == (Committed(0, 3),)


@pytest.mark.parametrize("batch", [entry(1, 5), entry(0, 6), replace(entry(0, 5), last_offset=-1)])
def test_a_batch_that_does_not_follow_is_dropped(batch: Entry) -> None:
    bench, sent = follower()
    ready = bench.receive(sent, of_leader(entries=(batch,), high_watermark=9))
    assert ready.persist == ()
    assert bench.core.log_end == 0
    assert requests(ready, FetchRequest) == []
    assert only(requests(bench.wait(20), FetchRequest)).peer == 2


def test_a_diverging_log_is_truncated_where_both_may_agree() -> None:
    bench, sent = follower(replace(THREE, quorum=QuorumState(4), log_end=10, epochs=((1, 0), (2, 4), (4, 8))))
    ready = bench.receive(sent, of_leader(diverging=EpochEnd(3, 20)))
    assert ready.persist == (TruncateTo(8),)
    assert ready.notes == (LogTruncated(8, 10),)
    sent = only(requests(ready, FetchRequest))
    ready = bench.receive(sent, of_leader(diverging=EpochEnd(2, 6)))
    assert ready.persist == (TruncateTo(6),)
    fetch = only(requests(ready, FetchRequest)).request
    assert isinstance(fetch, FetchRequest)
    assert (fetch.fetch_offset, fetch.last_fetched_epoch) == (6, 2)


def test_truncation_brings_back_the_voters_from_before() -> None:
    voters = ((-1, voter_set(1, 2)), (7, voter_set(1, 2, 3)))
    bench, sent = follower(replace(THREE, quorum=QuorumState(4), log_end=9, epochs=((1, 0), (4, 6)), voters=voters))
    assert bench.core.voters == voter_set(1, 2, 3)
    bench.receive(sent, of_leader(diverging=EpochEnd(1, 6)))
    assert bench.core.voters == voter_set(1, 2)


def test_truncating_committed_entries_is_a_crash() -> None:
    bench, sent = follower()
    sent = only(requests(bench.receive(sent, of_leader(entries=(entry(0, 5, 3),), high_watermark=3)), FetchRequest))
    with pytest.raises(AssertionError, match="committed entries from 0 on"):
        bench.receive(sent, of_leader(diverging=EpochEnd(2, 0)))


def test_a_response_counts_once_and_only_for_the_request_in_flight() -> None:
    bench, sent = follower()
    answer = of_leader(entries=(entry(0, 5),), high_watermark=1)
    bench.receive(sent, answer)
    assert not bench.receive(sent, answer)
    assert bench.core.log_end == 1


def test_a_voter_that_cannot_fetch_starts_an_election_and_an_observer_queries_other_nodes() -> None:
    bench, _ = follower()
    bench.wait(2_000)
    assert bench.role() is Prospective

    observer, _ = follower(formatted(2, 3))
    assert only(requests(observer.wait(2_000), FetchRequest)).peer == 3
    assert observer.role() is Follower
    assert only(requests(observer.wait(20), FetchRequest)).peer == 2


def test_an_observer_finds_the_next_leader_while_a_request_to_the_lost_one_is_in_flight() -> None:
    observer, sent = follower(formatted(2, 3, 4), request_timeout_ms=3_000)
    observer.wait(1_000)
    observer.receive(sent, of_leader())
    to_three = only(requests(observer.wait(2_000), FetchRequest))
    assert to_three.peer == 3
    refusal = FetchResponse(error=ErrorCode.not_leader_or_follower, epoch=6, leader_id=4)
    assert only(requests(observer.receive(to_three, refusal), FetchRequest)).peer == 4
    assert observer.core.quorum_state == QuorumState(6, 4)


def test_an_observer_follows_its_lost_leader_again_when_it_responds() -> None:
    observer, _ = follower(formatted(2, 3))
    observer.wait(2_000)
    to_two = only(requests(observer.wait(20), FetchRequest))
    assert only(requests(observer.receive(to_two, of_leader()), FetchRequest)).peer == 2
    assert requests(observer.wait(1_999), FetchRequest) == []


def test_a_node_that_does_not_respond_delays_the_search_for_a_leader_only_shortly() -> None:
    bench = Bench(formatted(2, 3))
    assert only(requests(bench.first, FetchRequest)).peer == 2
    assert requests(bench.wait(249), FetchRequest) == []
    assert only(requests(bench.wait(1), FetchRequest)).peer == 3


def test_a_failed_request_is_repeated_after_a_pause() -> None:
    bench, sent = follower()
    assert requests(bench.feed(RequestFailed(2, sent.request_id)), FetchRequest) == []
    assert requests(bench.wait(19), FetchRequest) == []
    assert only(requests(bench.wait(1), FetchRequest)).request == sent.request


def test_a_node_without_a_leader_learns_of_it_from_a_response() -> None:
    bench = Bench(formatted(2, 3))
    asked = only(requests(bench.first, FetchRequest))
    assert (bench.role(), asked.peer) == (Unattached, 2)
    refusal = FetchResponse(error=ErrorCode.not_leader_or_follower, epoch=4, leader_id=3)
    ready = bench.receive(asked, refusal)
    assert only(requests(ready, FetchRequest)).peer == 3
    assert bench.core.quorum_state == QuorumState(4, 3)


def pauses_of_searches(bench: Bench, ready: RaftReady, count: int) -> list[int]:
    """The pauses after each of so many fetches that are refused, while the node looks for a leader."""
    pauses = []
    for _ in range(count):
        (send,) = requests(ready, FetchRequest)
        refused = FetchResponse(error=ErrorCode.not_leader_or_follower, epoch=0, leader_id=None)
        bench.receive(send, refused)
        waited, ready = 0, bench.wait(0)
        while not requests(ready, FetchRequest):
            ready = bench.wait(1)
            waited += 1
        pauses.append(waited)
    return pauses


def test_the_pauses_of_a_search_for_a_leader_grow_until_there_is_one() -> None:
    """An observer queried the voters of a quorum without a leader fifty times a second for as long as there was none."""
    bench = Bench(formatted(2))
    pauses = pauses_of_searches(bench, bench.first, 80)
    assert pauses[:17] == [20] * 8 + [40] * 8 + [80]
    assert pauses[-1] == 1_000
    ready = bench.request(BeginQuorumEpochRequest(epoch=1, leader_id=2, voter=key(1)))
    fetched = FetchResponse(error=ErrorCode.not_leader_or_follower, epoch=2, leader_id=None)
    bench.receive(only(requests(ready, FetchRequest)), fetched)
    ready = bench.wait(20)
    assert only(requests(ready, FetchRequest)).request
