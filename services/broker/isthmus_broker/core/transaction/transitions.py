"""A transaction's way through the states.

Each function returns the next state, the response to a request that changes nothing, or NeedsProducerId. The rules are those of Apache
Kafka 4.3.1. With transaction.version 2 every decision raises the epoch, and the client continues with the raised one; before, only fencing
raises it.
"""

from dataclasses import replace
from typing import Any, Final

from isthmus_model.clocks import WallMs
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import ProducerId

from isthmus_broker.core.transaction.records import NO_PRODUCER_ID, Transaction
from isthmus_broker.core.transaction.requests import (
    NO_PRODUCER,
    VERSION_2,
    AddPartitions,
    EndTransaction,
    NeedsProducerId,
    Outcome,
)
from isthmus_broker.core.transaction.states import State

EPOCH_LAST: Final = 32_766
"""The last epoch that a client may have; the one above is for the markers that end its last transaction."""
NEVER_MS: Final = 2**31 - 1
"""The timeout of a transaction that does not time out."""
Decided = Transaction | Outcome | NeedsProducerId


def next_state(before: Transaction, state: State, now_ms: WallMs, **changes: Any) -> Transaction:
    """The transactional id in another state; the other fields stay unless they are named."""
    return replace(before, state=state, updated_ms=now_ms, previous_producer_id=before.producer_id, **changes)


def is_exhausted(epoch: int) -> bool:
    """Whether a client cannot get a higher epoch of the same producer id."""
    return epoch >= EPOCH_LAST


# -- partitions --------------------------------------------------------------------------------------------------------------


def refuse_change(before: Transaction, producer: ProducerId) -> ErrorCode | None:
    """Why this producer may not add partitions now, if it may not. A decided transaction must be complete first."""
    if before.state.is_prepared:
        return ErrorCode.concurrent_transactions
    return refuse_producer(before, producer)


def refuse_producer(before: Transaction, producer: ProducerId) -> ErrorCode | None:
    """Why this is not the current producer, if it is not."""
    if producer.id != before.producer_id:
        return ErrorCode.invalid_producer_id_mapping
    return ErrorCode.producer_fenced if producer.epoch != before.epoch else None


def add_partitions(before: Transaction, request: AddPartitions, now_ms: WallMs) -> Transaction | None:
    """Add the partitions, which begins a transaction if there is none; None if it has them all."""
    if before.state is State.ONGOING:
        if request.partitions <= before.partitions:
            return None
        partitions = before.partitions | request.partitions
        return next_state(before, State.ONGOING, now_ms, partitions=partitions, version=request.version)
    return next_state(
        before, State.ONGOING, now_ms, partitions=request.partitions, start_ms=now_ms, version=request.version
    )


# -- the decision ------------------------------------------------------------------------------------------------------------


def end(before: Transaction, request: EndTransaction, now_ms: WallMs) -> Decided:
    """Decide the transaction as its producer wishes."""
    return _end_2(before, request, now_ms) if request.version >= VERSION_2 else _end_1(before, request, now_ms)


def _end_1(before: Transaction, request: EndTransaction, now_ms: WallMs) -> Decided:
    error = refuse_producer(before, request.producer)
    if error is None and before.state.is_prepared:
        error = ErrorCode.concurrent_transactions
    if error is not None:
        return Outcome(error)
    if before.state is State.ONGOING:
        return next_state(before, _prepared(commits=request.commits), now_ms, version=request.version)
    is_repeated = before.state is _completed(commits=request.commits)
    return Outcome(ErrorCode.none if is_repeated else ErrorCode.invalid_txn_state)


def _end_2(before: Transaction, request: EndTransaction, now_ms: WallMs) -> Decided:
    if before.state.is_prepared:
        return Outcome(ErrorCode.concurrent_transactions)
    is_repeated = _is_repeated(before, request.producer)
    if not is_repeated:
        error = refuse_producer(before, request.producer)
        if error is not None:
            return Outcome(error)
    if before.state is State.ONGOING:
        return decide(before, now_ms, commits=request.commits, spare_id=request.spare_id)
    if is_repeated:
        if before.state is _completed(commits=request.commits):
            return Outcome(producer=before.producer)
        return Outcome(ErrorCode.invalid_txn_state)
    if request.commits:
        return Outcome(ErrorCode.invalid_txn_state)
    return decide(replace(before, start_ms=now_ms), now_ms, commits=False, spare_id=request.spare_id)


def _is_repeated(before: Transaction, producer: ProducerId) -> bool:
    """Whether the producer is the one from before the decision: its request is repeated, because the response was lost."""
    if before.state not in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
        return False
    if producer == ProducerId(before.producer_id, before.epoch - 1):
        return True
    return before.epoch == 0 and producer == ProducerId(before.previous_producer_id, EPOCH_LAST)


def decide(
    before: Transaction, now_ms: WallMs, *, commits: bool, spare_id: int | None
) -> Transaction | NeedsProducerId:
    """Decide a transaction by the rules of transaction.version 2: the producer gets the next epoch, or another id after the last one."""
    next_id = NO_PRODUCER_ID
    if is_exhausted(before.epoch):
        if spare_id is None:
            return NeedsProducerId()
        next_id = spare_id
    return next_state(
        before,
        _prepared(commits=commits),
        now_ms,
        epoch=before.epoch + 1,
        last_epoch=before.epoch,
        next_producer_id=next_id,
        version=VERSION_2,
    )


def fence(before: Transaction, now_ms: WallMs, version: int, spare_id: int | None) -> Transaction | NeedsProducerId:
    """Abort an ongoing transaction against its producer, whose epoch becomes obsolete."""
    if version >= VERSION_2:
        return decide(before, now_ms, commits=False, spare_id=spare_id)
    return next_state(before, State.PREPARE_ABORT, now_ms, epoch=before.epoch + 1, last_epoch=-1, version=version)


def producer_after(decided: Transaction) -> ProducerId:
    """The producer with which the client continues after its decision; none before transaction.version 2."""
    if decided.version < VERSION_2:
        return NO_PRODUCER
    return _after(decided)


def _after(decided: Transaction) -> ProducerId:
    return decided.producer if decided.next_producer_id == NO_PRODUCER_ID else ProducerId(decided.next_producer_id, 0)


def complete(before: Transaction, now_ms: WallMs) -> Transaction:
    """Every partition has its marker."""
    after = _after(before)
    return next_state(
        before,
        _completed(commits=before.state is State.PREPARE_COMMIT),
        now_ms,
        producer_id=after.id,
        epoch=after.epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
    )


def _prepared(*, commits: bool) -> State:
    return State.PREPARE_COMMIT if commits else State.PREPARE_ABORT


def _completed(*, commits: bool) -> State:
    return State.COMPLETE_COMMIT if commits else State.COMPLETE_ABORT
