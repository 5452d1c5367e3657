"""The table of mirror topics' states, and promotion."""

from dataclasses import replace

import pytest
from isthmus_broker.core.links.promotion import lags_of, why_not_caught_up
from isthmus_broker.core.links.transitions import after, why_not
from isthmus_model.freshness import STALE_MS
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.mirrors import MirrorAction as Do
from isthmus_wire.extensions.mirrors import MirrorState as State
from isthmus_wire.extensions.mirrors import PartitionLag, PartitionProgress

STORED = (State.ACTIVE, State.PAUSED, State.SOURCE_UNAVAILABLE, State.FAILED, State.PENDING_STOPPED, State.STOPPED)


@pytest.mark.parametrize("state", STORED)
def test_failover_is_possible_from_every_state(state: State) -> None:
    assert after(state, Do.FAILOVER) is State.STOPPED


def test_nothing_brings_a_stopped_topic_back() -> None:
    assert {after(State.STOPPED, action) for action in Do} == {None, State.STOPPED}
    for action in (Do.PAUSE, Do.RESUME, Do.FAIL, Do.SOURCE_LOST, Do.SOURCE_FOUND):
        assert after(State.STOPPED, action) is None
        assert "cannot become a mirror topic again" in why_not(State.STOPPED, action)


def test_only_an_active_topic_is_promoted_and_only_a_worker_finishes_that() -> None:
    assert [state for state in STORED if after(state, Do.PROMOTE) is State.PENDING_STOPPED] == [
        State.ACTIVE,
        State.PENDING_STOPPED,
    ]
    assert [state for state in STORED if after(state, Do.FINISH_PROMOTION) is State.STOPPED] == [
        State.PENDING_STOPPED,
        State.STOPPED,
    ]


def test_a_source_that_comes_and_goes_moves_active_topics_alone() -> None:
    lost = {state: after(state, Do.SOURCE_LOST) for state in STORED}
    found = {state: after(state, Do.SOURCE_FOUND) for state in STORED}
    assert [state for state in STORED if lost[state] not in (state, None)] == [State.ACTIVE]
    assert [state for state in STORED if found[state] not in (state, None)] == [State.SOURCE_UNAVAILABLE]


def test_a_refusal_says_what_is_possible() -> None:
    assert why_not(State.FAILED, Do.PAUSE) == "it is FAILED; possible actions: failover, resume."


CAUGHT_UP = PartitionProgress(
    index=0,
    error_code=ErrorCode.none,
    leader_epoch=3,
    log_start_offset=0,
    high_watermark=10,
    log_end_offset=10,
    last_epoch=1,
    source_high_watermark=10,
    last_heard_lag_ms=5,
    caught_up_lag_ms=5,
)


def test_a_topic_that_has_caught_up_may_be_promoted() -> None:
    assert why_not_caught_up({0: CAUGHT_UP, 1: CAUGHT_UP}) is None
    assert lags_of({0: CAUGHT_UP}) == (PartitionLag(index=0, lag=0, last_source_fetch_offset=10),)


@pytest.mark.parametrize(
    ("told", "why", "lag"),
    [
        (None, "the leader of partition 1 does not respond", -1),
        (
            replace(CAUGHT_UP, source_high_watermark=-1, last_heard_lag_ms=-1),
            "the source position of partition 1 is stale",
            -1,
        ),
        (replace(CAUGHT_UP, last_heard_lag_ms=STALE_MS + 1), "the source position of partition 1 is stale", 0),
        (replace(CAUGHT_UP, source_high_watermark=13), "partition 1 is 3 records behind its source", 3),
        (replace(CAUGHT_UP, high_watermark=8), "partition 1 is 2 records behind its source", 2),
    ],
)
def test_what_keeps_a_topic_from_being_promoted(told: PartitionProgress | None, why: str, lag: int) -> None:
    refused = why_not_caught_up({0: CAUGHT_UP, 1: told})
    assert refused is not None
    assert why in refused
    assert [one.lag for one in lags_of({0: CAUGHT_UP, 1: told})] == [0, lag]
