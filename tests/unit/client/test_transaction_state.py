"""A transactional producer's states: every call in every state, and what each error leads to."""

import itertools
import re

import pytest
from isthmus_client.errors import (
    ClientError,
    GaveUp,
    IllegalCall,
    MustAbort,
    NotSupported,
    ProducerFenced,
    ProducerUnusable,
    Refused,
)
from isthmus_client.transaction_state import Call, State, TransactionState
from isthmus_wire.errors import ErrorCode

LEGAL = {
    State.NEW: {Call.INIT},
    State.INITIALIZING: {Call.INIT},
    State.READY: {Call.BEGIN},
    State.OPEN: {Call.SEND, Call.SEND_OFFSETS, Call.COMMIT, Call.ABORT},
    State.COMMITTING: {Call.COMMIT, Call.ABORT},
    State.IN_DOUBT: {Call.COMMIT},
    State.ABORTING: {Call.ABORT},
    State.MUST_ABORT: {Call.ABORT},
    State.UNUSABLE: set[Call](),
}
TIMEOUT = GaveUp("no response")


def refused(code: ErrorCode) -> Refused:
    return Refused(code, "partition t-0")


def in_state(state: State) -> TransactionState:
    """A producer that has got there by calls and errors."""
    transaction = TransactionState("id")
    if state is State.NEW:
        return transaction
    transaction.enter(Call.INIT)
    if state is State.INITIALIZING:
        return transaction
    transaction.complete()
    if state is State.READY:
        return transaction
    transaction.enter(Call.BEGIN)
    if state in (State.COMMITTING, State.IN_DOUBT):
        transaction.enter(Call.COMMIT)
    if state is State.IN_DOUBT:
        transaction.send_commit()
    if state is State.ABORTING:
        transaction.enter(Call.ABORT)
    if state is State.MUST_ABORT:
        transaction.fail(TIMEOUT)
    if state is State.UNUSABLE:
        transaction.fail(refused(ErrorCode.producer_fenced))
    return transaction


@pytest.mark.parametrize(("state", "call"), list(itertools.product(State, Call)), ids=lambda one: one.name)
def test_every_call_in_every_state(state: State, call: Call) -> None:
    transaction = in_state(state)
    assert transaction.state is state
    if call in LEGAL[state]:
        transaction.check(call)
        assert transaction.state is state
        transaction.enter(call)
    else:
        expected = {State.MUST_ABORT: MustAbort, State.UNUSABLE: ProducerFenced}.get(state, IllegalCall)
        with pytest.raises(expected):
            transaction.enter(call)
        assert transaction.state is state


def test_an_illegal_call_says_what_to_do() -> None:
    message = "transactional id id: cannot call send: the producer has no open transaction: call begin first"
    with pytest.raises(IllegalCall, match=re.escape(message)):
        in_state(State.READY).check(Call.SEND)


def test_a_transaction_is_committed_or_aborted_and_followed_by_another() -> None:
    transaction = in_state(State.COMMITTING)
    transaction.complete()
    transaction.enter(Call.BEGIN)
    transaction.fail(TIMEOUT)
    transaction.enter(Call.ABORT)
    transaction.complete()
    transaction.enter(Call.BEGIN)
    transaction.check(Call.SEND)


def test_buffered_records_are_appended_while_commit_waits_for_them_and_not_after_a_failure() -> None:
    for state in (State.OPEN, State.COMMITTING):
        in_state(state).check_append()
    with pytest.raises(MustAbort):
        in_state(State.MUST_ABORT).check_append()
    with pytest.raises(IllegalCall):
        in_state(State.ABORTING).check_append()


@pytest.mark.parametrize(
    "error",
    [
        TIMEOUT,
        refused(ErrorCode.transaction_abortable),
        refused(ErrorCode.out_of_order_sequence_number),
        refused(ErrorCode.unknown_producer_id),
        refused(ErrorCode.message_too_large),
        refused(ErrorCode.invalid_txn_state),
        refused(ErrorCode.illegal_generation),
        refused(ErrorCode.topic_authorization_failed),
    ],
    ids=str,
)
@pytest.mark.parametrize("state", [State.OPEN, State.COMMITTING, State.IN_DOUBT])
def test_most_errors_end_the_transaction(state: State, error: ClientError) -> None:
    transaction = in_state(state)
    raised = transaction.fail(error)
    assert type(raised) is MustAbort
    assert str(raised) == (f"transactional id id: {error}. Abort the transaction, then repeat its work in a new one.")
    assert raised.__cause__ is error
    assert transaction.state is State.MUST_ABORT


@pytest.mark.parametrize("state", [state for state in State if state is not State.UNUSABLE])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (refused(ErrorCode.producer_fenced), ProducerFenced),
        (refused(ErrorCode.invalid_producer_epoch), ProducerFenced),
        (refused(ErrorCode.invalid_producer_id_mapping), ProducerUnusable),
        (refused(ErrorCode.transactional_id_authorization_failed), ProducerUnusable),
        (NotSupported("too old"), ProducerUnusable),
    ],
    ids=str,
)
def test_fatal_errors_end_the_producer(state: State, error: ClientError, kind: type[ProducerUnusable]) -> None:
    transaction = in_state(state)
    raised = transaction.fail(error)
    assert type(raised) is kind
    assert raised.__cause__ is error
    assert transaction.state is State.UNUSABLE
    unknown = "check whether its transaction was committed" in str(raised)
    assert unknown == (state is State.IN_DOUBT)


def test_an_old_epoch_in_the_response_to_an_append_may_be_a_timed_out_transaction() -> None:
    transaction = in_state(State.OPEN)
    assert type(transaction.fail(refused(ErrorCode.invalid_producer_epoch), is_append=True)) is MustAbort
    assert type(transaction.fail(refused(ErrorCode.producer_fenced), is_append=True)) is ProducerFenced


@pytest.mark.parametrize("state", [State.NEW, State.INITIALIZING, State.READY])
def test_other_errors_outside_of_a_transaction_change_nothing(state: State) -> None:
    transaction = in_state(state)
    assert transaction.fail(TIMEOUT) is TIMEOUT
    assert transaction.state is state


def test_a_refused_abort_ends_the_producer() -> None:
    transaction = in_state(State.ABORTING)
    raised = transaction.fail(refused(ErrorCode.invalid_txn_state))
    assert type(raised) is ProducerUnusable
    assert "the abort was refused" in str(raised)


def test_the_first_error_of_a_transaction_is_the_one_that_is_raised() -> None:
    transaction = in_state(State.OPEN)
    first = refused(ErrorCode.message_too_large)
    transaction.fail(first)
    assert transaction.fail(TIMEOUT).__cause__ is first
    transaction.fail(refused(ErrorCode.producer_fenced))
    assert type(transaction.fail(TIMEOUT)) is ProducerFenced


def test_an_error_is_raised_until_the_transaction_is_aborted() -> None:
    transaction = in_state(State.OPEN)
    first = refused(ErrorCode.message_too_large)
    transaction.fail(first)
    with pytest.raises(MustAbort, match="message_too_large") as raised:
        transaction.enter(Call.COMMIT)
    assert raised.value.__cause__ is first
