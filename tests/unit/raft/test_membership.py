"""Voters added, removed and updated, one at a time."""

from dataclasses import replace
from typing import TypeGuard

from isthmus_broker.core.raft.events import (
    AddVoter,
    AppendEntry,
    ChangeRejected,
    Event,
    RemoveVoter,
    SaveQuorumState,
    UpgradeKraftVersion,
    VoterChanged,
    Write,
)
from isthmus_broker.core.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    UpdateVoterRequest,
    UpdateVoterResponse,
)
from isthmus_broker.core.raft.roles import Leader, Resigned
from isthmus_broker.core.raft.types import EpochEnd, Recovered, ReplicaKey, Voter, VoterEndpoint, VoterSet
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode

from tests.unit.raft.bench import Bench, entry, formatted, key, only, requests, responses, voter, voter_set


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


def static(*node_ids: int) -> VoterSet:
    """The voters of the settings, whose directories are unknown."""
    return VoterSet(tuple(Voter(ReplicaKey(node_id)) for node_id in node_ids))


def static_leader(*node_ids: int) -> Bench:
    """Node 1 leads the voters of the settings and has committed its epoch."""
    bench = Bench(Recovered(), static_voters=static(*node_ids))
    bench.lead()
    bench.request(bench.fetch(2, 1, 1))
    assert bench.core.high_watermark == 1
    return bench


def describe(bench: Bench, described: Voter) -> ErrorCode:
    return bench.respond(UpdateVoterRequest(epoch=1, voter=described)).error


def test_voters_in_the_log_take_precedence_over_those_of_the_settings() -> None:
    """A node followed its settings whatever the log said, so that two nodes could count majorities of different voters."""
    recovered = Recovered(log_end=5, epochs=((1, 0),), voters=((2, voter_set(1, 2, 3)),))
    bench = Bench(recovered, static_voters=static(1))
    assert not bench.core.is_leader
    assert (bench.core.voters, bench.core.kraft_version) == (voter_set(1, 2, 3), 1)


def test_voters_that_are_truncated_from_the_log_give_way_to_those_of_the_settings() -> None:
    recovered = Recovered(log_end=5, epochs=((1, 0),), voters=((4, voter_set(1, 2)),))
    bench = Bench(recovered, static_voters=static(1, 2))
    ready = bench.request(BeginQuorumEpochRequest(epoch=2, leader_id=2, voter=key(1)))
    diverging = FetchResponse(error=ErrorCode.none, epoch=2, leader_id=2, high_watermark=0, diverging=EpochEnd(1, 4))
    bench.receive(only(requests(ready, FetchRequest)), diverging)
    assert (bench.core.voters, bench.core.kraft_version) == (static(1, 2), 0)


def test_static_voters_are_written_to_the_log_as_they_describe_themselves() -> None:
    """The upgrade of kraft.version from 0 to 1 was always refused."""
    bench = static_leader(1, 2, 3)
    assert describe(bench, voter(4)) is ErrorCode.voter_not_found
    assert describe(bench, voter(2)) is ErrorCode.none
    assert refusal(bench, UpgradeKraftVersion(8)) is ErrorCode.invalid_update_version
    assert describe(bench, voter(3)) is ErrorCode.none
    ready = bench.feed(UpgradeKraftVersion(9))
    assert ready.persist == (AppendEntry(replace(entry(1, 1, 2, b"upgrade (1, 2, 3)"), voters=voter_set(1, 2, 3))),)
    assert (bench.core.voters, bench.core.kraft_version) == (voter_set(1, 2, 3), 1)
    assert refusal(bench, UpgradeKraftVersion(10)) is ErrorCode.request_timed_out
    assert VoterChanged(9) in bench.request(bench.fetch(3, 3, 1)).replies
    assert refusal(bench, UpgradeKraftVersion(11)) is ErrorCode.invalid_update_version


def test_a_voter_may_describe_itself_before_the_leaders_epoch_has_committed() -> None:
    """It does so as soon as it follows the leader; a refusal delayed the upgrade of a quorum by a fetch timeout."""
    bench = Bench(Recovered(), static_voters=static(1, 2, 3))
    bench.lead()
    assert describe(bench, voter(2)) is ErrorCode.none


def test_a_leader_keeps_what_it_knows_of_its_followers_when_they_get_directories() -> None:
    """Otherwise it would have no contact with a majority until their next fetches, and resign."""
    bench = static_leader(1, 2, 3)
    describe(bench, voter(2))
    describe(bench, voter(3))
    bench.now = MonotonicMs(bench.now + 2_500)
    bench.request(bench.fetch(2, 1, 1, max_wait_ms=400))
    bench.now = MonotonicMs(bench.now + 600)
    ready = bench.feed(UpgradeKraftVersion(9))
    assert bench.core.is_leader
    assert len([each for each in responses(ready) if isinstance(each, FetchResponse)]) == 1, "the parked fetch"
    info = bench.core.describe(bench.now)
    assert info is not None
    assert [(each.key, each.log_end_offset) for each in info.voters] == [(key(1), 3), (key(2), 1), (key(3), -1)]


def test_a_voter_that_does_not_support_it_prevents_the_upgrade() -> None:
    bench = static_leader(1, 2, 3)
    describe(bench, voter(2))
    describe(bench, Voter(key(3), max_kraft_version=0))
    assert not bench.core.can_upgrade
    assert describe(bench, Voter(key(3), min_kraft_version=1)) is ErrorCode.invalid_request


def test_a_voter_describes_itself_once_to_every_leader_of_static_voters() -> None:
    bench = Bench(Recovered(), static_voters=static(1, 2, 3))
    for epoch, leader_id in ((1, 2), (2, 3)):
        ready = bench.request(BeginQuorumEpochRequest(epoch=epoch, leader_id=leader_id, voter=key(1)))
        fetched = FetchResponse(error=ErrorCode.none, epoch=epoch, leader_id=leader_id, high_watermark=0)
        ready = bench.receive(only(requests(ready, FetchRequest)), fetched)
        update = only(requests(ready, UpdateVoterRequest))
        assert update.request == UpdateVoterRequest(epoch=epoch, voter=voter(1))
        done = UpdateVoterResponse(error=ErrorCode.none, epoch=epoch, leader_id=leader_id)
        ready = bench.receive(update, done)
        bench.now = MonotonicMs(bench.now + 60_000)
        ready = bench.receive(only(requests(ready, FetchRequest)), fetched)
        assert requests(ready, UpdateVoterRequest) == []


def test_the_quorum_state_names_the_voters_only_while_they_are_static() -> None:
    """The file has the format of the quorum's version, as in Kafka."""
    upgraded = Recovered(log_end=3, epochs=((1, 0),), voters=((2, voter_set(1)),))
    saved = [
        [write.static_voters for write in Bench(recovered, static_voters=static(1)).first.persist if is_state(write)]
        for recovered in (Recovered(), upgraded)
    ]
    assert saved == [[static(1), static(1)], [None, None, None]]


def is_state(write: Write) -> TypeGuard[SaveQuorumState]:
    return isinstance(write, SaveQuorumState)


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
