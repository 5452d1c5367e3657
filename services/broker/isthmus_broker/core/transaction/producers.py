"""InitProducerId: the transactional id gets a producer with an epoch of its own, and the producer before it is fenced."""

from isthmus_model.clocks import WallMs
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import ProducerId

from isthmus_broker.core.transaction.records import NO_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, Transaction
from isthmus_broker.core.transaction.requests import InitProducer, NeedsProducerId, Outcome
from isthmus_broker.core.transaction.states import State
from isthmus_broker.core.transaction.transitions import Decided, fence, is_exhausted, next_state


def refuse_timeout(timeout_ms: int, max_ms: int) -> ErrorCode | None:
    """Why this is not a transaction timeout, if it is not."""
    is_valid = 0 < timeout_ms <= max_ms
    return None if is_valid else ErrorCode.invalid_transaction_timeout


def init(before: Transaction | None, request: InitProducer, now_ms: WallMs, version: int) -> Decided:
    """Give the id a producer. An ongoing transaction is aborted first: the client repeats its request."""
    if before is None:
        return _first(request, now_ms)
    if before.state.is_prepared:
        return Outcome(ErrorCode.concurrent_transactions)
    expected = request.expected
    if expected is not None and not _is_known(before, expected):
        return Outcome(ErrorCode.producer_fenced)
    if before.state is State.ONGOING:
        return fence(before, now_ms, version, request.spare_id)
    if expected is not None and expected.epoch == before.last_epoch != before.epoch:
        return _started(before, request, now_ms, before.producer, before.last_epoch)  # its response was lost
    if expected is not None and expected != before.producer:
        return Outcome(ErrorCode.producer_fenced)
    last_epoch = NO_EPOCH if expected is None else before.epoch
    if not is_exhausted(before.epoch):
        return _started(before, request, now_ms, ProducerId(before.producer_id, before.epoch + 1), last_epoch)
    if request.spare_id is None:
        return NeedsProducerId()
    return _started(before, request, now_ms, ProducerId(request.spare_id, 0), last_epoch)


def _is_known(before: Transaction, expected: ProducerId) -> bool:
    """Whether the client had the current producer id, or the one before, whose epochs were exhausted."""
    return expected.id == before.producer_id or (
        expected.id == before.previous_producer_id and is_exhausted(expected.epoch)
    )


def _first(request: InitProducer, now_ms: WallMs) -> Transaction | NeedsProducerId:
    if request.spare_id is None:
        return NeedsProducerId()
    return Transaction(
        producer_id=request.spare_id,
        epoch=0,
        timeout_ms=request.timeout_ms,
        state=State.EMPTY,
        updated_ms=now_ms,
        previous_producer_id=request.spare_id,
    )


def _started(
    before: Transaction, request: InitProducer, now_ms: WallMs, producer: ProducerId, last_epoch: int
) -> Transaction:
    return next_state(
        before,
        State.EMPTY,
        now_ms,
        producer_id=producer.id,
        epoch=producer.epoch,
        last_epoch=last_epoch,
        next_producer_id=NO_PRODUCER_ID,
        timeout_ms=request.timeout_ms,
        partitions=frozenset(),
        start_ms=NO_TIMESTAMP,
    )
