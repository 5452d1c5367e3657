"""Voters added, removed and updated, one at a time."""

from dataclasses import replace

from isthmus_broker.core.raft.events import AddVoter, AppendEntry, ChangeRejected, Event, RemoveVoter, VoterChanged
from isthmus_broker.core.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    UpdateVoterRequest,
    UpdateVoterResponse,
)
from isthmus_broker.core.raft.roles import Leader, Resigned
from isthmus_broker.core.raft.types import Recovered, Voter, VoterEndpoint
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode

from tests.unit.raft.bench import Bench, entry, formatted, key, only, requests, voter, voter_set


def leader(*voters: int, observer: int | None = None) -> Bench:
    """Node 1 leads these voters, has committed its epoch, and has an observer that is caught up."""
    bench = Bench(formatted(*voters))
    if len(voters) > 1:
        bench.lead()
        bench.request(bench.fetch(2, 3, 1))
    if observer is not None:
        bench.request(bench.fetch(observer, 3, 1))
    assert bench.core.high_watermark == 3
    return bench


def refusal(bench: Bench, event: Event) -> ErrorCode:
    reply = bench.feed(event).replies[-1]
    assert isinstance(reply, ChangeRejected)
    return reply.error


def test_an_added_voter_counts_from_its_entry_on_and_the_response_follows_the_commit() -> None:
    bench = leader(1, observer=4)
    ready = bench.feed(AddVoter(9, voter(4)))
    assert ready.persist == (AppendEntry(replace(entry(3, 1, 1, b"voters (1, 4)"), voters=voter_set(1, 4))),)
    assert bench.core.voters == voter_set(1, 4)
    assert bench.core.high_watermark == 3
    assert bench.request(bench.fetch(4, 4, 1)).replies[-1] == VoterChanged(9)


def test_one_change_at_a_time() -> None:
    bench = leader(1, 2, 3, observer=4)
    bench.feed(AddVoter(8, voter(4)))
    assert refusal(bench, RemoveVoter(9, key(3))) == ErrorCode.request_timed_out


def test_no_change_before_the_leaders_epoch_has_committed() -> None:
    bench = Bench(formatted(1, 2, 3))
    bench.lead()
    assert refusal(bench, RemoveVoter(9, key(3))) == ErrorCode.request_timed_out


def test_replicas_that_may_not_be_added() -> None:
    bench = leader(1, 2, 3, observer=4)
    assert refusal(bench, AddVoter(1, voter(3))) == ErrorCode.duplicate_voter
    assert refusal(bench, AddVoter(2, voter(5))) == ErrorCode.request_timed_out
    assert refusal(bench, AddVoter(3, Voter(key(4), max_kraft_version=0))) == ErrorCode.invalid_request
    bench.now = MonotonicMs(bench.now + 300_000)
    bench.request(bench.fetch(2, 3, 1))
    assert refusal(bench, AddVoter(4, voter(4))) == ErrorCode.request_timed_out


def test_replicas_that_may_not_be_removed() -> None:
    bench = leader(1, 2, 3)
    assert refusal(bench, RemoveVoter(1, key(4))) == ErrorCode.voter_not_found
    assert (
        refusal(bench, RemoveVoter(2, replace(key(3), directory_id=key(9).directory_id))) == ErrorCode.voter_not_found
    )
    alone = leader(1)
    assert refusal(alone, RemoveVoter(3, key(1))) == ErrorCode.voter_not_found


def test_static_voters_do_not_change() -> None:
    bench = Bench(Recovered(), static_voters=voter_set(1))
    assert refusal(bench, RemoveVoter(1, key(1))) == ErrorCode.unsupported_version


def test_a_change_that_does_not_commit_in_time_is_refused_but_stays() -> None:
    bench = leader(1, 2, 3)
    bench.feed(RemoveVoter(9, key(3)))
    assert bench.wait(2_000).replies == (ChangeRejected(9, ErrorCode.request_timed_out),)
    assert bench.core.voters == voter_set(1, 2)


def test_a_leader_that_is_voted_out_leads_until_that_is_committed_without_counting_itself() -> None:
    bench = leader(1, 2, 3)
    bench.feed(RemoveVoter(9, key(1)))
    bench.request(bench.fetch(2, 4, 1))
    assert bench.role() is Leader
    assert bench.core.high_watermark == 3
    ready = bench.request(bench.fetch(3, 4, 1))
    assert bench.role() is Resigned
    assert VoterChanged(9) in ready.replies
    assert [send.peer for send in requests(ready, EndQuorumEpochRequest)] == [2, 3]


def test_an_update_keeps_the_voters_and_replaces_the_endpoints() -> None:
    bench = leader(1, 2, 3)
    moved = Voter(key(2), (VoterEndpoint("CONTROLLER", "elsewhere", 9093),))
    done = UpdateVoterResponse(error=ErrorCode.none, epoch=1, leader_id=1)
    assert bench.respond(UpdateVoterRequest(epoch=1, voter=moved)) == done
    assert bench.core.voters.find(2) == moved
    unknown = UpdateVoterRequest(epoch=1, voter=voter(7))
    assert bench.respond(unknown) == replace(done, error=ErrorCode.request_timed_out)
    bench.request(bench.fetch(2, 4, 1))
    assert bench.respond(unknown) == replace(done, error=ErrorCode.voter_not_found)


def test_a_follower_reports_changed_endpoints_to_the_leader() -> None:
    moved = Voter(key(1), (VoterEndpoint("CONTROLLER", "elsewhere", 9093),))
    bench = Bench(formatted(1, 2), local=moved)
    ready = bench.request(BeginQuorumEpochRequest(epoch=1, leader_id=2, voter=key(1)))
    answer = FetchResponse(error=ErrorCode.none, epoch=1, leader_id=2, high_watermark=0)
    ready = bench.receive(only(requests(ready, FetchRequest)), answer)
    assert only(requests(ready, UpdateVoterRequest)).request == UpdateVoterRequest(epoch=1, voter=moved)


def test_a_leader_appends_its_changed_endpoints() -> None:
    moved = Voter(key(1), (VoterEndpoint("CONTROLLER", "elsewhere", 9093),))
    bench = Bench(formatted(1), local=moved)
    assert bench.core.voters.find(1) == moved
