"""The copy of one partition from the source to the destination.

A copy looks up the destination's log end offset, fetches from there, and appends each fetched chunk with the log end offset that it
expects. After any doubt (an append without a response, an unexpected log end) it looks up the destination's log again and never relies on
its own state: so a restarted, slow or duplicate worker does no harm. Fetches carry the epoch of the last copied batch; if the source's
log has diverged, the copy fails, and copied records are never rewritten.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

from isthmus_copying.core.lag_tracker import LagTracker
from isthmus_model.clocks import MonotonicMs
from isthmus_model.freshness import REPORT_INTERVAL_MS
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.mirrors import MirrorError

from isthmus_linker.core.batches import cut
from isthmus_linker.core.limits import (
    APPEND_OVERDUE_MS,
    BACKOFF_FIRST_MS,
    CHUNKS_MAX,
    COMMIT_CHECK_MS,
)

UNKNOWN: Final = -1
_NO_BYTES: Final = memoryview(b"")


class Stage(Enum):
    """What a copy needs next."""

    LOOK_UP_DESTINATION = auto()
    """the log end offset, until every in-sync replica has reached it"""
    LOOK_UP_SOURCE = auto()
    """the source's range of offsets"""
    COPY = auto()
    ENDED = auto()
    """nothing: it failed, or belongs to another worker"""


class Failure(NamedTuple):
    """Why a mirror topic has failed."""

    error: MirrorError
    message: str


class SourceRange(NamedTuple):
    """The source's log start offset, the start of a new copy, and the epoch of the leader that reported them."""

    start: int
    begin: int
    leader_epoch: int


class FetchAt(NamedTuple):
    """The offset to fetch, and the epoch of the batch before it."""

    offset: int
    last_epoch: int


class FetchResult(NamedTuple):
    """One partition of a fetch response."""

    records: memoryview
    high_watermark: int
    leader_epoch: int
    diverging: tuple[int, int] | None = None


class EndOfLog(NamedTuple):
    """The end of the destination's log."""

    end: int
    last_epoch: int


@dataclass(slots=True, eq=False)
class Chunk:
    """Whole batches for offsets `first` to `next`; `released` when the bytes are no longer needed."""

    records: memoryview
    first: int
    next: int
    last_epoch: int
    size: int
    released: bool = False

    def release(self) -> None:
        """Release the bytes."""
        self.records = _NO_BYTES
        self.released = True


class Append(NamedTuple):
    """The next append; without a chunk it only reports the source's high watermark."""

    chunk: Chunk | None
    expected_end: int
    start_offset: int
    source_epoch: int
    high_watermark: int


@dataclass(slots=True)
class Counters:
    """Counters for metrics."""

    bytes: int = 0
    offsets: int = 0
    errors: int = 0
    gap_offsets: int = 0
    """Offsets that the source's retention removed before they were copied."""


@dataclass(slots=True, eq=False)
class PartitionCopy:
    """The state machine of a copy: takes responses, returns the next requests."""

    retry_timeout_ms: int
    """How long the source's leader epochs may go backwards before the copy fails (`cluster.link.retry.timeout.ms`)."""
    backoff_max_ms: int
    """The longest backoff (`replica.fetch.backoff.ms`)."""
    stage: Stage = Stage.LOOK_UP_DESTINATION
    failure: Failure | None = None
    end: int = UNKNOWN
    """The destination's log end offset, as the destination reported it."""
    high_watermark: int = UNKNOWN
    """The source's high watermark, as last reported."""
    source_epoch: int = UNKNOWN
    lag: LagTracker = field(default_factory=LagTracker)
    needs_epoch_above: int = UNKNOWN
    """The destination refused batches until its leader epoch is above this one."""
    counters: Counters = field(default_factory=Counters)
    _begin: int = UNKNOWN  # where an empty log begins; UNKNOWN as soon as it is not empty
    _position: int = UNKNOWN
    _last_epoch: int = UNKNOWN  # of the last batch before the position
    _proof_epoch: int = UNKNOWN  # the same, but unknown after a gap: the source no longer has that batch
    _backwards_since_ms: int = UNKNOWN
    _refused_by_epoch: int = UNKNOWN  # epoch of the source's leader that did not have the position
    _chunks: deque[Chunk] = field(default_factory=deque)
    _appending: Append | None = None
    _sent_ms: int = UNKNOWN
    _sent_as_of_ms: int = UNKNOWN  # when the reported position was received
    _sent_watermark: int = UNKNOWN
    _failures: int = 0
    _retry_ms: int = 0

    # -- what to do ----------------------------------------------------------------------------------------------------------

    def needs_lookup(self, stage: Stage, now_ms: MonotonicMs) -> bool:
        """Whether the lookup of this stage is due."""
        return self.stage is stage and now_ms >= self._retry_ms

    def fetch_at(self, now_ms: MonotonicMs) -> FetchAt | None:
        """The next fetch; None while the copy is full or backs off."""
        if self.stage is not Stage.COPY or self.is_full or now_ms < self._retry_ms:
            return None
        return FetchAt(self._position, self._proof_epoch)

    @property
    def is_full(self) -> bool:
        """Whether no more may be fetched before an append."""
        return len(self._chunks) >= CHUNKS_MAX

    @property
    def has_all(self) -> bool:
        """Whether the destination has all that the source has reported."""
        return self.stage is Stage.COPY and self._begin <= 0 and self.reached >= self.high_watermark >= 0

    @property
    def reached(self) -> int:
        """The source offset up to which the copy has all records that the source still has; beyond its own end after retention."""
        return self.end if self._chunks or self.stage is not Stage.COPY else max(self.end, self._position)

    def next_append(self, now_ms: MonotonicMs) -> Append | None:
        """The next append; considered in flight until `appended`, `append_refused` or `append_lost`."""
        if self.stage is not Stage.COPY or self._appending is not None:
            return None
        chunk = self._chunks[0] if self._chunks else None
        if chunk is None and not self._needs_report(now_ms):
            return None
        self._sent_ms, self._sent_as_of_ms, self._sent_watermark = now_ms, self.lag.reported_ms, self.high_watermark
        start = self._begin if self._begin > 0 else UNKNOWN
        # The destination does not wait for records that retention removed.
        owed_to = self.end if self.has_all else self.high_watermark
        self._appending = Append(chunk, self.end, start, self.source_epoch, owed_to)
        return self._appending

    def _needs_report(self, now_ms: MonotonicMs) -> bool:
        if self.lag.reported_ms == self._sent_as_of_ms:
            return False  # nothing new from the source: a report would make the position look fresh
        return self.high_watermark != self._sent_watermark or now_ms >= self._sent_ms + REPORT_INTERVAL_MS

    # -- the destination -----------------------------------------------------------------------------------------------------

    def destination_ends(self, log: EndOfLog, committed: int, now_ms: MonotonicMs) -> None:
        """Handle the destination's log end offset and high watermark."""
        if self.stage is not Stage.LOOK_UP_DESTINATION:
            return
        if committed < log.end:  # another append would also wait, and delay the partitions that share its request
            self._retry_ms = now_ms + COMMIT_CHECK_MS
            return
        self._place(log)

    def _place(self, log: EndOfLog) -> None:
        """Continue from there. An empty log is new and may begin at any offset."""
        self._drop_chunks()
        self.end = self._position = log.end
        self._last_epoch = self._proof_epoch = log.last_epoch
        self._begin = UNKNOWN
        self.stage = Stage.LOOK_UP_SOURCE if log.end == 0 else Stage.COPY
        self._caught_up()

    def appended(self, append: Append, log: EndOfLog) -> None:
        """Handle a committed append."""
        if not self._is_in_flight(append):
            return
        self._failures = 0
        self.needs_epoch_above = UNKNOWN
        chunk = append.chunk
        if chunk is not None and log.end == chunk.next:
            self._record_appended(chunk)
        elif chunk is None and log.end in (self.end, self._begin):
            if log.end == self._begin:  # the log was started without records
                self.end, self._begin = log.end, UNKNOWN
        else:
            self._place(log)
        self._caught_up()

    def _record_appended(self, chunk: Chunk) -> None:
        assert self._chunks[0] is chunk
        self.counters.bytes += chunk.size
        self.counters.offsets += chunk.next - self.end if self._begin == UNKNOWN else chunk.next - chunk.first
        self._chunks.popleft().release()
        self.end, self._begin = chunk.next, UNKNOWN

    def append_refused(self, append: Append, code: ErrorCode, log: EndOfLog, now_ms: MonotonicMs) -> None:
        """Handle a refused append."""
        if not self._is_in_flight(append):
            return
        if code is ErrorCode.offset_out_of_range and log.end >= 0:
            self._place(log)
            return
        if code is ErrorCode.fenced_leader_epoch:
            epoch = append.chunk.last_epoch if append.chunk is not None else UNKNOWN
            self.needs_epoch_above = max(append.source_epoch, epoch)
        self._in_doubt(now_ms)

    def append_lost(self, append: Append, now_ms: MonotonicMs) -> None:
        """Handle an append with an unknown result."""
        if self._is_in_flight(append):
            self._in_doubt(now_ms)

    def is_overdue(self, now_ms: MonotonicMs) -> bool:
        """Whether the response to an append is overdue: the leader may hang, and another may have taken over."""
        return self._appending is not None and now_ms > self._sent_ms + APPEND_OVERDUE_MS

    def leader_moved(self, now_ms: MonotonicMs) -> None:
        """Handle a new leader at the destination: the old one's response no longer matters."""
        if self.stage is Stage.COPY and self._appending is not None:
            self._in_doubt(now_ms)

    def _is_in_flight(self, append: Append) -> bool:
        """Whether this is the append in flight, and not one given up since."""
        if self._appending is not append:
            return False
        self._appending = None
        return self.stage is Stage.COPY

    def _in_doubt(self, now_ms: MonotonicMs) -> None:
        self._drop_chunks()
        self.stage = Stage.LOOK_UP_DESTINATION
        self._pause(now_ms)

    # -- the source ----------------------------------------------------------------------------------------------------------

    def source_has(self, reported: SourceRange, now_ms: MonotonicMs) -> None:
        """Handle the source's range of offsets, for a new copy or after a fetch out of range."""
        if self.stage is not Stage.LOOK_UP_SOURCE:
            return
        if self.end == 0:
            self._begin = self._position = reported.begin
            self.stage = Stage.COPY
        elif reported.start > self._position:
            self.counters.gap_offsets += reported.start - self._position
            self._position, self._proof_epoch = reported.start, UNKNOWN
            self.stage = Stage.COPY
        elif reported.leader_epoch != self._refused_by_epoch:  # this leader may have what the previous one did not
            self.stage = Stage.COPY
        else:
            message = f"the source's log no longer has offset {self._position} after epoch {self._last_epoch}"
            self._suspect_truncation(reported.leader_epoch, message, now_ms)

    def _suspect_truncation(self, leader_epoch: int, message: str, now_ms: MonotonicMs) -> None:
        """Fail the copy, unless the response came from a long deposed leader: then retry, since another one will respond."""
        if not UNKNOWN < leader_epoch < self._last_epoch:
            self.fail(MirrorError.UNEXPECTED_TRUNCATION, message)
            return
        if self._backwards_since_ms == UNKNOWN:
            self._backwards_since_ms = now_ms
        if now_ms - self._backwards_since_ms >= self.retry_timeout_ms:
            message = f"the source's leader epoch is {leader_epoch}, and batches of epoch {self._last_epoch} were copied from it"
            self.fail(MirrorError.NON_MONOTONIC_SOURCE_EPOCH, message)
            return
        self.stage = Stage.COPY
        self._pause(now_ms)

    def fetched(self, request: FetchAt, result: FetchResult, now_ms: MonotonicMs) -> Chunk | None:
        """Handle a fetch response; returns the new chunk, if any."""
        if not self._is_current(request) or self.is_full:
            return None
        if result.diverging is not None:
            epoch, end = result.diverging
            self._suspect_truncation(
                result.leader_epoch,
                f"the source's log of epoch {epoch} ends at offset {end}, and records of epoch {self._last_epoch} up to offset "
                f"{self._position} were copied from it before",
                now_ms,
            )
            return None
        batches = cut(result.records, self._position, self._last_epoch, may_begin_within=self._begins_here)
        if batches.is_corrupt:
            self._pause(now_ms)
            return None
        self._record_source(result, now_ms)
        if batches.size == 0:
            if batches.error is not None:
                self.fail(batches.error, f"the batch at offset {self._position} of the source cannot be copied")
            return None
        chunk = Chunk(
            result.records[batches.begin : batches.end], batches.first, batches.next, batches.last_epoch, batches.size
        )
        self._chunks.append(chunk)
        self._position = batches.next
        self._last_epoch = self._proof_epoch = batches.last_epoch
        self._backwards_since_ms = UNKNOWN
        return chunk

    def _is_current(self, request: FetchAt) -> bool:
        """Whether the copy would still send this fetch. The offset alone proves nothing: the destination's log up to there may differ from
        the batches that were in flight."""
        return self.stage is Stage.COPY and request == FetchAt(self._position, self._proof_epoch)

    @property
    def _begins_here(self) -> bool:
        return self._begin != UNKNOWN and not self._chunks

    def _record_source(self, result: FetchResult, now_ms: MonotonicMs) -> None:
        self.high_watermark = result.high_watermark
        self.source_epoch = max(self.source_epoch, result.leader_epoch)
        self.source_unchanged(now_ms)

    def source_unchanged(self, now_ms: MonotonicMs) -> None:
        """Record that the source reported no change."""
        self.lag.record_source_end(self.high_watermark, self.reached, now_ms)
        self._caught_up()

    def _caught_up(self) -> None:
        self.lag.record_progress(self.reached, has_all=self.has_all)

    def fetch_refused(self, request: FetchAt, code: ErrorCode, leader_epoch: int, now_ms: MonotonicMs) -> None:
        """Handle an error of the source's leader with this epoch."""
        if not self._is_current(request):
            return
        if code is ErrorCode.offset_out_of_range:
            if self._chunks:
                self._pause(now_ms)  # append the fetched chunks first
            else:
                self.stage, self._refused_by_epoch = Stage.LOOK_UP_SOURCE, leader_epoch
            return
        self._pause(now_ms)

    def lookup_failed(self, now_ms: MonotonicMs) -> None:
        """Back off after a failed lookup."""
        self._pause(now_ms)

    # -- pauses, ends, lag ---------------------------------------------------------------------------------------------------

    def fail(self, error: MirrorError, message: str) -> None:
        """Fail permanently."""
        self._drop_chunks()
        self.stage, self.failure = Stage.ENDED, Failure(error, message)

    def stop(self) -> None:
        """Stop: the partition is no longer assigned."""
        self._drop_chunks()
        self.stage = Stage.ENDED

    def _drop_chunks(self) -> None:
        self._appending = None
        for chunk in self._chunks:
            chunk.release()
        self._chunks.clear()

    def _pause(self, now_ms: MonotonicMs) -> None:
        self.counters.errors += 1
        self._failures += 1
        self._retry_ms = now_ms + min(
            BACKOFF_FIRST_MS << min(self._failures - 1, 16), max(self.backoff_max_ms, BACKOFF_FIRST_MS)
        )

    def lag_ms(self, now_ms: MonotonicMs) -> int:
        """Time since the copy was last caught up; 0 while it is, UNKNOWN if it never was."""
        return self.lag.lag_ms(now_ms, has_all=self.has_all)
