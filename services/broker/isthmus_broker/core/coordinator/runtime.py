"""The lifecycle of one shard: a partition of an internal topic and the state machine in it.

The edge calls it from one thread:

    load_begin(epoch), load(...) and load_marker(...), load_end(now)   this broker became the partition's leader
    submit(token, request, context, now), tick(now), metadata(view, now)
    take() -> Ready                                                    after every call: appends to make, replies to send
    appended(seq, last_offset, now) or append_failed(seq, error, now)  the outcome of an append
    committed(high_watermark, now)                                     every record below the high watermark is committed
    unload(now)                                                        leadership ended

One append is in flight at a time. Operations that arrive meanwhile wait in order, so that each one sees the effect of all earlier appends.
An append that fails has changed nothing: its records are replayed only after `appended`. (Kafka applies first and reverts through a
timeline of snapshots. Here an append is a write to the page cache; waiting for it costs less than the timeline.) A response is sent
once everything it may reflect is committed.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from isthmus_model.clocks import Now
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import Marker, ProducerId

from isthmus_broker.core.coordinator.result import Note, Outbox, Record, RequestContext, Result
from isthmus_broker.core.coordinator.timers import Timer, Timers

# Pending requests of one shard: waiting for the append in flight, or processed and waiting for the commit. Further requests are refused
# with COORDINATOR_NOT_AVAILABLE, which every client retries.
PENDING_REQUESTS_MAX: Final = 20_000

V = TypeVar("V", contravariant=True)
Refuse = Callable[[object, RequestContext, ErrorCode], object]


class Shard(Protocol[V]):
    """The interface of a state machine. It is created with the `Timers` and the `Outbox` of its runtime."""

    def handle(self, token: int, request: object, context: RequestContext, now: Now) -> Result:
        """Process a request."""
        ...

    def replay(self, record: Record, offset: int, producer: ProducerId | None, now: Now) -> None:
        """Change the state by a record of the log: the only way it changes, live and on load alike.

        A record of a producer's transaction takes effect with the marker that commits it.
        """
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
    records: tuple[tuple[bytes, bytes | None], ...] = ()
    producer: ProducerId | None = None
    marker: Marker | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """Outputs for the log and the clients."""

    appends: tuple[BatchAppend, ...]
    replies: tuple[tuple[int, object], ...]
    notes: tuple[Note, ...]

    def __bool__(self) -> bool:
        return bool(self.appends or self.replies or self.notes)


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
class _PendingResult:
    """An operation's result whose records wait for the append or, once `offset` is set, for the commit."""

    operation: _Operation
    result: Result
    offset: int = -1


class Runtime(Generic[V]):
    """One shard and its outstanding work. `refuse` makes the error response to any request."""

    def __init__(self, new_shard: Callable[[Timers, Outbox], Shard[V]], refuse: Refuse, view: V) -> None:
        self._new_shard = new_shard
        self._refuse = refuse
        self._view = view
        self._shard: Shard[V] | None = None
        self._loading = False
        self.epoch = -1
        self._timers = Timers()
        self._outbox = Outbox()
        self._appends: list[BatchAppend] = []
        self._queue: deque[_Operation] = deque()
        self._in_flight: _PendingResult | None = None
        self._deferred: deque[_PendingResult] = deque()
        self._seq = 0
        self._last_written = -1
        self._high_watermark = 0

    # Work.

    @property
    def active(self) -> bool:
        """Whether requests are served."""
        return self._shard is not None and not self._loading

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
        self._pump(now)

    def deadline(self) -> int | None:
        """When `tick` is next worth calling; None while an append is in flight, because its report resumes the work."""
        return None if self._in_flight is not None or not self.active else self._timers.deadline()

    def take(self) -> Ready:
        """Return the outputs and clear them."""
        ready = Ready(tuple(self._appends), tuple(self._outbox.replies), tuple(self._outbox.notes))
        self._appends.clear()
        self._outbox.replies.clear()
        self._outbox.notes.clear()
        return ready

    # Reports of the edge.

    def appended(self, seq: int, last_offset: int, now: Now) -> None:
        """The records of append `seq` are in the log, the last of them at `last_offset`."""
        pending, shard = self._reported(seq), self._shard
        assert shard is not None
        assert last_offset > self._last_written, "offsets only grow"
        self._last_written = last_offset
        result = pending.result
        if result.apply is not None:
            result.apply()
        elif result.marker is not None:
            shard.end_transaction(result.marker, last_offset, now)
        else:
            first_offset = last_offset - len(result.records) + 1
            for offset, record in enumerate(result.records, first_offset):
                shard.replay(record, offset, result.producer, now)
        self._deferred.append(_PendingResult(pending.operation, result, last_offset))
        self._release(now)
        self._pump(now)

    def append_failed(self, seq: int, error: ErrorCode, now: Now) -> None:
        """The records of append `seq` are not in the log and will not be appended later."""
        pending = self._reported(seq)
        operation, result = pending.operation, pending.result
        response_error = coordinator_error(error)
        if result.then is not None:
            result.then(response_error, now)
        if operation.pending_request is not None and result.response is not None:
            self._respond_with(operation.pending_request, response_error)
        timer = operation.timer
        if timer is not None and timer.retry_ms is not None:
            self._timers.schedule_if_absent(timer.key, now.monotonic + timer.retry_ms, timer.operation, timer.retry_ms)
        self._outbox.note("append failed", error.name)
        self._pump(now)

    def committed(self, high_watermark: int, now: Now) -> None:
        """Every record below `high_watermark` is committed."""
        self._high_watermark = max(self._high_watermark, high_watermark)
        self._release(now)

    def metadata(self, view: V, now: Now) -> None:
        """The cluster's metadata changed to `view`."""
        self._view = view
        shard = self._shard
        if shard is not None and not self._loading:
            self._queue.append(_Operation(lambda now: shard.metadata(view, now)))
            self._pump(now)

    # Loading and unloading.

    def load_begin(self, epoch: int) -> None:
        """Begin loading: this broker is the partition's leader at `epoch`, and the log's records follow."""
        assert self._shard is None, "unload first"
        assert epoch > self.epoch, "epochs only grow"
        self.epoch = epoch
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
        self._shard.loaded(self._view, now)
        self._pump(now)

    def unload(self, now: Now) -> None:
        """Leadership ended: every pending request is refused with NOT_COORDINATOR."""
        if self._shard is None:
            return
        waiting = [*self._deferred, *([self._in_flight] if self._in_flight is not None else [])]
        queued = tuple(self._queue)
        self._deferred.clear()
        self._queue.clear()
        self._appends.clear()
        self._in_flight = None
        for pending in waiting:
            if pending.result.then is not None:
                pending.result.then(ErrorCode.not_coordinator, now)
            if pending.operation.pending_request is not None and pending.result.response is not None:
                self._respond_with(pending.operation.pending_request, ErrorCode.not_coordinator)
        for operation in queued:
            if operation.pending_request is not None:
                self._respond_with(operation.pending_request, ErrorCode.not_coordinator)
        self._shard.unloaded()
        self._shard = None
        self._loading = False

    # Inside.

    def _reported(self, seq: int) -> _PendingResult:
        pending = self._in_flight
        assert pending is not None, "no append is in flight"
        assert seq == self._seq, "the report is of another append"
        self._in_flight = None
        return pending

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
            self._seq += 1
            self._in_flight = _PendingResult(operation, result)
            records = tuple(record.encode() for record in result.records)
            self._appends.append(BatchAppend(self._seq, records, result.producer, result.marker))
        elif result.response is not None or result.then is not None:
            self._deferred.append(_PendingResult(operation, result, self._last_written))
            self._release(now)

    def _release(self, now: Now) -> None:
        while self._deferred and self._deferred[0].offset < self._high_watermark:
            pending = self._deferred.popleft()
            if pending.result.then is not None:
                pending.result.then(ErrorCode.none, now)
            if pending.operation.pending_request is not None and pending.result.response is not None:
                self._outbox.reply(pending.operation.pending_request.token, pending.result.response)

    def _respond_with(self, pending_request: _PendingRequest, error: ErrorCode) -> None:
        self._outbox.reply(pending_request.token, self._refuse(pending_request.request, pending_request.context, error))


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
