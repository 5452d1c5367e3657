"""One partition on its way from the source to its copy: what to ask, what to append, and what an answer means.

Why nothing is lost or doubled, whoever dies and however many mirrors believe the partition theirs:

- The copy is written under one producer id, with the copy's own offset as sequence. So the target takes a batch only where it belongs:
  the sequence is a comparison with the end of the log, made by the log's leader.
- A batch that does not continue the run of the batch before it is preceded, durably, by a jump (`core/progress.py`) that names it by its
  checksum. So the copy's log and the jumps together say which offset of the source each record had, and where to go on.
- An answer may mean that another mirror's batch of the same length is there (the target takes ours for a repeat). It is recognised by its
  timestamp, and then the batch in the copy is looked at. Only one batch of a partition is under way at a time, so that nothing is built
  on an answer that was not understood.
- Whatever is in doubt ends in asking anew: where does the copy end, what do the jumps say.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

from isthmus_wire.errors import CorruptBatch, ErrorCode

from isthmus_mirror.core.batches import Piece, Skipped, Unusable, addressed, pieces, sequence_of
from isthmus_mirror.core.limits import BACKOFF_FIRST_MS, BACKOFF_MAX_MS, CONTACT_MS, HELD_BYTES_MAX
from isthmus_mirror.core.offset_map import OffsetMap, Run
from isthmus_mirror.core.progress import Jump, Mark

UNKNOWN: Final = -1
_NO_TIME: Final = -1
_NO_BYTES: Final = memoryview(b"")


class Stage(Enum):
    """What a copy needs next."""

    PLACE = auto()
    """where the copy ends, and which jumps are in effect"""
    ASK_SOURCE = auto()
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


class Placed(NamedTuple):
    """What the target has: offsets from `start` to before `end`, the jumps in effect, and its last batch if any is left."""

    start: int
    end: int
    chain: tuple[Jump, ...]
    tail: Tail | None


class SourceRange(NamedTuple):
    """What the source has, and where a new copy shall begin."""

    start: int
    begin: int
    end: int


class News(NamedTuple):
    """One partition of a fetch's answer; `end` is where what may be copied ends now, `at_ms` the time of day."""

    records: memoryview
    end: int
    at_ms: int
    aborted: tuple[tuple[int, int], ...] = ()
    diverging: tuple[int, int] | None = None


@dataclass(slots=True, eq=False)
class Outgoing:
    """One batch of the copy to be, for offsets `base` to `base + count`."""

    data: memoryview
    base: int
    count: int
    crc: int
    first: int
    """The source's offset of its first record,"""
    next: int
    """and the one behind its last."""
    epoch: int
    max_timestamp: int
    jump: Jump | None
    is_recorded: bool
    """Whether its jump is durable, or it needs none."""
    size: int

    def release(self) -> None:
        """Give the bytes back."""
        self.data = _NO_BYTES


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
    heard_ms: int = UNKNOWN
    caught_up_ms: int = UNKNOWN
    """The last moment of the source of which the copy has everything."""
    counters: Counters = field(default_factory=Counters)
    last: tuple[int, int, int] | None = None
    """Offsets of the last record that was copied, at the source and in the copy, and its batch's greatest timestamp."""
    _position: int = UNKNOWN
    _epoch: int = UNKNOWN  # of the source's batch before the position
    _newest: Mark | None = None  # the jump that the next one follows
    _outgoing: deque[Outgoing] = field(default_factory=deque)
    _held: int = 0
    _sent: Outgoing | None = None
    _mark: tuple[int, int] | None = None  # an end of the source that the copy has not reached, and when it was heard
    _failures: int = 0
    _retry_ms: int = 0

    # -- what to do ----------------------------------------------------------------------------------------------------------

    def asks(self, stage: Stage, now_ms: int) -> bool:
        """Whether it wants to know now what this stage needs."""
        return self.stage is stage and now_ms >= self._retry_ms

    def fetch_at(self, now_ms: int) -> tuple[int, int] | None:
        """The offset to fetch from now, and the epoch of the batch before it; None while it has enough or pauses."""
        if self.stage is not Stage.COPY or self.is_full or now_ms < self._retry_ms:
            return None
        return self._position, self._epoch

    @property
    def is_full(self) -> bool:
        """Whether it holds all that it may."""
        return self._held >= HELD_BYTES_MAX

    @property
    def held(self) -> int:
        """Bytes that were fetched and are not appended yet."""
        return self._held

    @property
    def newest_timestamp(self) -> int:
        """The greatest of the newest batch that it holds."""
        return self._outgoing[-1].max_timestamp if self._outgoing else _NO_TIME

    @property
    def is_placed(self) -> bool:
        """Whether it is known where the copy ends."""
        return self.stage in (Stage.COPY, Stage.CHECK, Stage.ASK_SOURCE)

    @property
    def reached(self) -> int:
        """The source's offset before which the copy has all that can be copied."""
        if self._outgoing:
            return self._outgoing[0].first
        return self._position if self._position != UNKNOWN else self.map.next_upstream

    @property
    def has_all(self) -> bool:
        """Whether the copy has everything that the source was heard to have."""
        return self.stage is Stage.COPY and not self._outgoing and self._position >= self.source_end >= 0

    def jumps_to_record(self) -> list[Jump]:
        """Jumps that must be durable before their batches are sent; asked for once for each."""
        return [out.jump for out in self._outgoing if out.jump is not None and not out.is_recorded]

    def recorded(self, jumps: Iterable[Jump]) -> None:
        """These are durable."""
        done = set(jumps)
        for out in self._outgoing:
            out.is_recorded = out.is_recorded or out.jump in done

    def next_append(self, now_ms: int) -> Outgoing | None:
        """What to send now; it is taken as sent until it is answered or lost."""
        if self.stage is not Stage.COPY or self._sent is not None or not self._outgoing or now_ms < self._retry_ms:
            return None
        if not self._outgoing[0].is_recorded:
            return None
        self._sent = self._outgoing[0]
        return self._sent

    # -- the target ----------------------------------------------------------------------------------------------------------

    def placed(self, at: Placed) -> None:
        """The target said where the copy is."""
        if self.stage is not Stage.PLACE:
            return
        if not at.chain and at.end > 0:
            self.fail(
                f"the copy has {at.end} offsets that no progress tells of: delete it, or mirror under another name"
            )
            return
        if at.tail is not None and at.tail != (self.producer_id, sequence_of(at.end - 1)):
            self.fail(
                "the copy's last batch is not this mirror's: the source topic was made anew, or somebody else writes to the copy"
            )
            return
        self._drop()
        self.map = OffsetMap((run for jump in at.chain for run in jump.runs), at.end)
        self._newest = at.chain[-1].mark if at.chain else None
        self._epoch = UNKNOWN
        if at.chain:
            self._position, self.stage = self.map.next_upstream, Stage.COPY
        else:
            self._position, self.stage = UNKNOWN, Stage.ASK_SOURCE
        self._caught_up()

    def appended(self, sent: Outgoing, base_offset: int, append_time: int, now_ms: int) -> None:
        """The target took it, or has it already.

        A repeat is answered with the timestamp of the batch that is there, which may be another mirror's of the same length.
        """
        if not self._answers(sent):
            return
        if base_offset >= 0 and base_offset != sent.base:
            self.fail(f"a batch for offset {sent.base} of the copy came to {base_offset}: somebody else writes to it")
        elif base_offset < 0 or append_time != _NO_TIME:
            self._sent, self.stage = sent, Stage.CHECK
        else:
            self._took(sent, now_ms)

    @property
    def to_check(self) -> Outgoing | None:
        """The batch whose place in the copy is to be looked at."""
        return self._sent if self.stage is Stage.CHECK else None

    def checked(self, sent: Outgoing, crc: int | None, now_ms: int) -> None:
        """The checksum of the batch that begins where it was sent to; None when none does."""
        if self.stage is not Stage.CHECK or self._sent is not sent:
            return
        self._sent, self.stage = None, Stage.COPY
        if crc == sent.crc:
            self._took(sent, now_ms)
        else:
            self._in_doubt(now_ms)

    def _took(self, sent: Outgoing, now_ms: int) -> None:
        assert self._outgoing[0] is sent
        assert sent.base == self.map.end
        self._failures = 0
        if sent.jump is not None:
            for run in sent.jump.runs:
                self.map.begin(run)
        self.map.end = sent.base + sent.count
        self.last = (sent.next - 1, self.map.end - 1, sent.max_timestamp)
        self.counters.bytes += sent.size
        self.counters.records += sent.count
        self._held -= sent.size
        self._outgoing.popleft().release()
        self._caught_up()

    def append_refused(self, sent: Outgoing, now_ms: int) -> None:
        """The target did not take it, or nobody knows whether it did."""
        if self._answers(sent):
            self._in_doubt(now_ms)

    def _answers(self, sent: Outgoing) -> bool:
        """Whether this is about what was sent last, and not about what was given up since."""
        if self._sent is not sent or self.stage is not Stage.COPY:
            return False
        self._sent = None
        return True

    def doubt(self, now_ms: int) -> None:
        """A jump could not be recorded, or something else went wrong on the target's side."""
        if self.stage in (Stage.COPY, Stage.CHECK):
            self._in_doubt(now_ms)

    def _in_doubt(self, now_ms: int) -> None:
        self._drop()
        self.stage = Stage.PLACE
        self._pause(now_ms)

    # -- the source ----------------------------------------------------------------------------------------------------------

    def source_has(self, found: SourceRange, now_ms: int) -> None:
        """The source said which offsets it has: for a new copy, or because a fetch was out of its range."""
        if self.stage is not Stage.ASK_SOURCE:
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

    def fetched(self, asked: int, news: News, now_ms: int) -> int:
        """The source's answer; how many bytes of it are held."""
        if self.stage is not Stage.COPY or asked != self._position or self.is_full:
            return 0
        if news.diverging is not None:
            self.fail(
                f"the source's log of epoch {news.diverging[0]} ends at offset {news.diverging[1]}, and records up to {asked} were copied"
            )
            return 0
        before = self._held
        try:
            for found in pieces(news.records, asked, news.aborted, news.at_ms, read_committed=self.read_committed):
                if not self._take(found):
                    break
        except CorruptBatch:
            self._pause(now_ms)
        self.source_end = news.end
        self.no_news(now_ms)
        return self._held - before

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
        newest = self._outgoing[-1] if self._outgoing else None
        base = self.map.end if newest is None else newest.base + newest.count
        expected = self.map.next_upstream if newest is None else newest.next
        size = len(piece.batch)
        data, crc = addressed(piece, self.producer_id, base)
        jump = None
        if self._newest is None or len(piece.runs) > 1 or piece.runs[0].upstream != expected:
            runs = tuple(Run(run.upstream, base + run.downstream) for run in piece.runs)
            jump = Jump(Mark(base, crc), self._newest, runs)
            self._newest = jump.mark
        assert piece.header.max_timestamp >= 0, "a repeat is known by its time"
        count = piece.header.record_count
        self._outgoing.append(
            Outgoing(
                data, base, count, crc, piece.runs[0].upstream, piece.next, piece.header.leader_epoch,
                piece.header.max_timestamp, jump, jump is None, size,
            )
        )  # fmt: skip
        self._held += size

    def no_news(self, now_ms: int) -> None:
        """The source has told that it is as it was."""
        self.heard_ms = now_ms
        if self.source_end > self.reached and self._mark is None:
            self._mark = (self.source_end, now_ms)
        self._caught_up()

    def _caught_up(self) -> None:
        if self._mark is not None and self.reached >= self._mark[0]:
            self.caught_up_ms, self._mark = max(self.caught_up_ms, self._mark[1]), None
        if self.has_all:
            self.caught_up_ms = max(self.caught_up_ms, self.heard_ms)

    def fetch_refused(self, asked: int, code: ErrorCode, now_ms: int) -> None:
        """The source did not answer with records."""
        if self.stage is not Stage.COPY or asked != self._position:
            return
        if code is ErrorCode.offset_out_of_range and not self._outgoing:
            self.stage = Stage.ASK_SOURCE
        else:
            self._pause(now_ms)

    def asking_failed(self, now_ms: int) -> None:
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
        self._sent, self._held = None, 0
        for out in self._outgoing:
            out.release()
        self._outgoing.clear()

    def _pause(self, now_ms: int) -> None:
        self.counters.errors += 1
        self._failures += 1
        self._retry_ms = now_ms + min(BACKOFF_FIRST_MS << min(self._failures - 1, 16), BACKOFF_MAX_MS)

    def lag_ms(self, now_ms: int) -> int:
        """How long ago the copy last had all that its source had; 0 while it has, UNKNOWN if it never had."""
        if self.has_all and now_ms - self.heard_ms <= CONTACT_MS:
            return 0
        return UNKNOWN if self.caught_up_ms == UNKNOWN else now_ms - self.caught_up_ms
