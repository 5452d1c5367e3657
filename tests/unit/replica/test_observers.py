"""Promotion and demotion of observers. Replicas 1 and 2 are sync replicas, 3 and 4 observers."""

from typing import Any

import pytest
from isthmus_broker.core.replica.isr import ReplicaView, target_isr
from isthmus_broker.core.replica.leader import ReplicaLeader
from isthmus_broker.core.replica.leadership import IsrRules, Leadership
from isthmus_model.clocks import MonotonicMs
from isthmus_model.constraints import Promotion

from tests.unit.replica.logs import ModelLog

SYNC, ALL, OBSERVERS = (1, 2), (1, 2, 3, 4), (3, 4)


def target(
    isr: tuple[int, ...],
    promotion: Promotion,
    *,
    ready: tuple[int, ...] = (),
    lagging: tuple[int, ...] = (),
    leader: int | None = None,
    min_isr: int = 1,
    replicas: tuple[int, ...] = ALL,
    observers: tuple[int, ...] = OBSERVERS,
) -> tuple[int, ...]:
    """The ISR that the leader (its first member) proposes while `ready` could join and `lagging` fell behind."""
    head = isr[0] if leader is None else leader
    leadership = Leadership(head, 1, replicas, isr, observers=observers)
    views = [
        ReplicaView(r, log_end=100, caught_up=r not in lagging, may_join=r in ready) for r in replicas if r != head
    ]
    return target_isr(head, leadership, IsrRules(promotion=promotion), min_isr, views)


@pytest.mark.parametrize(
    ("promotion", "min_isr", "after"),
    [
        (Promotion.NEVER, 2, (1,)),
        (Promotion.UNDER_MIN_ISR, 2, (1, 3)),
        (Promotion.UNDER_MIN_ISR, 1, (1,)),
        (Promotion.UNDER_REPLICATED, 1, (1, 3)),
        (Promotion.LEADER_IS_OBSERVER, 2, (1,)),
    ],
)
def test_one_broker_of_the_sync_region_is_lost(promotion: Promotion, min_isr: int, after: tuple[int, ...]) -> None:
    assert target((1,), promotion, ready=(3, 4), min_isr=min_isr) == after


@pytest.mark.parametrize("promotion", [Promotion.UNDER_MIN_ISR, Promotion.UNDER_REPLICATED])
def test_the_whole_sync_region_is_lost_after_that(promotion: Promotion) -> None:
    assert target((4,), promotion, ready=(3,), min_isr=2) == (4, 3)


def test_a_leading_observer_promotes_others_by_its_own_policy() -> None:
    assert target((4,), Promotion.LEADER_IS_OBSERVER, ready=(3,)) == (4, 3)


@pytest.mark.parametrize("promotion", list(Promotion))
def test_observers_are_not_promoted_while_all_replicas_are_in_sync(promotion: Promotion) -> None:
    assert target((1, 2), promotion, ready=(3, 4), min_isr=2) == (1, 2)


def test_a_lagging_observer_is_not_promoted() -> None:
    assert target((1,), Promotion.UNDER_MIN_ISR, ready=(3,), lagging=(3,), min_isr=2) == (1,)
    assert target((1,), Promotion.UNDER_MIN_ISR, ready=(), min_isr=2) == (1,)


def test_the_observer_with_the_most_records_is_promoted() -> None:
    leadership = Leadership(1, 1, ALL, (1,), observers=OBSERVERS)
    views = [ReplicaView(3, 50, caught_up=True, may_join=True), ReplicaView(4, 60, caught_up=True, may_join=True)]
    assert target_isr(1, leadership, IsrRules(promotion=Promotion.UNDER_MIN_ISR), 2, views) == (1, 4)


def test_an_observer_replaces_the_sync_replica_that_falls_behind_in_one_step() -> None:
    assert target((1, 2), Promotion.UNDER_MIN_ISR, ready=(4,), lagging=(2,), min_isr=2) == (1, 4)


@pytest.mark.parametrize("promotion", [Promotion.UNDER_MIN_ISR, Promotion.UNDER_REPLICATED])
def test_a_promoted_observer_is_demoted_when_the_sync_replica_is_back(promotion: Promotion) -> None:
    assert target((1, 3), promotion, ready=(2,), min_isr=2) == (1, 2)


@pytest.mark.parametrize("promotion", [Promotion.UNDER_MIN_ISR, Promotion.UNDER_REPLICATED])
def test_a_promoted_observer_stays_until_then(promotion: Promotion) -> None:
    assert target((1, 3), promotion, ready=(4,), min_isr=2) == (1, 3)


def test_two_and_a_half_regions() -> None:
    """2+2 sync replicas, 1+1 observers, at least 3 in sync: a region is lost, then returns one broker after the other."""
    policy = Promotion.UNDER_MIN_ISR
    six: dict[str, Any] = {"min_isr": 3, "replicas": (1, 2, 3, 4, 5, 6), "observers": (5, 6)}
    assert target((1, 2), policy, ready=(5,), **six) == (1, 2, 5)
    assert target((1, 2, 5), policy, ready=(3, 6), **six) == (1, 2, 3)
    assert target((1, 2, 3), policy, ready=(4, 5), **six) == (1, 2, 3, 4)


def test_a_leading_observer_stays_in_its_own_isr_and_the_other_is_demoted_first() -> None:
    assert target((3, 4), Promotion.LEADER_IS_OBSERVER, ready=(1, 2)) == (3, 1, 2)


def test_after_a_failback_observers_are_demoted_once_the_minimum_is_met_without_them() -> None:
    assert target((1, 3), Promotion.NEVER, min_isr=2, leader=1) == (1, 3)
    assert target((1, 3), Promotion.NEVER, min_isr=2, leader=1, ready=(2,)) == (1, 2)
    assert target((1, 3), Promotion.NEVER, min_isr=1, leader=1) == (1,)


def test_an_observer_in_the_isr_is_removed_like_any_other_when_it_falls_behind() -> None:
    assert target((1, 3), Promotion.UNDER_MIN_ISR, lagging=(3,), ready=(4,), min_isr=2) == (1, 4)


@pytest.mark.parametrize("promotion", list(Promotion))
@pytest.mark.parametrize("isr", [(1,), (1, 2), (1, 3), (2, 3, 4), (3,), (4, 3), (3, 1, 2)])
@pytest.mark.parametrize("ready", [(), (2,), (3, 4), (1, 2), (1, 2, 3, 4)])
@pytest.mark.parametrize("min_isr", [1, 2, 3])
def test_no_proposal_follows_an_accepted_one(
    promotion: Promotion, isr: tuple[int, ...], ready: tuple[int, ...], min_isr: int
) -> None:
    joins = tuple(r for r in ready if r not in isr)
    after = target(isr, promotion, ready=joins, min_isr=min_isr)
    left = tuple(r for r in (*isr, *joins) if r not in after)
    assert after[0] == isr[0]
    assert len(set(after)) == len(after)
    assert target(after, promotion, ready=left, min_isr=min_isr) == after


def test_observers_outside_the_isr_do_not_hold_the_high_watermark_back() -> None:
    log = ModelLog([1] * 10)
    active = {1: 11, 2: 12, 3: 13, 4: 14}
    leadership = Leadership(1, 1, ALL, SYNC, observers=OBSERVERS)
    leader = ReplicaLeader(1, leadership, IsrRules(10_000), active.get, 0, MonotonicMs(0))
    leader.fetched(3, 13, 10, 0, log, MonotonicMs(0))
    log.append(1)
    assert leader.fetched(2, 12, 11, 0, log, MonotonicMs(0)) == 11
    assert leader.propose(log, MonotonicMs(0)) is None
