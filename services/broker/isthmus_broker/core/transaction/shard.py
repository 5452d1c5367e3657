"""One shard of the transaction coordinator: all transactional ids of one partition of __transaction_state.

A state machine for `coordinator.runtime`; its view of the metadata is the cluster's transaction.version. Records that the runtime appends
change the state at once, and responses wait until they are committed. So does a decision: its markers are released when the high watermark
covers its record, also on a new leader, which cannot know whether the last one had committed it. (Apache Kafka's new leader writes the
markers at once. If it fails before its log is replicated, the next one may decide differently.)
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from isthmus_model.clocks import MonotonicMs, Now
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import Marker, ProducerId

from isthmus_broker.core.coordinator.result import NOTHING, Outbox, Record, RequestContext, Result
from isthmus_broker.core.coordinator.timers import Timers
from isthmus_broker.core.transaction.config import TransactionConfig
from isthmus_broker.core.transaction.listing import describe, list_transactions
from isthmus_broker.core.transaction.markers import OutstandingMarkers, markers_of
from isthmus_broker.core.transaction.producers import init
from isthmus_broker.core.transaction.records import (
    PLAIN_VERSION,
    TAGGED_VERSION,
    Transaction,
    TransactionKey,
    decode_record,
)
from isthmus_broker.core.transaction.requests import (
    AbortTimedOut,
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducer,
    ListTransactions,
    MarkersWritten,
    NeedsProducerId,
    Outcome,
    Resubmit,
    Verified,
    refuse,
)
from isthmus_broker.core.transaction.states import State, is_legal
from isthmus_broker.core.transaction.transitions import (
    NEVER_MS,
    add_partitions,
    complete,
    end,
    fence,
    producer_after,
    refuse_change,
    refuse_producer,
)

__all__ = ["TransactionShard", "refuse"]

COMPLETION_RETRY_MS: Final = 100
"""The pause before a completion is appended again, after the log refused it."""
_TIMEOUTS: Final = ("timeouts",)
_EXPIRY: Final = ("expiry",)
Handler = Callable[[Any, Now], Result]


class TransactionShard:
    """The transactions of one partition of the topic."""

    def __init__(self, timers: Timers, outbox: Outbox, config: TransactionConfig, epoch: Callable[[], int]) -> None:
        """`epoch` is the coordinator epoch: the leader epoch of the partition."""
        self.transactions: dict[str, Transaction] = {}
        self.illegal_transitions = 0
        """Transitions that were refused because the table of states does not have them."""
        self._timers = timers
        self._outbox = outbox
        self._config = config
        self._epoch = epoch
        self._version = 0
        self._markers = OutstandingMarkers()
        self._deadlines: dict[str, MonotonicMs] = {}
        """When each ongoing transaction times out."""
        self._high_watermark = 0
        self._is_loaded = False
        self._handlers: dict[type, Handler] = {
            InitProducer: self._init,
            AddPartitions: self._add_partitions,
            EndTransaction: self._end,
            AbortTimedOut: self._abort_timed_out,
            MarkersWritten: self._markers_written,
            DescribeTransaction: self._describe,
            ListTransactions: self._list,
        }

    # -- the runtime's side --------------------------------------------------------------------------------------------------

    def handle(self, token: int, request: object, context: RequestContext, now: Now) -> Result:
        """Serve a request."""
        return self._handlers[type(request)](request, now)

    def replaying(self, records: Sequence[Record], last_offset: int) -> None:
        """Nothing is kept of the state before a batch."""

    def replay(self, record: Record, offset: int, producer: ProducerId | None, now: Now) -> None:
        """Replace the state of a transactional id."""
        assert isinstance(record.key, TransactionKey)
        assert record.value is None or isinstance(record.value, Transaction)
        name, transaction = record.key.transactional_id, record.value
        self._markers.replay(name, transaction, offset)
        self._deadlines.pop(name, None)
        if transaction is None:
            self.transactions.pop(name, None)
            return
        self.transactions[name] = transaction
        if transaction.state is State.ONGOING and transaction.timeout_ms != NEVER_MS:
            started_ms = now.monotonic_of(transaction.start_ms)
            self._deadlines[name] = MonotonicMs(started_ms + transaction.timeout_ms)

    def committed(self, high_watermark: int) -> None:
        """Release the markers of decisions that are committed now."""
        self._high_watermark = high_watermark
        if self._is_loaded:
            self._release_markers()

    def end_transaction(self, marker: Marker, offset: int, now: Now) -> None:
        """The topic has no markers of its own."""

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        """A record of __transaction_state."""
        return decode_record(key, value)

    def loaded(self, view: int, now: Now) -> None:
        """Start the timers, and write the markers of decisions that were left."""
        self._version = view
        self._is_loaded = True
        self._schedule_timeouts(now)
        self._schedule_expiry(now)
        self._release_markers()
        self._outbox.note("loaded", str(len(self.transactions)), "transactional ids")

    def unloaded(self) -> None:
        """No request is parked here."""

    def metadata(self, view: int, now: Now) -> Result:
        """The cluster's transaction.version may have changed."""
        self._version = view
        return NOTHING

    # -- requests ------------------------------------------------------------------------------------------------------------

    def _init(self, request: InitProducer, now: Now) -> Result:
        name = request.transactional_id
        before = self.transactions.get(name)
        after = init(before, request, now.wall, self._version)
        if not isinstance(after, Transaction):
            return _unchanged(after)
        if after.state is State.EMPTY:
            return self._write(name, before, after, Outcome(producer=after.producer))
        return self._write(
            name, before, after, Outcome(ErrorCode.concurrent_transactions)
        )  # fenced: the client repeats

    def _add_partitions(self, request: AddPartitions, now: Now) -> Result:
        name = request.transactional_id
        before = self.transactions.get(name)
        if before is None:
            return Result(response=refuse(request, ErrorCode.invalid_producer_id_mapping))
        if request.verify_only:
            return _verify(before, request)
        error = refuse_change(before, request.producer)
        if error is not None:
            return Result(response=refuse(request, error), is_committed=error is ErrorCode.concurrent_transactions)
        added = Verified(dict.fromkeys(request.partitions, ErrorCode.none))
        after = add_partitions(before, request, now.wall)
        return Result(response=added) if after is None else self._write(name, before, after, added)

    def _end(self, request: EndTransaction, now: Now) -> Result:
        name = request.transactional_id
        before = self.transactions.get(name)
        if before is None:
            return Result(response=Outcome(ErrorCode.invalid_producer_id_mapping))
        after = end(before, request, now.wall)
        if not isinstance(after, Transaction):
            return _unchanged(after)
        return self._write(name, before, after, Outcome(producer=producer_after(after)))

    def _markers_written(self, request: MarkersWritten, now: Now) -> Result:
        """Complete the transaction once all partitions have their markers."""
        name = request.transactional_id
        before = self.transactions.get(name)
        if before is None or before.producer != request.producer:
            return Result(response=Outcome(), is_committed=True)
        if self._markers.written(name, before, request.partitions):
            self._complete_soon(name, before)
        return Result(response=Outcome(), is_committed=True)

    def _describe(self, request: DescribeTransaction, now: Now) -> Result:
        name = request.transactional_id
        transaction = self.transactions.get(name)
        if transaction is None:
            return Result(response=refuse(request, ErrorCode.transactional_id_not_found))
        return Result(response=describe(name, transaction, self._markers.outstanding(name)), is_committed=True)

    def _list(self, request: ListTransactions, now: Now) -> Result:
        return Result(response=list_transactions(self.transactions, request, now.wall), is_committed=True)

    # -- decisions and completions -------------------------------------------------------------------------------------------

    def _release_markers(self) -> None:
        for name, transaction in self._markers.release(self._high_watermark):
            if transaction.partitions:
                self._outbox.emit(markers_of(name, transaction, self._epoch()))
            else:
                self._complete_soon(name, transaction)

    def _complete_soon(self, name: str, decided: Transaction) -> None:
        self._timers.schedule(("complete", name), 0, partial(self._complete, name, decided), COMPLETION_RETRY_MS)

    def _complete(self, name: str, decided: Transaction, now: Now) -> Result:
        if self.transactions.get(name) is not decided:
            return NOTHING
        return self._write(name, decided, complete(decided, now.wall), None)

    # -- timeouts and expiry -------------------------------------------------------------------------------------------------

    def _schedule_timeouts(self, now: Now) -> None:
        interval_ms = self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._timers.schedule(_TIMEOUTS, now.monotonic + interval_ms, self._check_timeouts, interval_ms)

    def _check_timeouts(self, now: Now) -> Result:
        """Abort the transactions that have timed out, one operation each."""
        self._schedule_timeouts(now)
        for name in sorted(name for name, deadline in self._deadlines.items() if deadline < now.monotonic):
            late = AbortTimedOut(transactional_id=name, producer=self.transactions[name].producer)
            self._timers.schedule(("timeout", name), 0, partial(self._abort_timed_out, late))
        return NOTHING

    def _abort_timed_out(self, request: AbortTimedOut, now: Now) -> Result:
        """Fence the producer, unless it has ended the transaction meanwhile."""
        name = request.transactional_id
        before = self.transactions.get(name)
        if before is None or before.state is not State.ONGOING or before.producer != request.producer:
            return Result(response=Outcome(), is_committed=True)
        after = fence(before, now.wall, self._version, request.spare_id)
        if isinstance(after, NeedsProducerId):
            self._outbox.emit(Resubmit(request))
            return Result(response=Outcome(), is_committed=True)
        self._outbox.note("timed out", name, f"aborting the transaction of producer {before.producer_id}")
        return self._write(name, before, after, Outcome())

    def _schedule_expiry(self, now: Now) -> None:
        interval_ms = self._config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._timers.schedule(_EXPIRY, now.monotonic + interval_ms, self._expire, interval_ms)

    def _expire(self, now: Now) -> Result:
        """Remove the transactional ids that were idle for transactional.id.expiration.ms."""
        self._schedule_expiry(now)
        idle_since_ms = now.wall - self._config.transactional_id_expiration_ms
        expired = [
            name
            for name, transaction in sorted(self.transactions.items())
            if transaction.state.is_idle and transaction.updated_ms <= idle_since_ms
        ]
        return Result(records=tuple(Record(TransactionKey(name)) for name in expired), is_atomic=False)

    # -- inside --------------------------------------------------------------------------------------------------------------

    def _write(self, name: str, before: Transaction | None, after: Transaction, response: object | None) -> Result:
        """Record a transition. One that the table does not have is refused, and counted."""
        if not is_legal(None if before is None else before.state, after.state):
            self.illegal_transitions += 1
            self._outbox.note("illegal transition", name, f"from {before} to {after}")
            return Result(response=None if response is None else Outcome(ErrorCode.invalid_txn_state))
        version = TAGGED_VERSION if self._version > 0 or after.version > 0 else PLAIN_VERSION
        recorded = after if after.record_version == version else replace(after, record_version=version)
        return Result(records=(Record(TransactionKey(name), recorded),), response=response)


def _unchanged(outcome: Outcome | NeedsProducerId) -> Result:
    """A response without a record. One that does not depend on uncommitted records need not wait for them."""
    waits = isinstance(outcome, Outcome) and outcome.error is not ErrorCode.concurrent_transactions
    return Result(response=outcome, is_committed=not waits)


def _verify(before: Transaction, request: AddPartitions) -> Result:
    """Whether each partition is part of the transaction."""
    error = refuse_producer(before, request.producer)
    if error is None and before.state.is_prepared:
        error = ErrorCode.concurrent_transactions
    if error is not None:
        return Result(response=refuse(request, error), is_committed=error is ErrorCode.concurrent_transactions)
    missing = request.partitions - before.partitions
    none, abortable = ErrorCode.none, ErrorCode.transaction_abortable
    return Result(response=Verified({tp: abortable if tp in missing else none for tp in request.partitions}))
