"""The copy of one partition from source to target: what to look up, what to append, and how to handle responses.

Nothing is lost or duplicated, even if processes die and several mirrors copy the same partition:

- The copy is written under one producer id, with the copy's own offset as sequence. So the target appends a batch only at its offset: the
  log's leader compares the sequence with the log end.
- A batch that does not continue the run of the preceding batch is announced, durably, by a jump (`core/progress.py`) that identifies it by
  its checksum, and is true if that batch is appended. So the copy's log and the jumps determine the source offset of each record, and where
  to continue.
- A request to a broker with AppendAfter carries the checksum of the preceding batch, so batches are appended in this mirror's order or not
  at all, and several stretches of a partition may be in flight (`core/outbox.py`).
- A response of another broker may mean that another mirror's batch of the same length is there (the target considers ours a duplicate). Its
  timestamp reveals that, and then the mirror reads the batch from the copy. Only one batch is in flight, so that no batch depends on a
  response that is not understood yet.
- After any doubt the mirror looks up the copy's end and the jumps again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

from isthmus_copying.core.lag_tracker import LagTracker
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import CorruptBatch, ErrorCode

from isthmus_mirror.core.batches import Piece, Skipped, Unusable, addressed, pieces, sequence_of
from isthmus_mirror.core.limits import APPEND_OVERDUE_MS, BACKOFF_FIRST_MS, BACKOFF_MAX_MS, BUFFERED_BYTES_MAX
from isthmus_mirror.core.offset_map import OffsetMap, Run
from isthmus_mirror.core.outbox import Outbox, Outgoing, Stretch
from isthmus_mirror.core.progress import Jump, Mark

UNKNOWN: Final = -1
_NO_TIME: Final = -1
_NO_BATCH: Final = -1


class Stage(Enum):
    """What a copy needs next."""

    PLACE = auto()
    """the copy's end, and which jumps are true"""
    LOOK_UP_SOURCE = auto()
    """the source's range of offsets"""
    COPY = auto()
    CHECK = auto()
    """which batch the target has at the offset of a sent one"""
    ENDED = auto()
    """nothing: it failed, or belongs to another mirror"""


class Tail(NamedTuple):
    """The header of the copy's last batch."""

    producer_id: int
    last_sequence: int
    crc: int


class Placed(NamedTuple):
    """The state of the copy in the target: offsets from `start` to before `end`, the true jumps, and its last batch, if any is left."""

    start: int
    end: int
    jumps: tuple[Jump, ...]
    tail: Tail | None


class SourceRange(NamedTuple):
    """The source's range of offsets, and the start of a new copy."""

    start: int
    begin: int
    end: int


class FetchResult(NamedTuple):
    """One partition of a fetch response; `end` is the end of the records that may be copied, `at_ms` the wall time."""

    records: memoryview
    end: int
    at_ms: int
    aborted: tuple[tuple[int, int], ...] = ()
    diverging: tuple[int, int] | None = None


@dataclass(slots=True)
class Counters:
    """Counters for metrics."""

    bytes: int = 0
    records: int = 0
    errors: int = 0
    gap_offsets: int = 0
    """Offsets that the source's retention removed before they were copied."""


@dataclass(slots=True, eq=False)
class PartitionCopy:
    """The state machine of a copy: takes responses, returns the next requests."""

    producer_id: int
    target_producer_id: int = UNKNOWN
    """The producer id of a flow in the other direction: batches with it came from the target and are not copied back."""
    read_committed: bool = False
    stage: Stage = Stage.PLACE
    failure: str = ""
    map: OffsetMap = field(default_factory=OffsetMap)
    source_end: int = UNKNOWN
    lag: LagTracker = field(default_factory=LagTracker)
    counters: Counters = field(default_factory=Counters)
    last: tuple[int, int, int] | None = None
    """Offsets of the last copied record at the source and in the copy, and its batch's greatest timestamp."""
    _position: int = UNKNOWN
    _epoch: int = UNKNOWN  # of the source's batch before the position
    _landed: list[Jump] = field(
        default_factory=list
    )  # jumps whose batches were appended, and that are not yet recorded as certain
    _outbox: Outbox = field(default_factory=Outbox)
    _checking: Stretch | None = None
    _waits_ms: int = 0  # since when a response of the target is pending, if one is
    _end_crc: int = _NO_BATCH  # of the copy's last batch
    _failures: int = 0
    _retry_ms: int = 0

    # -- what to do ----------------------------------------------------------------------------------------------------------

    def needs_lookup(self, stage: Stage, now_ms: MonotonicMs) -> bool:
        """Whether the lookup of this stage is due."""
        return self.stage is stage and now_ms >= self._retry_ms

    def fetch_at(self, now_ms: MonotonicMs) -> tuple[int, int] | None:
        """The next fetch offset, and the epoch of the batch before it; None while the copy is full or backs off."""
        if self.stage is not Stage.COPY or self.is_full or now_ms < self._retry_ms:
            return None
        return self._position, self._epoch

    @property
    def is_full(self) -> bool:
        """Whether no more may be fetched before an append."""
        return self._outbox.buffered_bytes >= BUFFERED_BYTES_MAX

    @property
    def buffered_bytes(self) -> int:
        """Bytes fetched and not yet appended."""
        return self._outbox.buffered_bytes

    @property
    def newest_timestamp(self) -> int:
        """The greatest timestamp of the newest fetched batch."""
        newest = self._outbox.newest
        return _NO_TIME if newest is None else newest.max_timestamp

    @property
    def is_placed(self) -> bool:
        """Whether the copy's end is known."""
        return self.stage in (Stage.COPY, Stage.CHECK, Stage.LOOK_UP_SOURCE)

    @property
    def reached(self) -> int:
        """The source offset up to which the copy has all records that can be copied."""
        if self._outbox.first is not None:
            return self._outbox.first.first
        return self._position if self._position != UNKNOWN else self.map.next_upstream

    @property
    def has_all(self) -> bool:
        """Whether the copy has all that the source has reported."""
        return self.stage is Stage.COPY and not self._outbox and self._position >= self.source_end >= 0

    def jumps_to_record(self) -> list[Jump]:
        """Jumps that must be durable before their batches are sent."""
        return self._outbox.jumps_to_record()

    def recorded(self, jumps: Iterable[Jump]) -> None:
        """Record that these jumps are durable."""
        self._outbox.recorded(jumps)

    def jumps_to_confirm(self) -> list[Jump]:
        """Jumps that are true and not yet recorded as certain."""
        return list(self._landed)

    def confirmed(self, jumps: Iterable[Jump]) -> None:
        """Record that these jumps are written as certain."""
        done = set(jumps)
        self._landed = [jump for jump in self._landed if jump not in done]

    def next_append(self, now_ms: MonotonicMs, *, chained: bool) -> Stretch | None:
        """The next request, to a broker with AppendAfter (`chained`) or without; in flight until its response or its loss."""
        if self.stage is not Stage.COPY or now_ms < self._retry_ms:
            return None
        if not self._outbox.is_waiting:
            self._waits_ms = now_ms
        return self._outbox.next(self._end_crc, chained=chained)

    def is_overdue(self, now_ms: MonotonicMs) -> bool:
        """Whether the response to an append is overdue: the leader may hang, and another may have taken over."""
        return self._outbox.is_waiting and now_ms > self._waits_ms + APPEND_OVERDUE_MS

    # -- the target ----------------------------------------------------------------------------------------------------------

    def placed(self, at: Placed) -> None:
        """Handle the copy's state in the target."""
        if self.stage is not Stage.PLACE:
            return
        if not at.jumps and at.end > 0:
            self.fail(
                f"the copy has {at.end} offsets without recorded progress: delete it, or mirror under another name"
            )
            return
        if at.tail is not None and at.tail[:2] != (self.producer_id, sequence_of(at.end - 1)):
            self.fail(
                "the copy's last batch is not this mirror's: the source topic was recreated, or another producer writes to the copy"
            )
            return
        self._drop()
        self.map = OffsetMap((run for jump in at.jumps for run in jump.runs), at.end)
        self._landed.clear()
        self._end_crc = _NO_BATCH if at.tail is None else at.tail.crc
        self._epoch = UNKNOWN
        if at.jumps:
            self._position, self.stage = self.map.next_upstream, Stage.COPY
        else:
            self._position, self.stage = UNKNOWN, Stage.LOOK_UP_SOURCE
        self._caught_up()

    def appended(self, sent: Stretch, base_offset: int, append_time: int, now_ms: MonotonicMs) -> None:
        """Handle an ordinary broker's response: it appended the batch, or has it already.

        The response to a duplicate has the timestamp of the existing batch, which may be another mirror's of the same length.
        """
        if not self._is_in_flight(sent):
            return
        if base_offset >= 0 and base_offset != sent.base:
            self.fail(
                f"a batch for offset {sent.base} of the copy was appended at {base_offset}: another producer writes to it"
            )
        elif base_offset < 0 or append_time != _NO_TIME:
            self._checking, self.stage = sent, Stage.CHECK
        else:
            self._record_appended(sent)

    @property
    def to_check(self) -> Stretch | None:
        """The batch to compare with the copy."""
        return self._checking if self.stage is Stage.CHECK else None

    def checked(self, sent: Stretch, crc: int | None, now_ms: MonotonicMs) -> None:
        """Handle the checksum of the copy's batch at the sent one's offset; None if no batch begins there."""
        if self.stage is not Stage.CHECK or self._checking is not sent:
            return
        self._checking, self.stage = None, Stage.COPY
        if crc == sent.batches[0].crc:
            self._record_appended(sent)
        else:
            self._in_doubt(now_ms)

    def followed(self, sent: Stretch, now_ms: MonotonicMs) -> None:
        """Handle a successful AppendAfter."""
        if self._is_in_flight(sent):
            self._waits_ms = now_ms
            self._record_appended(sent)

    def _record_appended(self, sent: Stretch) -> None:
        self._failures = 0
        for out in self._outbox.landed(sent):
            assert out.base == self.map.end
            if out.jump is not None:
                self._landed.append(out.jump)
                for run in out.jump.runs:
                    self.map.begin(run)
            self.map.end = out.base + out.count
            self.last = (out.next - 1, self.map.end - 1, out.max_timestamp)
            self._end_crc = out.crc
            self.counters.bytes += out.size
            self.counters.records += out.count
        self._caught_up()

    def append_refused(self, sent: Stretch, now_ms: MonotonicMs, *, is_too_large: bool = False) -> None:
        """Handle an append that was refused, or whose result is unknown."""
        if self._is_in_flight(sent):
            self._outbox.joins = self._outbox.joins and not is_too_large
            self._in_doubt(now_ms)

    def leader_moved(self, now_ms: MonotonicMs) -> None:
        """Handle a new leader at the target: the old one's response no longer matters."""
        if self.stage is Stage.COPY and self._outbox.is_waiting:
            self._in_doubt(now_ms)

    def _is_in_flight(self, sent: Stretch) -> bool:
        """Whether a response is to a request in flight, and not to one given up since."""
        return self.stage is Stage.COPY and self._outbox.is_under_way(sent)

    def check_end(self, end: int, now_ms: MonotonicMs) -> None:
        """Handle the end of an idle copy: a former owner of the partition may have had requests in flight."""
        if self.stage is Stage.COPY and not self._outbox and end > self.map.end:
            self._in_doubt(now_ms)

    def _in_doubt(self, now_ms: MonotonicMs) -> None:
        self._drop()
        self.stage = Stage.PLACE
        self._pause(now_ms)

    # -- the source ----------------------------------------------------------------------------------------------------------

    def source_has(self, reported: SourceRange, now_ms: MonotonicMs) -> None:
        """Handle the source's range of offsets, for a new copy or after a fetch out of range."""
        if self.stage is not Stage.LOOK_UP_SOURCE:
            return
        if self._position == UNKNOWN:
            self._position = reported.begin
        elif reported.start > self._position:
            self.counters.gap_offsets += reported.start - self._position
            self._position, self._epoch = reported.start, UNKNOWN
        elif reported.end < self._position:
            self.fail(
                f"the source ends at offset {reported.end}, but {self._position} was copied: it lost records, or is another topic"
            )
            return
        else:
            self._pause(now_ms)
        self.stage = Stage.COPY

    def fetched(self, offset: int, result: FetchResult, now_ms: MonotonicMs) -> int:
        """Handle a fetch response; returns the bytes that were buffered."""
        if self.stage is not Stage.COPY or offset != self._position or self.is_full:
            return 0
        if result.diverging is not None:
            epoch, end = result.diverging
            self.fail(
                f"the source's log of epoch {epoch} ends at offset {end}, but the copy has records up to {offset}"
            )
            return 0
        before = self._outbox.buffered_bytes
        try:
            for piece in pieces(
                result.records, offset, result.aborted, result.at_ms, read_committed=self.read_committed
            ):
                if not self._take(piece):
                    break
        except CorruptBatch:
            self._pause(now_ms)
        self.source_end = result.end
        self.source_unchanged(now_ms)
        return self._outbox.buffered_bytes - before

    def _take(self, piece: Piece | Skipped | Unusable) -> bool:
        """Handle one piece; returns whether to continue."""
        if isinstance(piece, Unusable):
            self.fail(piece.reason)
            return False
        if isinstance(piece, Skipped):
            self._position, self._epoch = piece.next, piece.epoch
            return True
        if piece.header.producer_id == self.target_producer_id != UNKNOWN:
            self.fail("the source's topic is a copy of the target's; it is not copied back")
            return False
        self._position, self._epoch = piece.next, piece.header.leader_epoch
        self._enqueue(piece)
        return True

    def _enqueue(self, piece: Piece) -> None:
        newest, header = self._outbox.newest, piece.header
        base = self.map.end if newest is None else newest.base + newest.count
        expected = self.map.next_upstream if newest is None else newest.next
        data, crc = addressed(piece, self.producer_id, base)
        jump, first = None, piece.runs[0].upstream
        is_first = newest is None and not len(self.map)
        if is_first or len(piece.runs) > 1 or first != expected:
            jump = Jump(Mark(base, crc), tuple(Run(run.upstream, base + run.downstream) for run in piece.runs))
        assert header.max_timestamp >= 0, "a duplicate is recognised by its timestamp"
        self._outbox.put(
            Outgoing(
                data, base, header.record_count, crc, first, piece.next, header.max_timestamp, jump, jump is None, len(data)
            )
        )  # fmt: skip

    def source_unchanged(self, now_ms: MonotonicMs) -> None:
        """Record that the source reported no change."""
        self.lag.record_source_end(self.source_end, self.reached, now_ms)
        self._caught_up()

    def _caught_up(self) -> None:
        self.lag.record_progress(self.reached, has_all=self.has_all)

    def fetch_refused(self, offset: int, code: ErrorCode, now_ms: MonotonicMs) -> None:
        """Handle a fetch error."""
        if self.stage is not Stage.COPY or offset != self._position:
            return
        if code is ErrorCode.offset_out_of_range and not self._outbox:
            self.stage = Stage.LOOK_UP_SOURCE
        else:
            self._pause(now_ms)

    def lookup_failed(self, now_ms: MonotonicMs) -> None:
        """Back off after a failed lookup."""
        self._pause(now_ms)

    # -- pauses, ends, lag ---------------------------------------------------------------------------------------------------

    def fail(self, reason: str) -> None:
        """Fail permanently."""
        self._drop()
        self.stage, self.failure = Stage.ENDED, reason

    def stop(self) -> None:
        """Stop: the partition is no longer assigned."""
        self._drop()
        self.stage = Stage.ENDED

    def _drop(self) -> None:
        self._checking = None
        self._outbox.drop()

    def _pause(self, now_ms: MonotonicMs) -> None:
        self.counters.errors += 1
        self._failures += 1
        self._retry_ms = now_ms + min(BACKOFF_FIRST_MS << min(self._failures - 1, 16), BACKOFF_MAX_MS)

    def lag_ms(self, now_ms: MonotonicMs) -> int:
        """Time since the copy was last caught up; 0 while it is, UNKNOWN if it never was."""
        return self.lag.lag_ms(now_ms, has_all=self.has_all)
