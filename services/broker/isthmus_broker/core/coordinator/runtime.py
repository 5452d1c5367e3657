"""The lifecycle of one shard: a partition of an internal topic and the state machine in it.

The edge calls it from one thread:

    load_begin(epoch, batch_bytes_max), load(...), load_marker(...), load_end(now)   this broker became the partition's leader
    submit(token, request, context, now), tick(now), metadata(view, now)
    take() -> Ready                                                    after every call: appends to make, replies to send
    appended(seq, last_offset, now) or append_failed(seq, error, now)  the outcome of an append
    committed(high_watermark, now)                                     every record below the high watermark is committed
    unload(now)                                                        leadership ended, or the log cannot be loaded

One append is in flight at a time. Operations that arrive meanwhile wait in order, so that each one sees the effect of all earlier appends.
An append that fails has changed nothing: its records are replayed only after `appended`. (Kafka applies first and reverts through a
timeline of snapshots. Here an append is a write to the page cache; waiting for it costs less than the timeline.) A response is sent
once everything it may reflect is committed, or refused with COORDINATOR_NOT_AVAILABLE after the write timeout; a response that reflects
committed state only is sent at once.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from isthmus_model.clocks import Now
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import Marker, ProducerId
from isthmus_wire.records import HEADER_SIZE, RECORD_OVERHEAD_MAX

from isthmus_broker.core.coordinator.result import Note, Outbox, Record, RequestContext, Result
from isthmus_broker.core.coordinator.timers import Timer, Timers
from isthmus_broker.core.log.verification import NOT_VERIFIED

# Pending requests of one shard: waiting for the append in flight, or processed and waiting for the commit. Further requests are refused
# with COORDINATOR_NOT_AVAILABLE, which every client retries.
PENDING_REQUESTS_MAX: Final = 20_000
WRITE_TIMEOUT_MS: Final = 5_000
"""The default time within which records must be committed."""

EncodedRecords = tuple[tuple[bytes, bytes | None], ...]

V = TypeVar("V", contravariant=True)
Refuse = Callable[[object, RequestContext, ErrorCode], object]


class Shard(Protocol[V]):
    """The interface of a state machine. It is created with the `Timers` and the `Outbox` of its runtime."""

    def handle(self, token: int, request: object, context: RequestContext, now: Now) -> Result:
        """Process a request."""
        ...

    def replaying(self, records: Sequence[Record], last_offset: int) -> None:
        """A batch of the log that ends at `last_offset` is about to be replayed, or to take effect otherwise."""
        ...

    def replay(self, record: Record, offset: int, producer: ProducerId | None, now: Now) -> None:
        """Change the state by a record of the log: the only way it changes, live and on load alike.

        A record of a producer's transaction takes effect with the marker that commits it.
        """
        ...

    def committed(self, high_watermark: int) -> None:
        """Every record below the high watermark is committed; called before the load and whenever it moves."""
        ...

    def end_transaction(self, marker: Marker, offset: int, now: Now) -> None:
        """A transaction marker is in the log: apply or discard what the transaction wrote here."""
        ...

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        """Decode a record; None for a type that this release does not know."""
        ...

    def loaded(self, view: V, now: Now) -> None:
        """The log was replayed to its end: start the timers."""
        ...

    def unloaded(self) -> None:
        """Another broker becomes the coordinator: respond to parked requests."""
        ...

    def metadata(self, view: V, now: Now) -> Result:
        """The cluster's metadata changed."""
        ...


@dataclass(frozen=True, slots=True)
class BatchAppend:
    """Records to append as one batch, atomically, in `producer`'s transaction if it is set, or a marker. The report of the outcome repeats
    `seq`."""

    seq: int
    records: EncodedRecords = ()
    producer: ProducerId | None = None
    verification: int = NOT_VERIFIED
    marker: Marker | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """Outputs for the log and the clients; `effects` are the shard's own."""

    appends: tuple[BatchAppend, ...]
    replies: tuple[tuple[int, object], ...]
    effects: tuple[object, ...]
    notes: tuple[Note, ...]

    def __bool__(self) -> bool:
        return bool(self.appends or self.replies or self.effects or self.notes)


@dataclass(frozen=True, slots=True)
class _PendingRequest:
    """The request behind an operation, so that it can be refused."""

    token: int
    request: object
    context: RequestContext


@dataclass(frozen=True, slots=True)
class _Operation:
    """Work to run: a request's handler, a timer's operation, a metadata change."""

    run: Callable[[Now], Result]
    pending_request: _PendingRequest | None = None
    timer: Timer | None = None


@dataclass(frozen=True, slots=True)
class _Uncommitted:
    """An operation's result that waits until the record at `offset` is committed."""

    operation: _Operation
    result: Result
    offset: int
    deadline_ms: int


@dataclass(slots=True)
class _Appending:
    """An operation's result while its records are appended, one batch after another; the first is in flight."""

    operation: _Operation
    result: Result
    batches: deque[tuple[Record, ...]]


class Runtime(Generic[V]):
    """One shard and its outstanding work. `refuse` makes the error response to any request."""

    def __init__(
        self,
        new_shard: Callable[[Timers, Outbox], Shard[V]],
        refuse: Refuse,
        view: V,
        *,
        write_timeout_ms: int = WRITE_TIMEOUT_MS,
        trusts_log_end: bool = True,
    ) -> None:
        """After `write_timeout_ms` a response whose records are not committed is refused.

        `trusts_log_end` counts everything that was loaded as committed. The log has all records that ever were, and the high watermark of
        a new leader lags: what the last leader has confirmed must not seem to be gone until the followers fetch.
        """
        self.trusts_log_end = trusts_log_end
        self._new_shard = new_shard
        self._refuse = refuse
        self._view = view
        self._loading_view = view
        self._write_timeout_ms = write_timeout_ms
        self._batch_bytes_max: Callable[[], int] = lambda: 0
        self._shard: Shard[V] | None = None
        self._loading = False
        self.epoch = -1
        self._timers = Timers()
        self._outbox = Outbox()
        self._appends: list[BatchAppend] = []
        self._queue: deque[_Operation] = deque()
        self._in_flight: _Appending | None = None
        self._deferred: deque[_Uncommitted] = deque()
        self._seq = 0
        self._last_written = -1
        self._high_watermark = 0

    # Work.

    @property
    def active(self) -> bool:
        """Whether requests are served."""
        return self._shard is not None and not self._loading

    @property
    def shard(self) -> Shard[V] | None:
        """The state machine, for metrics; None while it does not serve requests."""
        return self._shard if self.active else None

    def submit(self, token: int, request: object, context: RequestContext, now: Now) -> None:
        """Serve a request, now or after the append in flight."""
        pending_request = _PendingRequest(token, request, context)
        shard = self._shard
        if shard is None:
            self._respond_with(pending_request, ErrorCode.not_coordinator)
        elif self._loading:
            self._respond_with(pending_request, ErrorCode.coordinator_load_in_progress)
        elif len(self._queue) + len(self._deferred) >= PENDING_REQUESTS_MAX:
            self._respond_with(pending_request, ErrorCode.coordinator_not_available)
        else:
            self._queue.append(_Operation(lambda now: shard.handle(token, request, context, now), pending_request))
            self._pump(now)

    def tick(self, now: Now) -> None:
        """Run what is due. Safe to call early, late or twice."""
        while self._deferred and self._deferred[0].deadline_ms <= now.monotonic:
            late = self._deferred.popleft()
            self._outbox.note("not committed", str(late.offset), f"within {self._write_timeout_ms} ms")
            self._fail(late.operation, late.result, coordinator_error(ErrorCode.request_timed_out), now)
        self._pump(now)

    def deadline(self) -> int | None:
        """When `tick` is next worth calling; None while an append is in flight, because its report resumes the work."""
        if self._in_flight is not None or not self.active:
            return None
        timer, commit = self._timers.deadline(), self._deferred[0].deadline_ms if self._deferred else None
        return timer if commit is None else commit if timer is None else min(timer, commit)

    def take(self) -> Ready:
        """Return the outputs and clear them."""
        outbox = self._outbox
        ready = Ready(tuple(self._appends), tuple(outbox.replies), tuple(outbox.effects), tuple(outbox.notes))
        self._appends.clear()
        self._outbox.replies.clear()
        self._outbox.effects.clear()
        self._outbox.notes.clear()
        return ready

    # Reports of the edge.

    def appended(self, seq: int, last_offset: int, now: Now) -> None:
        """The records of append `seq` are in the log, the last of them at `last_offset`."""
        appending, shard = self._reported(seq), self._shard
        assert shard is not None
        assert last_offset > self._last_written, "offsets only grow"
        self._last_written = last_offset
        result, batch = appending.result, appending.batches.popleft()
        shard.replaying(batch, last_offset)
        if result.apply is not None:
            result.apply()
        elif result.marker is not None:
            shard.end_transaction(result.marker, last_offset, now)
        else:
            for offset, record in enumerate(batch, last_offset - len(batch) + 1):
                shard.replay(record, offset, result.producer, now)
        if appending.batches:
            self._append_next(appending)
            return
        self._defer(appending.operation, result, now)
        self._pump(now)

    def append_failed(self, seq: int, error: ErrorCode, now: Now) -> None:
        """The records of append `seq` are not in the log and will not be appended later."""
        appending = self._reported(seq)
        operation = appending.operation
        self._fail(operation, appending.result, coordinator_error(error), now)
        timer = operation.timer
        if timer is not None and timer.retry_ms is not None:
            self._timers.schedule_if_absent(timer.key, now.monotonic + timer.retry_ms, timer.operation, timer.retry_ms)
        self._outbox.note("append failed", error.name)
        self._pump(now)

    def committed(self, high_watermark: int, now: Now) -> None:
        """Every record below `high_watermark` is committed."""
        self._high_watermark = max(self._high_watermark, high_watermark)
        if self._shard is not None:
            self._shard.committed(self._high_watermark)
        self._release(now)

    def metadata(self, view: V, now: Now) -> None:
        """The cluster's metadata changed to `view`."""
        self._view = view
        shard = self._shard
        if shard is not None and not self._loading:
            self._queue.append(_Operation(lambda now: shard.metadata(view, now)))
            self._pump(now)

    # Loading and unloading.

    def load_begin(self, epoch: int, batch_bytes_max: Callable[[], int]) -> None:
        """Begin loading: this broker is the partition's leader at `epoch`, and the log's records follow.

        `batch_bytes_max` returns the topic's current max.message.bytes.
        """
        assert self._shard is None, "unload first"
        assert epoch > self.epoch, "epochs only grow"
        self.epoch = epoch
        self._batch_bytes_max = batch_bytes_max
        self._loading_view = self._view
        self._timers = Timers()
        self._last_written = -1
        self._shard = self._new_shard(self._timers, self._outbox)
        self._loading = True

    def load(self, offset: int, key: bytes, value: bytes | None, producer: ProducerId | None, now: Now) -> None:
        """One record of the log, tombstones included, and the producer of its transaction if it belongs to one."""
        shard = self._loading_shard(offset)
        record = shard.decode(key, value)
        if record is None:
            self._outbox.note("unknown record", str(offset), "skipped while loading")
        else:
            shard.replaying((record,), offset)
            shard.replay(record, offset, producer, now)

    def load_marker(self, offset: int, marker: Marker, now: Now) -> None:
        """One transaction marker of the log."""
        self._loading_shard(offset).end_transaction(marker, offset, now)

    def _loading_shard(self, offset: int) -> Shard[V]:
        shard = self._shard
        assert shard is not None
        assert self._loading
        self._last_written = offset
        return shard

    def load_end(self, now: Now) -> None:
        """The log was loaded to its end: serve requests."""
        assert self._shard is not None
        assert self._loading
        self._loading = False
        self._shard.loaded(self._loading_view, now)
        if self._view is not self._loading_view:
            self.metadata(self._view, now)
        self._pump(now)

    def unload(self, now: Now) -> None:
        """Leadership ended: every pending request is refused with NOT_COORDINATOR."""
        if self._shard is None:
            return
        unfinished: list[_Uncommitted | _Appending] = [*self._deferred]
        if self._in_flight is not None:
            unfinished.append(self._in_flight)
        queued = tuple(self._queue)
        self._deferred.clear()
        self._queue.clear()
        self._appends.clear()
        self._in_flight = None
        for each in unfinished:
            self._fail(each.operation, each.result, ErrorCode.not_coordinator, now)
        for operation in queued:
            if operation.pending_request is not None:
                self._respond_with(operation.pending_request, ErrorCode.not_coordinator)
        self._shard.unloaded()
        self._shard = None
        self._loading = False

    # Inside.

    def _reported(self, seq: int) -> _Appending:
        appending = self._in_flight
        assert appending is not None, "no append is in flight"
        assert seq == self._seq, "the report is of another append"
        self._in_flight = None
        return appending

    def _pump(self, now: Now) -> None:
        """Run due timers and waiting work, until records must be appended first."""
        while self.active and self._in_flight is None:
            operation = self._next(now)
            if operation is None:
                return
            self._begin(operation, operation.run(now), now)

    def _next(self, now: Now) -> _Operation | None:
        timer = self._timers.pop_due(now.monotonic)
        if timer is not None:
            return _Operation(timer.operation, timer=timer)
        return self._queue.popleft() if self._queue else None

    def _begin(self, operation: _Operation, result: Result, now: Now) -> None:
        if result.records or result.marker is not None:
            batches = [result.records] if result.is_atomic else batches_of(result.records, self._batch_bytes_max())
            self._append_next(_Appending(operation, result, deque(batches)))
        elif result.is_committed:
            self._complete(operation, result, now)
        elif result.response is not None or result.then is not None:
            self._defer(operation, result, now)

    def _append_next(self, appending: _Appending) -> None:
        self._seq += 1
        self._in_flight = appending
        records, result = tuple(record.encode() for record in appending.batches[0]), appending.result
        self._appends.append(BatchAppend(self._seq, records, result.producer, result.verification, result.marker))

    def _defer(self, operation: _Operation, result: Result, now: Now) -> None:
        """Wait until everything that the response may reflect is committed."""
        deadline_ms = now.monotonic + self._write_timeout_ms
        self._deferred.append(_Uncommitted(operation, result, self._last_written, deadline_ms))
        self._release(now)

    def _release(self, now: Now) -> None:
        while self._deferred and self._deferred[0].offset < self._high_watermark:
            done = self._deferred.popleft()
            self._complete(done.operation, done.result, now)

    def _complete(self, operation: _Operation, result: Result, now: Now) -> None:
        if result.then is not None:
            result.then(ErrorCode.none, now)
        if operation.pending_request is not None and result.response is not None:
            self._outbox.reply(operation.pending_request.token, result.response)

    def _fail(self, operation: _Operation, result: Result, error: ErrorCode, now: Now) -> None:
        if result.then is not None:
            result.then(error, now)
        if operation.pending_request is not None and result.response is not None:
            self._respond_with(operation.pending_request, error)

    def _respond_with(self, pending_request: _PendingRequest, error: ErrorCode) -> None:
        self._outbox.reply(pending_request.token, self._refuse(pending_request.request, pending_request.context, error))


def batches_of(records: Sequence[Record], bytes_max: int) -> list[tuple[Record, ...]]:
    """Split records, in order, into batches of at most `bytes_max`; a record that is larger gets a batch of its own."""
    batches: list[list[Record]] = []
    size = 0
    for record in records:
        key, value = record.encode()
        record_size = RECORD_OVERHEAD_MAX + len(key) + len(value or b"")
        if not batches or size + record_size > bytes_max:
            batches.append([])
            size = HEADER_SIZE
        batches[-1].append(record)
        size += record_size
    return [tuple(batch) for batch in batches]


_COORDINATOR_ERRORS: Final = {
    ErrorCode.network_exception: ErrorCode.coordinator_load_in_progress,
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
    ErrorCode.invalid_fetch_size: ErrorCode.unknown_server_error,
}


def coordinator_error(error: ErrorCode) -> ErrorCode:
    """The error of a coordinator's response when the log refused an append with `error`."""
    return _COORDINATOR_ERRORS.get(error, error)
