"""One partition on its way from the source to its copy: what to ask, what to append, and what an answer means.

Why nothing is lost or doubled, whoever dies and however many mirrors believe the partition theirs:

- The copy is written under one producer id, with the copy's own offset as sequence. So the target takes a batch only where it belongs:
  the sequence is a comparison with the end of the log, made by the log's leader.
- A batch that does not continue the run of the batch before it is preceded, durably, by a jump (`core/progress.py`) that names it by its
  checksum, and is true if that batch comes. So the copy's log and the jumps together say which offset of the source each record had, and
  where to go on.
- A broker that takes batches behind a batch is told the checksum of the one before, so what is under way is taken in this mirror's order
  or not at all, and several stretches of a partition may be (`core/outbox.py`).
- From other brokers an answer may mean that another mirror's batch of the same length is there (the target takes ours for a repeat). It is
  recognised by its timestamp, and then the batch in the copy is looked at. Only one batch is under way, so that nothing is built on an
  answer that was not understood.
- Whatever is in doubt ends in asking anew: where does the copy end, what do the jumps say.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

from isthmus_copying.core.lag_tracker import LagTracker
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import CorruptBatch, ErrorCode

from isthmus_mirror.core.batches import Piece, Skipped, Unusable, addressed, pieces, sequence_of
from isthmus_mirror.core.limits import APPEND_OVERDUE_MS, BACKOFF_FIRST_MS, BACKOFF_MAX_MS, HELD_BYTES_MAX
from isthmus_mirror.core.offset_map import OffsetMap, Run
from isthmus_mirror.core.outbox import Outbox, Outgoing, Stretch
from isthmus_mirror.core.progress import Jump, Mark

UNKNOWN: Final = -1
_NO_TIME: Final = -1
_NO_BATCH: Final = -1


class Stage(Enum):
    """What a copy needs next."""

    PLACE = auto()
    """where the copy ends, and which jumps are true"""
    LOOK_UP_SOURCE = auto()
    """which offsets it has"""
    COPY = auto()
    CHECK = auto()
    """which batch the target really has where one was sent"""
    ENDED = auto()
    """nothing: it failed, or is not this mirror's any more"""


class Tail(NamedTuple):
    """The copy's last batch, as its header tells."""

    producer_id: int
    last_sequence: int
    crc: int


class Placed(NamedTuple):
    """What the target has: offsets from `start` to before `end`, the jumps that are true, and its last batch if any is left."""

    start: int
    end: int
    jumps: tuple[Jump, ...]
    tail: Tail | None


class SourceRange(NamedTuple):
    """What the source has, and where a new copy shall begin."""

    start: int
    begin: int
    end: int


class FetchResult(NamedTuple):
    """One partition of a fetch's answer; `end` is where what may be copied ends now, `at_ms` the time of day."""

    records: memoryview
    end: int
    at_ms: int
    aborted: tuple[tuple[int, int], ...] = ()
    diverging: tuple[int, int] | None = None


@dataclass(slots=True)
class Counters:
    """What happened, for metrics."""

    bytes: int = 0
    records: int = 0
    errors: int = 0
    gap_offsets: int = 0
    """Offsets that the source's retention took before they were copied."""


@dataclass(slots=True, eq=False)
class PartitionCopy:
    """Feed it answers; ask it what to do."""

    producer_id: int
    target_producer_id: int = UNKNOWN
    """Under which a mirror the other way would write: batches with it came from the target, and never go back."""
    read_committed: bool = False
    stage: Stage = Stage.PLACE
    failure: str = ""
    map: OffsetMap = field(default_factory=OffsetMap)
    source_end: int = UNKNOWN
    lag: LagTracker = field(default_factory=LagTracker)
    counters: Counters = field(default_factory=Counters)
    last: tuple[int, int, int] | None = None
    """Offsets of the last record that was copied, at the source and in the copy, and its batch's greatest timestamp."""
    _position: int = UNKNOWN
    _epoch: int = UNKNOWN  # of the source's batch before the position
    _landed: list[Jump] = field(default_factory=list)  # whose batches came, and that are not certain for all mirrors
    _outbox: Outbox = field(default_factory=Outbox)
    _checking: Stretch | None = None
    _waits_ms: int = 0  # since when it waits for an answer of the target, if it does
    _end_crc: int = _NO_BATCH  # of the copy's last batch
    _failures: int = 0
    _retry_ms: int = 0

    # -- what to do ----------------------------------------------------------------------------------------------------------

    def needs_lookup(self, stage: Stage, now_ms: MonotonicMs) -> bool:
        """Whether it wants to know now what this stage needs."""
        return self.stage is stage and now_ms >= self._retry_ms

    def fetch_at(self, now_ms: MonotonicMs) -> tuple[int, int] | None:
        """The offset to fetch from now, and the epoch of the batch before it; None while it has enough or pauses."""
        if self.stage is not Stage.COPY or self.is_full or now_ms < self._retry_ms:
            return None
        return self._position, self._epoch

    @property
    def is_full(self) -> bool:
        """Whether it holds all that it may."""
        return self._outbox.held >= HELD_BYTES_MAX

    @property
    def held(self) -> int:
        """Bytes that were fetched and are not appended yet."""
        return self._outbox.held

    @property
    def newest_timestamp(self) -> int:
        """The greatest of the newest batch that it holds."""
        newest = self._outbox.newest
        return _NO_TIME if newest is None else newest.max_timestamp

    @property
    def is_placed(self) -> bool:
        """Whether it is known where the copy ends."""
        return self.stage in (Stage.COPY, Stage.CHECK, Stage.LOOK_UP_SOURCE)

    @property
    def reached(self) -> int:
        """The source's offset before which the copy has all that can be copied."""
        if self._outbox.first is not None:
            return self._outbox.first.first
        return self._position if self._position != UNKNOWN else self.map.next_upstream

    @property
    def has_all(self) -> bool:
        """Whether the copy has everything that the source was heard to have."""
        return self.stage is Stage.COPY and not self._outbox and self._position >= self.source_end >= 0

    def jumps_to_record(self) -> list[Jump]:
        """Jumps that must be durable before their batches are sent; asked for until they are."""
        return self._outbox.jumps_to_record()

    def recorded(self, jumps: Iterable[Jump]) -> None:
        """These are durable."""
        self._outbox.recorded(jumps)

    def jumps_to_confirm(self) -> list[Jump]:
        """Jumps that are known to be true; asked for until all mirrors know."""
        return list(self._landed)

    def confirmed(self, jumps: Iterable[Jump]) -> None:
        """All mirrors know of these."""
        done = set(jumps)
        self._landed = [jump for jump in self._landed if jump not in done]

    def next_append(self, now_ms: MonotonicMs, *, chained: bool) -> Stretch | None:
        """What to send now to a broker that takes batches behind a batch, or does not; under way until it is answered or lost."""
        if self.stage is not Stage.COPY or now_ms < self._retry_ms:
            return None
        if not self._outbox.is_waiting:
            self._waits_ms = now_ms
        return self._outbox.next(self._end_crc, chained=chained)

    def is_overdue(self, now_ms: MonotonicMs) -> bool:
        """Whether an append should have been answered: who leads may hang, and another may lead."""
        return self._outbox.is_waiting and now_ms > self._waits_ms + APPEND_OVERDUE_MS

    # -- the target ----------------------------------------------------------------------------------------------------------

    def placed(self, at: Placed) -> None:
        """The target said where the copy is."""
        if self.stage is not Stage.PLACE:
            return
        if not at.jumps and at.end > 0:
            self.fail(
                f"the copy has {at.end} offsets that no progress tells of: delete it, or mirror under another name"
            )
            return
        if at.tail is not None and at.tail[:2] != (self.producer_id, sequence_of(at.end - 1)):
            self.fail(
                "the copy's last batch is not this mirror's: the source topic was made anew, or somebody else writes to the copy"
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
        """An ordinary broker took the batch, or has it already.

        A repeat is answered with the timestamp of the batch that is there, which may be another mirror's of the same length.
        """
        if not self._awaits(sent):
            return
        if base_offset >= 0 and base_offset != sent.base:
            self.fail(f"a batch for offset {sent.base} of the copy came to {base_offset}: somebody else writes to it")
        elif base_offset < 0 or append_time != _NO_TIME:
            self._checking, self.stage = sent, Stage.CHECK
        else:
            self._took(sent)

    @property
    def to_check(self) -> Stretch | None:
        """The batch whose place in the copy is to be looked at."""
        return self._checking if self.stage is Stage.CHECK else None

    def checked(self, sent: Stretch, crc: int | None, now_ms: MonotonicMs) -> None:
        """The checksum of the batch that begins where it was sent to; None when none does."""
        if self.stage is not Stage.CHECK or self._checking is not sent:
            return
        self._checking, self.stage = None, Stage.COPY
        if crc == sent.batches[0].crc:
            self._took(sent)
        else:
            self._in_doubt(now_ms)

    def followed(self, sent: Stretch, now_ms: MonotonicMs) -> None:
        """A broker that takes batches behind a batch took them."""
        if self._awaits(sent):
            self._waits_ms = now_ms
            self._took(sent)

    def _took(self, sent: Stretch) -> None:
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
        """The target did not take it, or nobody knows whether it did."""
        if self._awaits(sent):
            self._outbox.joins = self._outbox.joins and not is_too_large
            self._in_doubt(now_ms)

    def leader_moved(self, now_ms: MonotonicMs) -> None:
        """Another leads at the target: what the one before answers to an append is not worth waiting for."""
        if self.stage is Stage.COPY and self._outbox.is_waiting:
            self._in_doubt(now_ms)

    def _awaits(self, sent: Stretch) -> bool:
        """Whether an answer is about what is under way, and not about what was given up since."""
        return self.stage is Stage.COPY and self._outbox.is_under_way(sent)

    def found_end(self, end: int, now_ms: MonotonicMs) -> None:
        """Where the copy ends, asked while there was nothing to append: a mirror that should be gone may have had requests under way."""
        if self.stage is Stage.COPY and not self._outbox and end > self.map.end:
            self._in_doubt(now_ms)

    def _in_doubt(self, now_ms: MonotonicMs) -> None:
        self._drop()
        self.stage = Stage.PLACE
        self._pause(now_ms)

    # -- the source ----------------------------------------------------------------------------------------------------------

    def source_has(self, found: SourceRange, now_ms: MonotonicMs) -> None:
        """The source said which offsets it has: for a new copy, or because a fetch was out of its range."""
        if self.stage is not Stage.LOOK_UP_SOURCE:
            return
        if self._position == UNKNOWN:
            self._position = found.begin
        elif found.start > self._position:
            self.counters.gap_offsets += found.start - self._position
            self._position, self._epoch = found.start, UNKNOWN
        elif found.end < self._position:
            self.fail(
                f"the source ends at offset {found.end}, and {self._position} was copied: it lost records, or is another topic"
            )
            return
        else:
            self._pause(now_ms)
        self.stage = Stage.COPY

    def fetched(self, asked: int, result: FetchResult, now_ms: MonotonicMs) -> int:
        """The source's answer; how many bytes of it are held."""
        if self.stage is not Stage.COPY or asked != self._position or self.is_full:
            return 0
        if result.diverging is not None:
            epoch, end = result.diverging
            self.fail(f"the source's log of epoch {epoch} ends at offset {end}, but the copy has records up to {asked}")
            return 0
        before = self._outbox.held
        try:
            for found in pieces(
                result.records, asked, result.aborted, result.at_ms, read_committed=self.read_committed
            ):
                if not self._take(found):
                    break
        except CorruptBatch:
            self._pause(now_ms)
        self.source_end = result.end
        self.source_unchanged(now_ms)
        return self._outbox.held - before

    def _take(self, found: Piece | Skipped | Unusable) -> bool:
        """Whether to go on with what comes behind it."""
        if isinstance(found, Unusable):
            self.fail(found.reason)
            return False
        if isinstance(found, Skipped):
            self._position, self._epoch = found.next, found.epoch
            return True
        if found.header.producer_id == self.target_producer_id != UNKNOWN:
            self.fail("the source's topic is itself a copy of the target's: it is not sent back")
            return False
        self._position, self._epoch = found.next, found.header.leader_epoch
        self._enqueue(found)
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
        assert header.max_timestamp >= 0, "a repeat is known by its time"
        self._outbox.put(
            Outgoing(
                data, base, header.record_count, crc, first, piece.next, header.max_timestamp, jump, jump is None, len(data)
            )
        )  # fmt: skip

    def source_unchanged(self, now_ms: MonotonicMs) -> None:
        """The source reports that nothing has changed."""
        self.lag.record_source_end(self.source_end, self.reached, now_ms)
        self._caught_up()

    def _caught_up(self) -> None:
        self.lag.record_progress(self.reached, has_all=self.has_all)

    def fetch_refused(self, asked: int, code: ErrorCode, now_ms: MonotonicMs) -> None:
        """The source did not answer with records."""
        if self.stage is not Stage.COPY or asked != self._position:
            return
        if code is ErrorCode.offset_out_of_range and not self._outbox:
            self.stage = Stage.LOOK_UP_SOURCE
        else:
            self._pause(now_ms)

    def lookup_failed(self, now_ms: MonotonicMs) -> None:
        """What it asked for was not answered."""
        self._pause(now_ms)

    # -- pauses, ends, lag ---------------------------------------------------------------------------------------------------

    def fail(self, reason: str) -> None:
        """Nothing is copied any more, whatever else is heard."""
        self._drop()
        self.stage, self.failure = Stage.ENDED, reason

    def stop(self) -> None:
        """Somebody else copies now, or nobody does."""
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
        """How long ago the copy last had all that its source had; 0 while it has, UNKNOWN if it never had."""
        return self.lag.lag_ms(now_ms, has_all=self.has_all)
