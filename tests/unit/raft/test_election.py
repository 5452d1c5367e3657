"""Votes, pre-votes, epochs, and what a node does when it learns of another leader."""

from dataclasses import replace
from typing import Any

import pytest
from isthmus_broker.core.raft.events import (
    AppendEntry,
    Committed,
    LeaderChanged,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    SaveQuorumState,
    SendResponse,
    Shutdown,
)
from isthmus_broker.core.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from isthmus_broker.core.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from isthmus_broker.core.raft.types import QuorumState, Recovered, ReplicaKey
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode

from tests.unit.raft.bench import Bench, NoRandom, entry, formatted, key, only, requests, responses, voter_set

THREE = formatted(1, 2, 3)


def vote(
    candidate: int = 2, epoch: int = 1, last_epoch: int = 0, end_offset: int = 0, *, pre: bool = False
) -> VoteRequest:
    return VoteRequest(
        epoch=epoch, candidate=key(candidate), voter=key(1), last_epoch=last_epoch, end_offset=end_offset, pre_vote=pre
    )


def granted(epoch: int, leader_id: int | None = None) -> VoteResponse:
    return VoteResponse(error=ErrorCode.none, epoch=epoch, leader_id=leader_id, granted=True)


def rejected(epoch: int, leader_id: int | None = None) -> VoteResponse:
    return VoteResponse(error=ErrorCode.none, epoch=epoch, leader_id=leader_id, granted=False)


def begin(leader_id: int, epoch: int) -> BeginQuorumEpochRequest:
    return BeginQuorumEpochRequest(epoch=epoch, leader_id=leader_id, voter=key(1))


# A quorum of one


def test_a_quorum_of_one_leads_at_once_and_commits_with_its_first_write() -> None:
    bench = Bench(formatted(1))
    assert bench.core.is_leader
    assert bench.first.persist == (
        SaveQuorumState(QuorumState(1, None, key(1))),
        SaveQuorumState(QuorumState(1, 1)),
        AppendEntry(replace(entry(0, 1, 3, b"leader 1 of (1,) by (1,)"), voters=voter_set(1))),
    )
    assert bench.first.replies[-2:] == (Committed(0, 3), LeaderChanged(1, 1))
    assert bench.core.high_watermark == 3


def test_a_quorum_of_one_leads_a_new_epoch_after_every_start() -> None:
    recovered = replace(formatted(1), quorum=QuorumState(4, 1), log_end=9, epochs=((1, 0), (4, 8)))
    bench = Bench(recovered)
    assert bench.core.is_leader
    assert bench.core.epoch == 5
    assert bench.core.high_watermark == 12


# Starting elections


def test_pre_votes_come_before_the_epoch_is_raised() -> None:
    bench = Bench(THREE)
    ready = bench.wait(1_000)
    assert bench.role() is Prospective
    assert ready.persist == ()
    sent = requests(ready, VoteRequest)
    assert [send.peer for send in sent] == [2, 3]
    assert sent[0].request == replace(vote(1, epoch=0, pre=True), voter=key(2))

    ready = bench.receive(sent[0], granted(0))
    assert bench.role() is Candidate
    assert ready.persist == (SaveQuorumState(QuorumState(1, None, key(1))),)
    sent = requests(ready, VoteRequest)
    assert [send.request for send in sent] == [replace(vote(1), voter=key(peer)) for peer in (2, 3)]

    bench.receive(sent[1], granted(1))
    assert bench.role() is Leader
    assert bench.core.quorum_state == QuorumState(1, 1)


def test_votes_are_requested_only_when_the_own_vote_is_durable() -> None:
    bench = Bench(THREE)
    sent = requests(bench.wait(1_000), VoteRequest)
    bench.core.step(ResponseReceived(2, sent[0].request_id, granted(0)), bench.now)
    ready = bench.core.take()
    assert ready.send_now == ()
    assert len(ready.send_after_persist) == 2


def test_lost_pre_votes_leave_the_epoch_alone() -> None:
    bench = Bench(THREE)
    for send in requests(bench.wait(1_000), VoteRequest):
        bench.receive(send, rejected(0))
    assert bench.role() is Unattached
    assert bench.core.epoch == 0


def test_a_prospective_that_loses_goes_back_to_the_leader_it_knew() -> None:
    bench = Bench(replace(THREE, quorum=QuorumState(3, 2)))
    for send in requests(bench.wait(2_000), VoteRequest):
        bench.receive(send, rejected(3, 2))
    assert bench.role() is Follower
    assert bench.core.quorum_state == QuorumState(3, 2)


def test_a_lost_election_is_repeated_after_a_pause_that_grows() -> None:
    bench = Bench(THREE)
    bench.receive(requests(bench.wait(1_000), VoteRequest)[0], granted(0))
    assert bench.role() is Candidate
    # The requests of the candidacy were sent with the response above; they time out.
    bench.wait(1_000)
    assert bench.role() is Prospective
    assert bench.core.epoch == 1


def test_a_leader_of_a_higher_epoch_is_followed() -> None:
    bench = Bench(THREE)
    send = requests(bench.wait(1_000), VoteRequest)[0]
    ready = bench.receive(send, rejected(7, 3))
    assert bench.role() is Follower
    assert bench.core.quorum_state == QuorumState(7, 3)
    assert only(requests(ready, FetchRequest)).peer == 3


# Giving votes


def test_one_vote_per_epoch_and_the_same_again_to_the_same() -> None:
    bench = Bench(THREE)
    assert bench.respond(vote(2)) == granted(1)
    assert bench.respond(vote(3)) == rejected(1)
    assert bench.respond(vote(2)) == granted(1)
    assert bench.respond(vote(3, epoch=2)) == granted(2)


def test_a_vote_waits_until_it_is_durable_and_survives_a_restart() -> None:
    bench = Bench(THREE)
    bench.core.step(RequestReceived(1, vote(2)), MonotonicMs(0))
    ready = bench.core.take()
    assert ready.persist == (
        SaveQuorumState(QuorumState(1)),
        SaveQuorumState(QuorumState(1, None, key(2))),
    )
    assert ready.send_now == ()
    assert ready.send_after_persist[0] == SendResponse(1, granted(1))

    again = Bench(replace(THREE, quorum=QuorumState(1, None, key(2))))
    assert again.respond(vote(3)) == rejected(1)


@pytest.mark.parametrize(
    ("last_epoch", "end_offset", "is_granted"), [(3, 5, True), (3, 4, False), (4, 1, True), (2, 9, False)]
)
def test_only_a_log_that_is_as_complete_gets_the_vote(last_epoch: int, end_offset: int, is_granted: bool) -> None:
    bench = Bench(replace(THREE, quorum=QuorumState(3), log_end=5, epochs=((3, 0),)))
    request = vote(2, epoch=9, last_epoch=last_epoch, end_offset=end_offset)
    assert bench.respond(request) == (granted(9) if is_granted else rejected(9))


def test_a_stale_epoch_and_a_wrong_address_get_no_vote() -> None:
    bench = Bench(replace(THREE, quorum=QuorumState(5)))
    refused = VoteResponse(error=ErrorCode.fenced_leader_epoch, epoch=5, leader_id=None, granted=False)
    assert bench.respond(vote(2, epoch=4)) == refused
    wrong = replace(vote(2, epoch=6), voter=key(3))
    assert bench.respond(wrong) == replace(refused, error=ErrorCode.invalid_voter_key)
    assert bench.core.epoch == 5


@pytest.mark.parametrize(
    "fields", [{"last_epoch": 6}, {"last_epoch": 7, "pre": True}, {"last_epoch": -1}, {"end_offset": -1}]
)
def test_a_vote_for_an_impossible_log_is_refused_before_its_epoch_counts(fields: dict[str, Any]) -> None:
    bench = Bench(replace(THREE, quorum=QuorumState(5)))
    refused = VoteResponse(error=ErrorCode.invalid_request, epoch=5, leader_id=None, granted=False)
    assert bench.respond(vote(2, epoch=6, **fields)) == refused
    assert bench.core.epoch == 5


def test_a_follower_in_touch_with_its_leader_refuses_pre_votes() -> None:
    bench = Bench(THREE)
    fetch = only(requests(bench.request(begin(2, 1)), FetchRequest))
    assert bench.respond(vote(3, pre=True)) == granted(1, 2)
    bench.receive(fetch, FetchResponse(error=ErrorCode.none, epoch=1, leader_id=2, high_watermark=0))
    assert bench.respond(vote(3, pre=True)) == rejected(1, 2)


def test_a_leader_refuses_pre_votes_and_votes_of_its_epoch() -> None:
    bench = Bench(THREE)
    bench.lead()
    assert bench.respond(vote(2, epoch=1, last_epoch=1, end_offset=9, pre=True)) == rejected(1, 1)
    assert bench.respond(vote(2, epoch=1, last_epoch=0, end_offset=9)) == rejected(1, 1)


# Becoming leader and resigning


def test_a_new_leader_says_so_once_it_is_durable() -> None:
    bench = Bench(THREE)
    sent = requests(bench.wait(1_000), VoteRequest)
    sent = requests(bench.receive(sent[0], granted(0)), VoteRequest)
    ready = bench.receive(sent[0], granted(1))
    begun = requests(ready, BeginQuorumEpochRequest)
    assert [(send.peer, send.request) for send in begun] == [
        (peer, BeginQuorumEpochRequest(epoch=1, leader_id=1, voter=key(peer))) for peer in (2, 3)
    ]
    assert set(begun) <= set(ready.send_after_persist)


def test_a_leader_without_a_majority_resigns_and_then_leaves_the_epoch() -> None:
    bench = Bench(THREE)
    bench.lead()
    bench.wait(2_999)
    assert bench.role() is Leader
    bench.wait(1)
    assert bench.role() is Resigned
    bench.wait(1_000)
    assert bench.role() is Unattached
    assert bench.core.epoch == 2


def test_fetches_of_a_majority_keep_a_leader_in_office() -> None:
    bench = Bench(THREE)
    bench.lead()
    for _ in range(5):
        bench.wait(2_000)
        bench.request(bench.fetch(2, 0, 0))
    assert bench.role() is Leader


def test_a_leader_that_shuts_down_names_the_replica_with_most_of_its_log_first() -> None:
    bench = Bench(THREE)
    bench.lead()
    bench.request(bench.fetch(3, 3, 1))
    ready = bench.feed(Shutdown())
    ends = requests(ready, EndQuorumEpochRequest)
    expected = EndQuorumEpochRequest(epoch=1, leader_id=1, preferred_successors=(key(3), key(2)))
    assert [(send.peer, send.request) for send in ends] == [(2, expected), (3, expected)]
    assert bench.role() is Resigned


def test_the_first_successor_stands_for_election_at_once_and_the_next_a_little_later() -> None:
    for place, pause in ((0, 0), (1, 20)):
        bench = Bench(THREE)
        bench.request(begin(2, 1))
        successors = (key(1), key(3)) if place == 0 else (key(3), key(1))
        bench.request(EndQuorumEpochRequest(epoch=1, leader_id=2, preferred_successors=successors))
        bench.wait(pause)
        assert bench.role() is Prospective


def test_a_leader_whose_process_has_died_is_replaced_at_once() -> None:
    bench = Bench(THREE)
    fetch = only(requests(bench.request(begin(2, 1)), FetchRequest))
    bench.receive(fetch, FetchResponse(error=ErrorCode.none, epoch=1, leader_id=2, high_watermark=0))
    assert bench.respond(vote(3, pre=True)) == rejected(1, 2)
    bench.feed(RequestFailed(2, 0, is_gone=True))
    assert bench.respond(vote(3, pre=True)) == granted(1, 2)
    assert bench.role() is Follower
    bench.wait(20)
    assert bench.role() is Prospective


def test_a_peer_that_is_gone_matters_only_while_it_leads() -> None:
    bench = Bench(THREE)
    bench.request(begin(2, 1))
    bench.feed(RequestFailed(3, 0, is_gone=True))
    bench.wait(1_999)
    assert bench.role() is Follower


def test_candidates_do_not_wait_for_the_vote_of_a_dead_voter() -> None:
    """Two of three are left, and start elections at the same time: each rejects the other, and the third never votes."""
    bench = Bench(THREE)
    to_two, to_three = requests(bench.wait(1_000), VoteRequest)
    to_two, to_three = requests(bench.receive(to_three, granted(0)), VoteRequest)
    assert bench.role() is Candidate
    bench.receive(to_three, rejected(1))
    bench.feed(RequestFailed(2, to_two.request_id, is_gone=True))
    bench.wait(20)
    assert bench.role() is Prospective
    assert bench.core.epoch == 1


def test_followers_of_a_frozen_leader_do_not_wait_for_its_vote() -> None:
    """Both time out at once, and each rejects the other."""
    bench = Bench(THREE)
    fetch = only(requests(bench.request(begin(2, 1)), FetchRequest))
    bench.receive(fetch, FetchResponse(error=ErrorCode.none, epoch=1, leader_id=2, high_watermark=0))
    _, to_three = requests(bench.wait(2_000), VoteRequest)
    _, to_three = requests(bench.receive(to_three, granted(1, 2)), VoteRequest)
    assert bench.role() is Candidate
    bench.receive(to_three, rejected(2))
    bench.wait(249)
    assert bench.role() is Candidate
    bench.wait(1)
    assert bench.role() is Prospective


def test_an_unresponsive_leader_may_still_decide_the_election_of_another() -> None:
    bench = Bench(replace(formatted(1, 2), quorum=QuorumState(3, 2)))
    send = only(requests(bench.wait(2_000), VoteRequest))
    assert only(requests(bench.receive(send, granted(3, 2)), VoteRequest)).peer == 2
    assert bench.role() is Candidate


def test_a_leader_knows_when_it_last_received_a_message_from_its_predecessor() -> None:
    bench = Bench(THREE)
    fetch = only(requests(bench.request(begin(2, 1)), FetchRequest))
    bench.wait(300)
    bench.receive(fetch, FetchResponse(error=ErrorCode.none, epoch=1, leader_id=2, high_watermark=0))
    assert bench.core.predecessor_contact is None
    bench.lead()
    assert bench.core.predecessor_contact == (2, 300)


def test_a_pre_vote_that_is_lost_beside_a_dead_voter_is_repeated_soon_and_then_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(NoRandom, "randrange", lambda _self, stop: stop - 1)
    bench = Bench(THREE)
    pauses: list[int] = []
    for _ in range(8):
        waited, ready = 0, bench.wait(0)
        while bench.role() is not Prospective:
            ready = bench.wait(1)
            waited += 1
        pauses.append(waited)
        to_two, to_three = requests(ready, VoteRequest)
        bench.receive(to_three, rejected(0))
        bench.feed(RequestFailed(2, to_two.request_id, is_gone=True))
        assert bench.role() is Unattached
    assert pauses[1:] == [59, 99, 179, 339, 659, 1019, 1019]


def test_an_election_that_is_lost_while_the_leader_is_dead_is_repeated_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(NoRandom, "randrange", lambda _self, stop: stop - 1)
    bench = Bench(replace(THREE, quorum=QuorumState(3, 2)))
    pauses: list[int] = []
    for _ in range(6):
        bench.feed(RequestFailed(2, 0, is_gone=True))
        waited, ready = 0, bench.wait(0)
        while bench.role() is not Prospective:
            ready = bench.wait(1)
            waited += 1
        pauses.append(waited)
        to_three = only([send for send in requests(ready, VoteRequest) if send.peer == 3])
        bench.receive(to_three, rejected(3, 2))
        bench.feed(RequestFailed(2, 0, is_gone=True))
        assert bench.role() is Follower
    assert pauses == sorted(pauses)
    assert pauses[0] < 100 < 500 < pauses[-1]


def is_led(bench: Bench) -> bool:
    return bench.core.is_led


def test_a_node_is_led_only_while_its_leader_responds() -> None:
    """After an election without a winner it follows the dead leader again, which must not look like a working quorum."""
    bench = Bench(THREE)
    fetch = only(requests(bench.request(begin(2, 1)), FetchRequest))
    assert is_led(bench) is False
    bench.receive(fetch, FetchResponse(error=ErrorCode.none, epoch=1, leader_id=2, high_watermark=0))
    assert is_led(bench) is True
    for peer in (2, 3):
        bench.feed(RequestFailed(peer, 0, is_gone=True))
    while bench.role() is Follower:
        bench.wait(1)
    for peer in (2, 3):
        bench.feed(RequestFailed(peer, 0, is_gone=True))
    assert bench.role() is Follower
    assert is_led(bench) is False


def test_nodes_that_start_without_a_leader_stand_for_election_soon() -> None:
    bench = Bench(THREE)
    bench.wait(19)
    assert bench.role() is Unattached
    bench.wait(1)
    assert bench.role() is Prospective


def test_a_former_leader_restarts_resigned() -> None:
    bench = Bench(replace(THREE, quorum=QuorumState(6, 1)))
    assert bench.role() is Resigned
    assert bench.respond(vote(2, epoch=6)) == rejected(6, 1)


def test_an_observer_never_stands_for_election() -> None:
    bench = Bench(formatted(2, 3))
    for _ in range(20):
        bench.wait(1_000)
    assert bench.role() is Unattached
    assert bench.core.epoch == 0


def test_a_voter_being_removed_still_stands_until_that_is_committed() -> None:
    """It may be the only one with a log complete enough to win (dissertation, 4.2.2)."""
    log = Recovered(
        quorum=QuorumState(1), log_end=5, epochs=((1, 0),), voters=((2, voter_set(1, 2)), (4, voter_set(2)))
    )
    bench = Bench(log)
    assert only(requests(bench.wait(1_000), VoteRequest)).peer == 2
    assert bench.role() is Prospective


def test_a_static_vote_is_remembered_without_its_directory() -> None:
    """The file of static voters has no field for it."""
    state = QuorumState(1, None, ReplicaKey(2))
    bench = Bench(Recovered(quorum=state), static_voters=voter_set(1, 2, 3))
    assert bench.respond(vote(3)) == rejected(1)
    assert bench.respond(vote(2)) == granted(1)
    assert bench.core.quorum_state == state


def test_static_voters_have_no_directory() -> None:
    bench = Bench(Recovered(), static_voters=voter_set(1, 2))
    assert bench.core.voters == voter_set(1, 2)
    assert not responses(bench.first)
