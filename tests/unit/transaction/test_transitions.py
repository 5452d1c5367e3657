"""The coordinator's transitions, row by row as Apache Kafka 4.3.1 makes them."""

from dataclasses import replace
from typing import Any

import pytest
from isthmus_broker.core.transaction.producers import init, refuse_timeout
from isthmus_broker.core.transaction.records import TopicPartition, Transaction
from isthmus_broker.core.transaction.requests import (
    NO_PRODUCER,
    AddPartitions,
    EndTransaction,
    InitProducer,
    NeedsProducerId,
    Outcome,
)
from isthmus_broker.core.transaction.states import TRANSITIONS, State, is_legal
from isthmus_broker.core.transaction.transitions import (
    EPOCH_LAST,
    add_partitions,
    complete,
    end,
    fence,
    producer_after,
)
from isthmus_model.clocks import WallMs
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import ProducerId

ID, SPARE, NOW = 7, 8, WallMs(5_000)
PLACE = TopicPartition("t", 0)
E = ErrorCode


def at(state: State, epoch: int = 3, **changes: Any) -> Transaction:
    has_partitions = state in (State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT)
    before = Transaction(
        producer_id=ID,
        epoch=epoch,
        timeout_ms=60_000,
        state=state,
        partitions=frozenset({PLACE}) if has_partitions else frozenset(),
        updated_ms=1,
        start_ms=1,
        previous_producer_id=ID,
        version=2,
    )
    return replace(before, **changes)


def after_init(
    before: Transaction | None, expected: ProducerId | None = None, spare_id: int | None = SPARE, version: int = 2
) -> Any:
    request = InitProducer(transactional_id="x", timeout_ms=9_000, expected=expected, spare_id=spare_id)
    return init(before, request, NOW, version)


IDLE = (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


# -- InitProducerId ----------------------------------------------------------------------------------------------------------


def test_a_new_id_begins_with_epoch_0() -> None:
    assert isinstance(after_init(None, spare_id=None), NeedsProducerId)
    new = after_init(None)
    assert (new.producer, new.state, new.timeout_ms, new.last_epoch) == (ProducerId(SPARE, 0), State.EMPTY, 9_000, -1)


@pytest.mark.parametrize("state", IDLE)
@pytest.mark.parametrize(
    ("expected", "last_epoch"), [(None, -1), (ProducerId(ID, 3), 3)], ids=["no expected producer", "the current one"]
)
def test_the_next_epoch(state: State, expected: ProducerId | None, last_epoch: int) -> None:
    after = after_init(at(state), expected)
    assert (after.producer, after.state, after.last_epoch) == (ProducerId(ID, 4), State.EMPTY, last_epoch)
    assert (after.partitions, after.start_ms, after.updated_ms, after.timeout_ms) == (frozenset(), -1, NOW, 9_000)


@pytest.mark.parametrize("state", IDLE)
def test_a_repeated_init_gets_the_same_epoch(state: State) -> None:
    after = after_init(at(state, last_epoch=2), ProducerId(ID, 2))
    assert (after.producer, after.last_epoch, after.state) == (ProducerId(ID, 3), 2, State.EMPTY)


@pytest.mark.parametrize("expected", [ProducerId(ID, 1), ProducerId(ID, 4), ProducerId(99, 3)])
@pytest.mark.parametrize("state", [*IDLE])
def test_another_producer_is_fenced(state: State, expected: ProducerId) -> None:
    assert after_init(at(state), expected) == Outcome(E.producer_fenced)


@pytest.mark.parametrize("expected", [None, ProducerId(ID, EPOCH_LAST)])
def test_after_the_last_epoch_there_is_another_id(expected: ProducerId | None) -> None:
    before = at(State.COMPLETE_COMMIT, EPOCH_LAST)
    assert isinstance(after_init(before, expected, spare_id=None), NeedsProducerId)
    after = after_init(before, expected)
    assert after.producer == ProducerId(SPARE, 0)
    assert after.last_epoch == (-1 if expected is None else EPOCH_LAST)
    assert after.previous_producer_id == ID
    repeated = after_init(after, ProducerId(ID, EPOCH_LAST))
    if expected is not None:
        assert repeated.producer == ProducerId(SPARE, 0)
    assert after_init(after, ProducerId(ID, EPOCH_LAST - 1)) == Outcome(E.producer_fenced)


def test_a_stale_producer_with_an_exhausted_epoch_is_fenced() -> None:
    """Apache Kafka responds UNKNOWN_SERVER_ERROR."""
    assert after_init(at(State.EMPTY, EPOCH_LAST), ProducerId(ID, 5)) == Outcome(E.producer_fenced)


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
def test_a_decided_transaction_must_be_complete_first(state: State) -> None:
    assert after_init(at(state)) == Outcome(E.concurrent_transactions)
    assert after_init(at(state), ProducerId(ID, 3)) == Outcome(E.concurrent_transactions)


@pytest.mark.parametrize(("version", "last_epoch"), [(0, -1), (1, -1), (2, 3)])
@pytest.mark.parametrize("expected", [None, ProducerId(ID, 3), ProducerId(ID, 1)])
def test_an_ongoing_transaction_is_aborted(version: int, last_epoch: int, expected: ProducerId | None) -> None:
    """The expected epoch is not compared."""
    after = after_init(at(State.ONGOING), expected, version=version)
    assert (after.state, after.epoch, after.last_epoch, after.version) == (State.PREPARE_ABORT, 4, last_epoch, version)
    assert after.partitions == {PLACE}


@pytest.mark.parametrize(
    ("timeout_ms", "error"), [(0, True), (-1, True), (1, False), (900_000, False), (900_001, True)]
)
def test_timeouts(timeout_ms: int, error: bool) -> None:
    assert refuse_timeout(timeout_ms, 900_000) == (E.invalid_transaction_timeout if error else None)


# -- partitions --------------------------------------------------------------------------------------------------------------


def adding(*places: TopicPartition) -> AddPartitions:
    return AddPartitions(transactional_id="x", producer=ProducerId(ID, 3), partitions=frozenset(places), version=2)


@pytest.mark.parametrize("state", IDLE)
def test_the_first_partition_begins_a_transaction(state: State) -> None:
    after = add_partitions(at(state, version=0), adding(PLACE), NOW)
    assert after is not None
    assert (after.state, after.start_ms, after.partitions, after.version) == (State.ONGOING, NOW, frozenset({PLACE}), 2)


def test_more_partitions_are_added_and_those_it_has_change_nothing() -> None:
    other = TopicPartition("u", 1)
    assert add_partitions(at(State.ONGOING), adding(PLACE), NOW) is None
    after = add_partitions(at(State.ONGOING), adding(PLACE, other), NOW)
    assert after is not None
    assert (after.partitions, after.start_ms, after.updated_ms) == (frozenset({PLACE, other}), 1, NOW)


# -- EndTxn ------------------------------------------------------------------------------------------------------------------


def after_end(
    before: Transaction, epoch: int, commits: bool, version: int, producer_id: int = ID, spare_id: int | None = SPARE
) -> Any:
    request = EndTransaction(
        transactional_id="x",
        producer=ProducerId(producer_id, epoch),
        commits=commits,
        version=version,
        spare_id=spare_id,
    )
    return end(before, request, NOW)


@pytest.mark.parametrize("commits", [True, False])
def test_a_decision_before_version_2_keeps_the_epoch(commits: bool) -> None:
    after = after_end(at(State.ONGOING), 3, commits, 0)
    assert after.state is (State.PREPARE_COMMIT if commits else State.PREPARE_ABORT)
    assert (after.epoch, after.version, producer_after(after)) == (3, 0, NO_PRODUCER)
    done = complete(after, NOW)
    assert done.state is (State.COMPLETE_COMMIT if commits else State.COMPLETE_ABORT)
    assert (done.producer, done.partitions, done.start_ms) == (ProducerId(ID, 3), frozenset(), 1)


@pytest.mark.parametrize("commits", [True, False])
def test_a_decision_of_version_2_raises_the_epoch(commits: bool) -> None:
    after = after_end(at(State.ONGOING), 3, commits, 2)
    assert (after.epoch, after.last_epoch, after.version, producer_after(after)) == (4, 3, 2, ProducerId(ID, 4))
    assert complete(after, NOW).producer == ProducerId(ID, 4)


def test_the_last_epoch_of_an_id_is_followed_by_another_id() -> None:
    before = at(State.ONGOING, EPOCH_LAST)
    assert isinstance(after_end(before, EPOCH_LAST, True, 2, spare_id=None), NeedsProducerId)
    after = after_end(before, EPOCH_LAST, True, 2)
    assert (after.producer, after.next_producer_id) == (ProducerId(ID, 32_767), SPARE)
    assert producer_after(after) == ProducerId(SPARE, 0)
    done = complete(after, NOW)
    assert (done.producer, done.previous_producer_id, done.next_producer_id) == (ProducerId(SPARE, 0), ID, -1)
    assert done.last_epoch == EPOCH_LAST
    assert after_end(done, EPOCH_LAST, True, 2) == Outcome(producer=ProducerId(SPARE, 0))
    assert after_end(done, EPOCH_LAST, False, 2) == Outcome(E.invalid_txn_state)
    assert after_end(done, EPOCH_LAST - 1, True, 2) == Outcome(E.invalid_producer_id_mapping)


REFUSALS_1 = [
    (State.ONGOING, 2, True, E.producer_fenced),
    (State.ONGOING, 4, True, E.producer_fenced),
    (State.PREPARE_COMMIT, 3, True, E.concurrent_transactions),
    (State.PREPARE_ABORT, 3, True, E.concurrent_transactions),
    (State.PREPARE_ABORT, 2, True, E.producer_fenced),
    (State.EMPTY, 3, True, E.invalid_txn_state),
    (State.EMPTY, 3, False, E.invalid_txn_state),
    (State.COMPLETE_COMMIT, 3, True, E.none),
    (State.COMPLETE_COMMIT, 3, False, E.invalid_txn_state),
    (State.COMPLETE_ABORT, 3, True, E.invalid_txn_state),
    (State.COMPLETE_ABORT, 3, False, E.none),
]


@pytest.mark.parametrize(("state", "epoch", "commits", "error"), REFUSALS_1)
def test_refused_or_repeated_before_version_2(state: State, epoch: int, commits: bool, error: ErrorCode) -> None:
    assert after_end(at(state), epoch, commits, 0) == Outcome(error)
    assert after_end(at(state), epoch, commits, 0, producer_id=99) == Outcome(E.invalid_producer_id_mapping)


NEXT = ProducerId(ID, 3)
REFUSALS_2 = [
    (State.ONGOING, 2, True, Outcome(E.producer_fenced)),
    (State.PREPARE_COMMIT, 3, True, Outcome(E.concurrent_transactions)),
    (State.PREPARE_COMMIT, 2, True, Outcome(E.concurrent_transactions)),
    (State.EMPTY, 3, True, Outcome(E.invalid_txn_state)),
    (State.EMPTY, 2, True, Outcome(E.producer_fenced)),
    (State.EMPTY, 2, False, Outcome(E.producer_fenced)),
    (State.COMPLETE_COMMIT, 2, True, Outcome(producer=NEXT)),
    (State.COMPLETE_COMMIT, 2, False, Outcome(E.invalid_txn_state)),
    (State.COMPLETE_COMMIT, 3, True, Outcome(E.invalid_txn_state)),
    (State.COMPLETE_COMMIT, 1, True, Outcome(E.producer_fenced)),
    (State.COMPLETE_ABORT, 2, False, Outcome(producer=NEXT)),
    (State.COMPLETE_ABORT, 2, True, Outcome(E.invalid_txn_state)),
    (State.COMPLETE_ABORT, 3, True, Outcome(E.invalid_txn_state)),
]


@pytest.mark.parametrize(("state", "epoch", "commits", "outcome"), REFUSALS_2)
def test_refused_or_repeated_in_version_2(state: State, epoch: int, commits: bool, outcome: Outcome) -> None:
    assert after_end(at(state), epoch, commits, 2) == outcome


@pytest.mark.parametrize("state", IDLE)
def test_an_empty_transaction_may_be_aborted_in_version_2(state: State) -> None:
    after = after_end(at(state), 3, False, 2)
    assert (after.state, after.epoch, after.start_ms, after.partitions) == (State.PREPARE_ABORT, 4, NOW, frozenset())


@pytest.mark.parametrize("version", [0, 1, 2])
def test_fencing(version: int) -> None:
    after = fence(at(State.ONGOING), NOW, version, None)
    assert isinstance(after, Transaction)
    assert (after.state, after.epoch, after.version) == (State.PREPARE_ABORT, 4, version)
    last = fence(at(State.ONGOING, EPOCH_LAST), NOW, version, SPARE)
    assert isinstance(last, Transaction)
    assert last.epoch == 32_767
    assert complete(last, NOW).producer == (ProducerId(SPARE, 0) if version == 2 else ProducerId(ID, 32_767))


def test_the_table_of_states() -> None:
    assert is_legal(None, State.EMPTY)
    assert not is_legal(None, State.ONGOING)
    assert not is_legal(State.PREPARE_COMMIT, State.COMPLETE_ABORT)
    assert not is_legal(State.EMPTY, State.PREPARE_COMMIT)
    assert set(TRANSITIONS) == set(State)
    assert [state.kafka_name for state in State] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
