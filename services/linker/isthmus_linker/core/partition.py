"""One partition on its way from the source to the destination.

A copy first asks where the destination's log ends, and then fetches from there and appends what it got, naming the offset at which it is
expected. Whatever is in doubt (an append without an answer, another end than the expected one) is settled by the destination's word, never
by memory: so a worker that was dead, slow or doubled does no harm. What the source says is checked against the epoch of the last batch that
was copied; a source whose log is another one ends the copy, and nothing that was copied is ever rewritten.
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
    COMMIT_LOOK_MS,
)

UNKNOWN: Final = -1
_NO_BYTES: Final = memoryview(b"")


class Stage(Enum):
    """What a copy needs next."""

    ASK_DESTINATION = auto()
    """where its log ends, until every in-sync replica has all of it"""
    ASK_SOURCE = auto()
    """which offsets it has"""
    COPY = auto()
    ENDED = auto()
    """nothing: it failed, or is not this worker's any more"""


class Failure(NamedTuple):
    """Why a mirror topic cannot be copied any more."""

    error: MirrorError
    message: str


class SourceRange(NamedTuple):
    """What the source has: from its log's start, where a new copy shall begin, and the epoch of the leader that said so."""

    start: int
    begin: int
    leader_epoch: int


class FetchAt(NamedTuple):
    """Where to fetch from, and the epoch of the batch before it."""

    offset: int
    last_epoch: int


class News(NamedTuple):
    """One partition of a fetch's answer."""

    records: memoryview
    high_watermark: int
    leader_epoch: int
    diverging: tuple[int, int] | None = None


class EndOfLog(NamedTuple):
    """What the destination says of its log."""

    end: int
    last_epoch: int


@dataclass(slots=True, eq=False)
class Chunk:
    """Whole batches for offsets `first` to `next`; `released` when nobody needs the bytes any more."""

    records: memoryview
    first: int
    next: int
    last_epoch: int
    size: int
    released: bool = False

    def release(self) -> None:
        """Give the bytes back."""
        self.records = _NO_BYTES
        self.released = True


class Append(NamedTuple):
    """What to send to the destination; without a chunk it only tells how far the source is."""

    chunk: Chunk | None
    expected_end: int
    start_offset: int
    source_epoch: int
    high_watermark: int


@dataclass(slots=True)
class Counters:
    """What happened, for metrics."""

    bytes: int = 0
    offsets: int = 0
    errors: int = 0
    gap_offsets: int = 0
    """Offsets that the source's retention took before they were copied."""


@dataclass(slots=True, eq=False)
class PartitionCopy:
    """Feed it answers; ask it what to do."""

    retry_timeout_ms: int
    """How long a source whose leader epochs went back is given to come to its senses (`cluster.link.retry.timeout.ms`)."""
    backoff_max_ms: int
    """The longest pause after failures (`replica.fetch.backoff.ms`)."""
    stage: Stage = Stage.ASK_DESTINATION
    failure: Failure | None = None
    end: int = UNKNOWN
    """Where the destination's log ends, as it said itself."""
    high_watermark: int = UNKNOWN
    """The source's, as last heard."""
    source_epoch: int = UNKNOWN
    lag: LagTracker = field(default_factory=LagTracker)
    needs_epoch_above: int = UNKNOWN
    """The destination refused batches until its leader epoch is above this one."""
    counters: Counters = field(default_factory=Counters)
    _begin: int = UNKNOWN  # where an empty log begins; UNKNOWN as soon as it is not empty
    _position: int = UNKNOWN
    _last_epoch: int = UNKNOWN  # of the last batch before the position
    _proof_epoch: int = UNKNOWN  # the same, but not across a gap: the source has forgotten what was there
    _backwards_since_ms: int = UNKNOWN
    _refused_by_epoch: int = UNKNOWN  # of the leader of the source that did not have the position
    _chunks: deque[Chunk] = field(default_factory=deque)
    _appending: Append | None = None
    _told_ms: int = UNKNOWN
    _told_of_ms: int = UNKNOWN  # when that was heard which was told
    _told_watermark: int = UNKNOWN
    _failures: int = 0
    _retry_ms: int = 0

    # -- what to do ----------------------------------------------------------------------------------------------------------

    def asks(self, stage: Stage, now_ms: MonotonicMs) -> bool:
        """Whether it wants to know now what this stage needs."""
        return self.stage is stage and now_ms >= self._retry_ms

    def fetch_at(self, now_ms: MonotonicMs) -> FetchAt | None:
        """Where to fetch from now; None while it has enough to append or pauses."""
        if self.stage is not Stage.COPY or self.is_full or now_ms < self._retry_ms:
            return None
        return FetchAt(self._position, self._proof_epoch)

    @property
    def is_full(self) -> bool:
        """Whether it holds all that it may."""
        return len(self._chunks) >= CHUNKS_MAX

    @property
    def has_all(self) -> bool:
        """Whether the destination has everything that the source was heard to have."""
        return self.stage is Stage.COPY and self._begin <= 0 and self.reached >= self.high_watermark >= 0

    @property
    def reached(self) -> int:
        """The source's offset before which the copy has all that the source still has: beyond its own end where retention took the rest."""
        return self.end if self._chunks or self.stage is not Stage.COPY else max(self.end, self._position)

    def next_append(self, now_ms: MonotonicMs) -> Append | None:
        """What to send now; it is taken as sent until `appended`, `append_refused` or `append_lost`."""
        if self.stage is not Stage.COPY or self._appending is not None:
            return None
        chunk = self._chunks[0] if self._chunks else None
        if chunk is None and not self._owes_telling(now_ms):
            return None
        self._told_ms, self._told_of_ms, self._told_watermark = now_ms, self.lag.reported_ms, self.high_watermark
        start = self._begin if self._begin > 0 else UNKNOWN
        # What retention took is nothing that the destination still waits for.
        owed_to = self.end if self.has_all else self.high_watermark
        self._appending = Append(chunk, self.end, start, self.source_epoch, owed_to)
        return self._appending

    def _owes_telling(self, now_ms: MonotonicMs) -> bool:
        if self.lag.reported_ms == self._told_of_ms:
            return False  # nothing new was heard: the destination shall not believe otherwise
        return self.high_watermark != self._told_watermark or now_ms >= self._told_ms + REPORT_INTERVAL_MS

    # -- the destination -----------------------------------------------------------------------------------------------------

    def destination_ends(self, log: EndOfLog, committed: int, now_ms: MonotonicMs) -> None:
        """The destination said where its log ends, and up to where every in-sync replica has it."""
        if self.stage is not Stage.ASK_DESTINATION:
            return
        if (
            committed < log.end
        ):  # more would wait as well, and hold up the partitions whose appends share a request with it
            self._retry_ms = now_ms + COMMIT_LOOK_MS
            return
        self._place(log)

    def _place(self, log: EndOfLog) -> None:
        """Go on from there. A log that ends at 0 is a new one and may begin anywhere."""
        self._drop_chunks()
        self.end = self._position = log.end
        self._last_epoch = self._proof_epoch = log.last_epoch
        self._begin = UNKNOWN
        self.stage = Stage.ASK_SOURCE if log.end == 0 else Stage.COPY
        self._caught_up()

    def appended(self, append: Append, log: EndOfLog) -> None:
        """The destination has it."""
        if not self._answers(append):
            return
        self._failures = 0
        self.needs_epoch_above = UNKNOWN
        chunk = append.chunk
        if chunk is not None and log.end == chunk.next:
            self._took(chunk)
        elif chunk is None and log.end in (self.end, self._begin):
            if log.end == self._begin:  # the log was begun without records
                self.end, self._begin = log.end, UNKNOWN
        else:
            self._place(log)
        self._caught_up()

    def _took(self, chunk: Chunk) -> None:
        assert self._chunks[0] is chunk
        self.counters.bytes += chunk.size
        self.counters.offsets += chunk.next - self.end if self._begin == UNKNOWN else chunk.next - chunk.first
        self._chunks.popleft().release()
        self.end, self._begin = chunk.next, UNKNOWN

    def append_refused(self, append: Append, code: ErrorCode, log: EndOfLog, now_ms: MonotonicMs) -> None:
        """The destination did not take it, and said why."""
        if not self._answers(append):
            return
        if code is ErrorCode.offset_out_of_range and log.end >= 0:
            self._place(log)
            return
        if code is ErrorCode.fenced_leader_epoch:
            epoch = append.chunk.last_epoch if append.chunk is not None else UNKNOWN
            self.needs_epoch_above = max(append.source_epoch, epoch)
        self._in_doubt(now_ms)

    def append_lost(self, append: Append, now_ms: MonotonicMs) -> None:
        """Nobody knows whether the destination has it."""
        if self._answers(append):
            self._in_doubt(now_ms)

    def is_overdue(self, now_ms: MonotonicMs) -> bool:
        """Whether the append under way should have been answered: who leads may hang, and another may lead."""
        return self._appending is not None and now_ms > self._told_ms + APPEND_OVERDUE_MS

    def leader_moved(self, now_ms: MonotonicMs) -> None:
        """Another leads at the destination: what the one before answers to an append is not worth waiting for."""
        if self.stage is Stage.COPY and self._appending is not None:
            self._in_doubt(now_ms)

    def _answers(self, append: Append) -> bool:
        """Whether this is about what was sent last, and not about what was given up since."""
        if self._appending is not append:
            return False
        self._appending = None
        return self.stage is Stage.COPY

    def _in_doubt(self, now_ms: MonotonicMs) -> None:
        self._drop_chunks()
        self.stage = Stage.ASK_DESTINATION
        self._pause(now_ms)

    # -- the source ----------------------------------------------------------------------------------------------------------

    def source_has(self, found: SourceRange, now_ms: MonotonicMs) -> None:
        """The source said which offsets it has: for a new copy, or because a fetch was out of its range."""
        if self.stage is not Stage.ASK_SOURCE:
            return
        if self.end == 0:
            self._begin = self._position = found.begin
            self.stage = Stage.COPY
        elif found.start > self._position:
            self.counters.gap_offsets += found.start - self._position
            self._position, self._proof_epoch = found.start, UNKNOWN
            self.stage = Stage.COPY
        elif found.leader_epoch != self._refused_by_epoch:  # this leader may have what the other one had not
            self.stage = Stage.COPY
        else:
            message = f"the source's log does not hold offset {self._position} after epoch {self._last_epoch} any more"
            self._suspect_truncation(found.leader_epoch, message, now_ms)

    def _suspect_truncation(self, leader_epoch: int, message: str, now_ms: MonotonicMs) -> None:
        """A leader that was deposed long ago does not know better: asked again, another one will answer."""
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

    def fetched(self, asked: FetchAt, news: News, now_ms: MonotonicMs) -> Chunk | None:
        """The source's answer; the chunk that it made, if any."""
        if not self._asks_now(asked) or self.is_full:
            return None
        if news.diverging is not None:
            epoch, end = news.diverging
            self._suspect_truncation(
                news.leader_epoch,
                f"the source's log of epoch {epoch} ends at offset {end}, and records of epoch {self._last_epoch} up to offset "
                f"{self._position} were copied from it before",
                now_ms,
            )
            return None
        found = cut(news.records, self._position, self._last_epoch, may_begin_within=self._begins_here)
        if found.is_corrupt:
            self._pause(now_ms)
            return None
        self._heard(news, now_ms)
        if found.size == 0:
            if found.error is not None:
                self.fail(found.error, f"the batch at offset {self._position} of the source cannot be copied")
            return None
        chunk = Chunk(news.records[found.begin : found.end], found.first, found.next, found.last_epoch, found.size)
        self._chunks.append(chunk)
        self._position = found.next
        self._last_epoch = self._proof_epoch = found.last_epoch
        self._backwards_since_ms = UNKNOWN
        return chunk

    def _asks_now(self, asked: FetchAt) -> bool:
        """Whether this would still be asked. The offset alone proves nothing: the destination may have another log up to there than the
        batches that were on their way to it."""
        return self.stage is Stage.COPY and asked == FetchAt(self._position, self._proof_epoch)

    @property
    def _begins_here(self) -> bool:
        return self._begin != UNKNOWN and not self._chunks

    def _heard(self, news: News, now_ms: MonotonicMs) -> None:
        self.high_watermark = news.high_watermark
        self.source_epoch = max(self.source_epoch, news.leader_epoch)
        self.no_news(now_ms)

    def no_news(self, now_ms: MonotonicMs) -> None:
        """The source reports that nothing has changed."""
        self.lag.record_source_end(self.high_watermark, self.reached, now_ms)
        self._caught_up()

    def _caught_up(self) -> None:
        self.lag.record_progress(self.reached, has_all=self.has_all)

    def fetch_refused(self, asked: FetchAt, code: ErrorCode, leader_epoch: int, now_ms: MonotonicMs) -> None:
        """The source, in the epoch that the fetch named, did not answer with records."""
        if not self._asks_now(asked):
            return
        if code is ErrorCode.offset_out_of_range:
            if self._chunks:
                self._pause(now_ms)  # what is held is appended first
            else:
                self.stage, self._refused_by_epoch = Stage.ASK_SOURCE, leader_epoch
            return
        self._pause(now_ms)

    def asking_failed(self, now_ms: MonotonicMs) -> None:
        """What it asked for was not answered."""
        self._pause(now_ms)

    # -- pauses, ends, lag ---------------------------------------------------------------------------------------------------

    def fail(self, error: MirrorError, message: str) -> None:
        """Nothing is copied any more, whatever else is heard."""
        self._drop_chunks()
        self.stage, self.failure = Stage.ENDED, Failure(error, message)

    def stop(self) -> None:
        """Somebody else copies now, or nobody does."""
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
        """How long ago the copy last had all that its source had; 0 while it has, UNKNOWN if it never had."""
        return self.lag.lag_ms(now_ms, has_all=self.has_all)
