"""The copy of one partition: what to look up, what to fetch from the source, its progress and lag.

`core/sequenced.py` decides how copies are written that only mirrors write, `core/transactional.py` that of copies with other writers.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

from isthmus_copying.core.lag_tracker import LagTracker
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import CorruptBatch, ErrorCode

from isthmus_mirror.core.batches import Piece, Skipped, Unusable, pieces
from isthmus_mirror.core.limits import BACKOFF_FIRST_MS, BACKOFF_MAX_MS, BUFFERED_BYTES_MAX
from isthmus_mirror.core.offset_map import OffsetMap

UNKNOWN: Final = -1
NO_TIME: Final = -1


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


@dataclass(slots=True, eq=False, kw_only=True)
class PartitionCopy(ABC):
    """The state machine of a copy: takes responses, returns the next requests."""

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
    @abstractmethod
    def buffered_bytes(self) -> int:
        """Bytes fetched and not yet appended."""

    @property
    def is_full(self) -> bool:
        """Whether no more may be fetched before an append."""
        return self.buffered_bytes >= BUFFERED_BYTES_MAX

    @property
    @abstractmethod
    def newest_timestamp(self) -> int:
        """The greatest timestamp of the newest fetched batch."""

    @property
    @abstractmethod
    def is_busy(self) -> bool:
        """Whether anything fetched is not in the copy yet."""

    @property
    @abstractmethod
    def reached(self) -> int:
        """The source offset up to which the copy has all records that can be copied."""

    @property
    def map_back(self) -> OffsetMap | None:
        """The map of the flow that copies the target's own records to the source's partition, if there is one."""
        return None

    @property
    def has_all(self) -> bool:
        """Whether the copy has all that the source has reported."""
        return self.stage is Stage.COPY and not self.is_busy and self._position >= self.source_end >= 0

    @property
    def is_placed(self) -> bool:
        """Whether the copy's end is known."""
        return self.stage in (Stage.COPY, Stage.CHECK, Stage.LOOK_UP_SOURCE)

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
        before = self.buffered_bytes
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
        return self.buffered_bytes - before

    def _take(self, piece: Piece | Skipped | Unusable) -> bool:
        """Handle one piece; returns whether to continue."""
        if isinstance(piece, Unusable):
            self.fail(piece.reason)
            return False
        if isinstance(piece, Skipped):
            self._position, self._epoch = piece.next, piece.epoch
            self._passed(piece)
            return True
        if piece.header.producer_id == self.target_producer_id != UNKNOWN:
            self.fail("the source's topic is a copy of the target's; it is not copied back")
            return False
        self._position, self._epoch = piece.next, piece.header.leader_epoch
        self._enqueue(piece)
        return True

    def _passed(self, skipped: Skipped) -> None:  # noqa: B027 - only copies in transactions need to know
        """Note the end of a batch of the source, or of a transaction."""

    @abstractmethod
    def _enqueue(self, piece: Piece) -> None:
        """Buffer a batch for the copy."""

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
        if code is ErrorCode.offset_out_of_range and not self.is_busy:
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

    @abstractmethod
    def _drop(self) -> None:
        """Forget everything that is not in the copy."""

    def _pause(self, now_ms: MonotonicMs) -> None:
        self.counters.errors += 1
        self._failures += 1
        self._retry_ms = now_ms + min(BACKOFF_FIRST_MS << min(self._failures - 1, 16), BACKOFF_MAX_MS)

    def lag_ms(self, now_ms: MonotonicMs) -> int:
        """Time since the copy was last caught up; 0 while it is, UNKNOWN if it never was."""
        return self.lag.lag_ms(now_ms, has_all=self.has_all)
