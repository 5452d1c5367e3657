"""The leader's decisions: the high watermark, the ISR, the controller's responses."""

from collections.abc import Mapping

import pytest
from isthmus_broker.core.replica.leader import IsrProposal, ReplicaLeader
from isthmus_broker.core.replica.leadership import IsrRules, Leadership
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode

from tests.unit.replica.logs import ModelLog

NOW = MonotonicMs(100_000)
LAG = 10_000
EPOCH = 7
ACTIVE = {1: 11, 2: 12, 3: 13, 4: 14}


def leads(
    isr: tuple[int, ...] = (1, 2, 3),
    *,
    replicas: tuple[int, ...] = (1, 2, 3),
    log: ModelLog,
    min_isr: int = 1,
    active: Mapping[int, int] = ACTIVE,
    recovering: bool = False,
) -> ReplicaLeader:
    leadership = Leadership(1, EPOCH, replicas, isr, partition_epoch=5, recovering=recovering)
    rules = IsrRules(LAG, min_isr)
    return ReplicaLeader(1, leadership, rules, active.get, log.end_offset, NOW)


def fetch(leader: ReplicaLeader, log: ModelLog, replica: int, offset: int, at: int = NOW) -> None:
    epoch = ACTIVE[replica]
    log.high_watermark = leader.fetched(replica, epoch, offset, log.log_start_offset, log, MonotonicMs(at))


def new_isr(proposal: IsrProposal | None) -> tuple[int, ...] | None:
    return None if proposal is None else tuple(replica for replica, _ in proposal.isr)


def settled(leader: ReplicaLeader, isr: tuple[int, ...]) -> Leadership:
    old = leader.leadership
    return old._replace(isr=isr, partition_epoch=old.partition_epoch + 1, recovering=False)


# -- the high watermark ------------------------------------------------------------------------------------------------------


def test_the_high_watermark_is_the_least_log_end_of_the_isr() -> None:
    log = ModelLog([EPOCH] * 10)
    leader = leads(log=log)
    fetch(leader, log, 2, 8)
    assert log.high_watermark == 0, "replica 3 has not fetched yet"
    fetch(leader, log, 3, 5)
    assert log.high_watermark == 5
    fetch(leader, log, 3, 10)
    assert log.high_watermark == 8


def test_the_high_watermark_never_moves_back() -> None:
    log = ModelLog([EPOCH] * 10, high_watermark=6)
    leader = leads(log=log)
    fetch(leader, log, 2, 2)
    fetch(leader, log, 3, 3)
    assert log.high_watermark == 6


def test_a_single_replica_commits_alone_whatever_the_minimum() -> None:
    log = ModelLog([EPOCH] * 3)
    leader = leads((1,), replicas=(1,), log=log, min_isr=2)
    assert leader.high_watermark(log, NOW) == 3
    assert leader.has_enough_in_sync


def test_the_high_watermark_does_not_advance_below_min_isr() -> None:
    log = ModelLog([EPOCH] * 4)
    leader = leads((1,), log=log, min_isr=2)
    assert leader.high_watermark(log, NOW) == 0
    leader.update(settled(leader, (1, 2)))
    fetch(leader, log, 2, 4)
    assert log.high_watermark == 4


def test_a_proposed_member_holds_the_high_watermark_back() -> None:
    log = ModelLog([EPOCH] * 4, high_watermark=4)
    leader = leads((1,), log=log)
    fetch(leader, log, 2, 4)
    assert new_isr(leader.propose(log, NOW)) == (1, 2)
    assert leader.maximal_isr == (1, 2)
    log.append(EPOCH, EPOCH)
    assert leader.high_watermark(log, MonotonicMs(NOW + 10 * LAG)) == 4
    fetch(leader, log, 2, 5, NOW + 10 * LAG)
    assert log.high_watermark == 5


def test_a_member_about_to_be_removed_holds_the_high_watermark_back_until_then() -> None:
    log = ModelLog([EPOCH] * 4)
    leader = leads((1, 2), log=log)
    fetch(leader, log, 2, 3)
    late = NOW + LAG + 1
    assert new_isr(leader.propose(log, MonotonicMs(late))) == (1,)
    assert leader.high_watermark(log, MonotonicMs(late)) == 3
    leader.update(settled(leader, (1,)))
    assert leader.high_watermark(log, MonotonicMs(late)) == 4


def test_a_sync_replica_about_to_rejoin_holds_the_high_watermark_back() -> None:
    log = ModelLog([EPOCH] * 4)
    leader = leads((1,), log=log)
    fetch(leader, log, 2, 4)
    log.append(EPOCH)
    assert leader.high_watermark(log, NOW) == 4
    assert leader.high_watermark(log, MonotonicMs(NOW + LAG + 1)) == 5, "it has not fetched in time"


def test_a_fenced_replica_does_not_hold_the_high_watermark_back() -> None:
    log = ModelLog([EPOCH] * 4)
    leader = leads((1,), log=log, active={1: 11, 3: 13})
    fetch(leader, log, 2, 4)
    log.append(EPOCH)
    assert leader.high_watermark(log, NOW) == 5


def test_a_new_leaders_high_watermark_is_current_once_it_reaches_its_epoch() -> None:
    log = ModelLog([EPOCH - 1] * 4, high_watermark=2)
    leader = leads((1, 2), replicas=(1, 2), log=log)
    assert not leader.is_high_watermark_current(log)
    fetch(leader, log, 2, 3)
    assert not leader.is_high_watermark_current(log)
    fetch(leader, log, 2, 4)
    assert leader.is_high_watermark_current(log)


def test_producers_wait_for_the_high_watermark_and_enough_members() -> None:
    log = ModelLog([EPOCH] * 4)
    leader = leads((1, 2), log=log, min_isr=2)
    assert leader.outcome_of(4, log) is None
    fetch(leader, log, 2, 4)
    assert leader.outcome_of(4, log) is ErrorCode.none
    leader.update(settled(leader, (1,)))
    assert leader.outcome_of(4, log) is ErrorCode.not_enough_replicas_after_append
    assert leader.outcome_of(5, log) is None


# -- fetches -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replica", "broker_epoch", "with_leader_epoch", "error"),
    [
        (2, 12, True, None),
        (2, -1, True, None),
        (2, 99, True, None),  # a registration that is not in the metadata here yet
        (2, 11, True, ErrorCode.not_leader_or_follower),
        (9, -1, True, ErrorCode.unknown_leader_epoch),
        (9, -1, False, ErrorCode.not_leader_or_follower),
        (1, 11, False, ErrorCode.not_leader_or_follower),  # the leader does not follow itself
    ],
)
def test_which_replicas_fetches_are_served(
    replica: int, broker_epoch: int, with_leader_epoch: bool, error: ErrorCode | None
) -> None:
    leader = leads(log=ModelLog())
    assert leader.refuses(replica, broker_epoch, with_leader_epoch=with_leader_epoch) is error


def test_a_follower_is_sent_every_high_watermark_once() -> None:
    log = ModelLog([EPOCH] * 4)
    leader = leads((1, 2), replicas=(1, 2), log=log)
    fetch(leader, log, 2, 4)
    assert leader.needs_watermarks(2, log)
    assert not leader.has_caught_up(2, log)
    leader.record_watermarks_sent(2, log)
    assert not leader.needs_watermarks(2, log)
    assert not leader.has_caught_up(2, log), "it may not have received them"
    assert leader.progress[2].high_watermark == -1, "the response may be on its way"
    fetch(leader, log, 2, 4)
    assert leader.progress[2].high_watermark == 4
    assert leader.has_caught_up(2, log)
    log.log_start_offset, log.records = 1, log.records[1:]
    assert leader.needs_watermarks(2, log), "records were deleted"


def test_the_low_watermark_is_that_of_the_active_replicas() -> None:
    log = ModelLog([EPOCH] * 4, start=3)
    leader = leads((1, 2), log=log, active={1: 11, 2: 12})
    assert leader.low_watermark(log) == -1
    leader.fetched(2, 12, 7, 2, log, NOW)
    assert leader.low_watermark(log) == 2
    leader.fetched(2, 12, 7, 5, log, NOW)
    assert leader.low_watermark(log) == 3


# -- the ISR -----------------------------------------------------------------------------------------------------------------


def test_a_member_that_does_not_fetch_is_removed_after_the_lag_and_not_before() -> None:
    log = ModelLog([EPOCH] * 4)
    leader = leads(log=log)
    fetch(leader, log, 2, 4)
    assert leader.propose(log, MonotonicMs(NOW + LAG)) is None
    assert leader.propose(log, MonotonicMs(NOW + LAG + 1)) == IsrProposal(((1, 11), (2, 12)), EPOCH, 5)


def test_a_caught_up_member_stays_even_if_it_does_not_fetch() -> None:
    log = ModelLog([EPOCH] * 4)
    leader = leads((1, 2), log=log)
    fetch(leader, log, 2, 4)
    assert leader.propose(log, MonotonicMs(NOW + 100 * LAG)) is None


def test_a_member_that_reads_a_busy_log_steadily_is_caught_up_without_reaching_the_end() -> None:
    log = ModelLog([EPOCH] * 10)
    leader = leads((1, 2), log=log)
    for step in range(1, 10):
        fetch(leader, log, 2, log.end_offset - 10, NOW + step * LAG // 2)
        log.append(*[EPOCH] * 10)
    assert leader.propose(log, MonotonicMs(NOW + 9 * LAG // 2)) is None


def test_a_member_that_falls_behind_a_busy_log_is_removed() -> None:
    log = ModelLog([EPOCH] * 10)
    leader = leads((1, 2), log=log)
    for step in range(1, 4):
        fetch(leader, log, 2, step, NOW + step * LAG // 2)
        log.append(*[EPOCH] * 10)
    assert new_isr(leader.propose(log, MonotonicMs(NOW + 3 * LAG // 2))) == (1,)


def test_a_replica_joins_at_the_high_watermark_and_the_start_of_the_epoch() -> None:
    log = ModelLog([EPOCH - 1] * 4, high_watermark=2)
    leader = leads((1,), log=log)
    log.append(EPOCH)
    fetch(leader, log, 2, 3)
    assert log.high_watermark == 5
    assert leader.propose(log, NOW) is None
    log.high_watermark = 2
    fetch(leader, log, 2, 3)
    assert leader.propose(log, NOW) is None, "it is below the start of the epoch"
    fetch(leader, log, 2, 4)
    log.high_watermark = 4
    assert new_isr(leader.propose(log, NOW)) == (1, 2)


@pytest.mark.parametrize(
    ("active", "joins"),
    [
        ({1: 11, 2: 12}, True),
        ({1: 11}, False),  # fenced, or about to stop
        ({1: 11, 2: 99}, False),  # another registration than that of its fetches
    ],
)
def test_only_an_active_broker_joins_with_the_epoch_of_its_fetches(active: Mapping[int, int], joins: bool) -> None:
    log = ModelLog([EPOCH] * 4, high_watermark=4)
    leader = leads((1,), log=log, active=active)
    fetch(leader, log, 2, 4)
    assert new_isr(leader.propose(log, NOW)) == ((1, 2) if joins else None)


def test_a_replica_that_stopped_fetching_does_not_join() -> None:
    log = ModelLog([EPOCH] * 4, high_watermark=4)
    leader = leads((1,), log=log)
    fetch(leader, log, 2, 4)
    assert leader.propose(log, MonotonicMs(NOW + LAG + 1)) is None


def test_there_is_one_proposal_at_a_time() -> None:
    log = ModelLog([EPOCH] * 4, high_watermark=4)
    leader = leads((1,), log=log)
    fetch(leader, log, 2, 4)
    first = leader.propose(log, NOW)
    assert first is not None
    fetch(leader, log, 3, 4)
    assert leader.propose(log, NOW) is None
    assert leader.update(settled(leader, (1, 2)))
    assert new_isr(leader.propose(log, NOW)) == (1, 2, 3)


def test_an_uncleanly_elected_leader_first_reports_its_recovery() -> None:
    log = ModelLog([EPOCH] * 4, high_watermark=4)
    leader = leads((1,), log=log, recovering=True)
    fetch(leader, log, 2, 4)
    assert leader.propose(log, NOW) == IsrProposal(((1, 11),), EPOCH, 5)
    leader.update(settled(leader, (1,)))
    assert new_isr(leader.propose(log, NOW)) == (1, 2)


# -- the controller's responses ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "again", "still_in_flight"),
    [
        (ErrorCode.operation_not_attempted, False, False),
        (ErrorCode.ineligible_replica, False, False),
        (ErrorCode.fenced_leader_epoch, False, True),
        (ErrorCode.invalid_update_version, False, True),
        (ErrorCode.invalid_request, False, True),
        (ErrorCode.new_leader_elected, False, True),
        (ErrorCode.unknown_topic_id, False, True),
        (ErrorCode.unknown_topic_or_partition, False, True),
        (ErrorCode.not_controller, True, True),
        (ErrorCode.stale_broker_epoch, True, True),
        (ErrorCode.request_timed_out, True, True),
        (ErrorCode.unknown_server_error, True, True),
    ],
)
def test_what_each_error_means(error: ErrorCode, again: bool, still_in_flight: bool) -> None:
    log = ModelLog([EPOCH] * 4, high_watermark=4)
    leader = leads((1,), log=log)
    fetch(leader, log, 2, 4)
    proposal = leader.propose(log, NOW)
    assert proposal is not None
    assert leader.proposal_failed(proposal, error, has_lost_copy=False) is again
    assert (leader.in_flight is proposal) is still_in_flight
    assert leader.maximal_isr == ((1, 2) if still_in_flight else (1,))


@pytest.mark.parametrize("error", [ErrorCode.operation_not_attempted, ErrorCode.ineligible_replica])
def test_a_refusal_does_not_settle_a_proposal_of_which_a_copy_was_lost(error: ErrorCode) -> None:
    """The other copy may still be granted, and the replica be in the ISR that the next leader is elected from."""
    log = ModelLog([EPOCH] * 4, high_watermark=4)
    leader = leads((1,), log=log)
    fetch(leader, log, 2, 4)
    proposal = leader.propose(log, NOW)
    assert proposal is not None
    assert leader.proposal_failed(proposal, error, has_lost_copy=True)
    isrs = [leader.maximal_isr]
    leader.update(settled(leader, (1,)))
    assert [*isrs, leader.maximal_isr] == [(1, 2), (1,)]


def test_an_error_for_an_older_proposal_changes_nothing() -> None:
    log = ModelLog([EPOCH] * 4, high_watermark=4)
    leader = leads((1,), log=log)
    fetch(leader, log, 2, 4)
    old = leader.propose(log, NOW)
    assert old is not None
    leader.update(settled(leader, (1, 2)))
    fetch(leader, log, 3, 4)
    new = leader.propose(log, NOW)
    assert not leader.proposal_failed(old, ErrorCode.operation_not_attempted, has_lost_copy=False)
    assert leader.in_flight is new


def test_an_older_state_from_the_controller_is_ignored() -> None:
    log = ModelLog([EPOCH] * 4, high_watermark=4)
    leader = leads((1,), log=log)
    fetch(leader, log, 2, 4)
    proposal = leader.propose(log, NOW)
    assert not leader.update(leader.leadership._replace(isr=(1, 2, 3)))
    assert leader.in_flight is proposal
    assert leader.leadership.isr == (1,)


def test_a_leader_that_stays_in_the_next_epoch_keeps_the_recorded_progress() -> None:
    log = ModelLog([EPOCH] * 4)
    first = leads(log=log)
    fetch(first, log, 2, 3)
    after = first.leadership._replace(leader_epoch=EPOCH + 1, replicas=(1, 2, 4), isr=(1, 2), partition_epoch=6)
    second = ReplicaLeader(1, after, IsrRules(LAG), ACTIVE.get, log.end_offset, MonotonicMs(NOW + LAG), first)
    assert second.leads_since == first.leads_since == EPOCH
    assert sorted(second.progress) == [2, 4]
    assert second.high_watermark(log, MonotonicMs(NOW + LAG)) == 3
    assert second.propose(log, MonotonicMs(NOW + 2 * LAG)) is None, "members of the ISR get the full time again"
    assert new_isr(second.propose(log, MonotonicMs(NOW + 2 * LAG + 1))) == (1,)


def test_a_leader_that_returns_after_another_forgets_the_recorded_progress() -> None:
    log = ModelLog([EPOCH] * 4)
    first = leads(log=log)
    fetch(first, log, 2, 4)
    fetch(first, log, 3, 3)
    back = first.leadership._replace(leader_epoch=EPOCH + 2, partition_epoch=7)
    second = ReplicaLeader(1, back, IsrRules(LAG), ACTIVE.get, log.end_offset, NOW, first)
    assert second.leads_since == EPOCH + 2
    assert [progress.log_end for progress in second.progress.values()] == [-1, -1]


def test_replicas_are_added_and_removed_within_an_epoch() -> None:
    log = ModelLog([EPOCH] * 4)
    leader = leads(log=log)
    fetch(leader, log, 2, 3)
    leader.update(leader.leadership._replace(replicas=(1, 2, 4), isr=(1, 2), partition_epoch=6))
    assert sorted(leader.progress) == [2, 4]
    assert leader.progress[2].log_end == 3
    assert leader.refuses(3, 13, with_leader_epoch=True) is ErrorCode.unknown_leader_epoch


def test_a_replica_that_has_just_joined_gets_time_to_reach_the_end() -> None:
    """Otherwise a slow follower of a busy leader would be removed at once and join again with its next fetch."""
    log = ModelLog([EPOCH] * 10, high_watermark=5)
    leader = leads((1, 3), log=log)
    log.append(*[EPOCH] * 5)
    leader.progress[3].fetched(15, 0, 15, NOW)
    log.append(EPOCH, EPOCH)
    fetch(leader, log, 2, 15)
    assert new_isr(leader.propose(log, NOW)) == (1, 3, 2)
    leader.update(settled(leader, (1, 3, 2)))
    fetch(leader, log, 2, 16, NOW + 1)
    log.append(EPOCH)
    assert leader.propose(log, MonotonicMs(NOW + LAG)) is None
    fetch(leader, log, 3, 18, NOW + LAG + 1)
    assert new_isr(leader.propose(log, MonotonicMs(NOW + LAG + 1))) == (1, 3)


@pytest.mark.parametrize(("missed", "log_end"), [(0, 9), (1, -1)])
def test_a_leader_that_missed_a_change_forgets_the_recorded_progress(missed: int, log_end: int) -> None:
    """A replica may have been removed and added again: its log is empty, but its broker epoch is the same."""
    log = ModelLog([EPOCH] * 10)
    before = leads((1, 2, 3), log=log)
    fetch(before, log, 3, 9)
    old = before.leadership
    after = old._replace(leader_epoch=EPOCH + 1, partition_epoch=old.partition_epoch + 1 + missed, isr=(1, 2))
    leader = ReplicaLeader(1, after, before.rules, ACTIVE.get, log.end_offset, NOW, before)
    assert leader.progress[3].log_end == log_end


def test_in_a_new_epoch_followers_are_sent_all_watermarks_again() -> None:
    """They ignore responses to fetches of the last epoch, though they were sent."""
    log = ModelLog([EPOCH] * 10, high_watermark=10)
    before = leads((1, 2, 3), log=log)
    fetch(before, log, 3, 10)
    before.record_watermarks_sent(3, log)
    assert not before.needs_watermarks(3, log)
    old = before.leadership
    after = old._replace(leader_epoch=EPOCH + 1, partition_epoch=old.partition_epoch + 1)
    leader = ReplicaLeader(1, after, before.rules, ACTIVE.get, log.end_offset, NOW, before)
    assert leader.progress[3].log_end == 10
    assert leader.needs_watermarks(3, log)
