"""The copy of one partition that others write to as well: batches go in transactions of the target, under ordinary producer ids.

One transaction holds the batches of a mirror's partitions, the record of what it wrote (`core/written.py`), and the commit of the source's
offsets in the flow's group, which refuses a mirror of an earlier generation. So records, progress and offset map become visible together
or never, and a mirror that has been replaced cannot commit.

A transaction of the source is copied when it is complete in the partition, in one transaction of the target. One that does not fit into
memory is copied as it comes, and holds up the transaction of the target until it is complete, or too old.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import CorruptBatch

from isthmus_mirror.core.batch_merging import join, joinable
from isthmus_mirror.core.batches import Piece, Skipped
from isthmus_mirror.core.limits import JOIN_LEAST
from isthmus_mirror.core.offset_map import OffsetMap, Run
from isthmus_mirror.core.origins import Origins
from isthmus_mirror.core.partition import NO_TIME, UNKNOWN, PartitionCopy, Stage
from isthmus_mirror.core.written import Written, merged


class Progress(NamedTuple):
    """What a copy's transactions have written, and the source offset to continue at, UNKNOWN for a new copy.

    `unrecorded` is what another mirror wrote before this one took the copy over.
    """

    written: Sequence[Written]
    position: int
    unrecorded: tuple[Written, ...] = ()


@dataclass(slots=True, eq=False)
class Outgoing:
    """A batch to append, and the source's offsets of its records; `runs` count the copy's offsets from 0."""

    data: memoryview
    runs: tuple[Written, ...]
    count: int
    max_timestamp: int
    is_whole: bool = False
    """Whether no transaction of the source is half copied after it."""

    @property
    def first(self) -> int:
        """The source offset of its first record."""
        return self.runs[0].upstream


@dataclass(slots=True, eq=False, kw_only=True)
class TransactionalCopy(PartitionCopy):
    """A copy that has other writers."""

    source: str
    target: str
    """The aliases of the two clusters."""
    origins: Origins = field(default_factory=Origins)
    skips: frozenset[str] = frozenset()
    """The origins of records that are not copied."""
    joins: bool = True
    _waiting: deque[Outgoing] = field(default_factory=deque)
    _waiting_bytes: int = 0
    _in_flight: Outgoing | None = None
    _appended: list[Outgoing] = field(default_factory=list)  # in the open transaction
    _appended_bytes: int = 0
    _written: list[Written] = field(default_factory=list)  # in the open transaction
    _unrecorded: tuple[Written, ...] = ()
    _newest: Outgoing | None = None
    _half_copied: set[int] = field(default_factory=set)  # the producers of transactions that end beyond the position
    _committed: int = UNKNOWN  # the position that the last commit recorded
    _to_commit: int = UNKNOWN

    # -- what to do ----------------------------------------------------------------------------------------------------------

    @property
    def buffered_bytes(self) -> int:
        """Bytes fetched and not yet appended."""
        in_flight = len(self._in_flight.data) if self._in_flight is not None else 0
        return in_flight + self._waiting_bytes

    @property
    def newest_timestamp(self) -> int:
        """The greatest timestamp of the newest fetched batch."""
        return NO_TIME if self._newest is None else self._newest.max_timestamp

    @property
    def is_busy(self) -> bool:
        """Whether anything fetched is not committed yet."""
        return bool(self._waiting or self._in_flight or self._appended)

    @property
    def reached(self) -> int:
        """The source offset up to which the copy has all records that can be copied."""
        if self.is_busy:
            return self._committed
        return self._position if self._position != UNKNOWN else self.map.next_upstream

    @property
    def map_back(self) -> OffsetMap | None:
        """The map of the flow that copies the target's own records to the source's partition, if there is one."""
        return self.origins.maps.get(self.target)

    def has_appends(self, now_ms: MonotonicMs) -> bool:
        """Whether a batch can be appended now: a transaction of the source when it is complete, unless it does not fit into memory."""
        if self.stage is not Stage.COPY or self._in_flight is not None or now_ms < self._retry_ms:
            return False
        return any(out.is_whole for out in self._waiting) or (bool(self._waiting) and (self.is_split or self.is_full))

    @property
    def takes_part(self) -> bool:
        """Whether the open transaction has batches of this copy that it knows of: a copy that has failed or ended has forgotten them."""
        return bool(self._appended)

    @property
    def is_split(self) -> bool:
        """Whether a commit now would split a transaction of the source."""
        return bool(self._appended) and not self._appended[-1].is_whole

    # -- one transaction of the target ---------------------------------------------------------------------------------------

    def next_append(self, now_ms: MonotonicMs, *, is_ending: bool) -> Outgoing | None:
        """The next batch of the transaction; of one that ends, only what is needed to split no transaction of the source."""
        if not self.has_appends(now_ms) or (is_ending and not self.is_split):
            return None
        if self.joins:
            self._join_front()
        self._in_flight = self._waiting.popleft()
        self._waiting_bytes -= len(self._in_flight.data)
        return self._in_flight

    def _join_front(self) -> None:
        """Merge the waiting batches at the front, if there are several small ones."""
        few = self._joinable()
        if len(few) < JOIN_LEAST:
            return
        try:
            joined = join([out.data for out in few])
        except CorruptBatch:  # the source accepted unreadable records; the copy gets them unchanged
            self.joins = False
            return
        runs: list[Written] = []
        count = 0
        for out in few:
            self._waiting_bytes -= len(self._waiting.popleft().data)
            runs += (run._replace(downstream=count + run.downstream) for run in out.runs)
            count += out.count
        last = few[-1]
        one = Outgoing(joined.data, tuple(merged(runs)), count, joined.max_timestamp, last.is_whole)
        self._waiting.appendleft(one)
        self._waiting_bytes += len(one.data)
        if self._newest is last:
            self._newest = one

    def _joinable(self) -> list[Outgoing]:
        """Batches that may become one, up to a place where no transaction of the source is split if there is one."""
        few = joinable(self._waiting)
        whole = max((index for index, out in enumerate(few) if out.is_whole), default=len(few) - 1)
        return few[: whole + 1]

    def appended(self, out: Outgoing, base: int) -> None:
        """Handle the append of the batch in flight at this offset of the copy."""
        if self._in_flight is not out:
            return
        self._in_flight = None
        self._appended.append(out)
        self._written += (run._replace(downstream=base + run.downstream) for run in out.runs)
        self._appended_bytes += len(out.data)
        out.data = memoryview(b"")

    def append_failed(self, out: Outgoing, now_ms: MonotonicMs, *, is_too_large: bool = False) -> None:
        """Handle a failed append, after which the transaction must be aborted."""
        if self._in_flight is not out:
            return
        if is_too_large and not self.joins:
            self.fail(f"the target refuses a batch of {len(out.data)} bytes at offset {out.first} as too large")
            return
        self.joins = self.joins and not is_too_large
        self._pause(now_ms)

    def to_record(self) -> tuple[list[Written], int]:
        """What the transaction has written, and the source offset to continue at after it."""
        self._to_commit = self._waiting[0].first if self._waiting else self._position
        return merged((*self._unrecorded, *self._written)), self._to_commit

    def committed(self) -> None:
        """Handle the commit of the transaction."""
        if not self._appended:
            return
        for run in self._written:
            self.map.add(Run(run.upstream, run.downstream), run.records)
        self.counters.records += sum(out.count for out in self._appended)
        self.counters.bytes += self._appended_bytes
        newest = self._written[-1]
        self.last = (newest.upstream + newest.records - 1, newest.stop - 1, self._appended[-1].max_timestamp)
        self._committed = self._to_commit
        self._appended.clear()
        self._appended_bytes = 0
        self._written.clear()
        self._unrecorded = ()
        self._failures = 0
        self._caught_up()

    def rolled_back(self) -> None:
        """Handle the abort of the transaction: what it wrote is fetched again."""
        if self._in_flight is None and not self._appended:
            return
        self._drop()
        if self.stage is Stage.COPY:
            self._position, self._epoch = self._committed, UNKNOWN

    # -- the target ----------------------------------------------------------------------------------------------------------

    def place_again(self) -> None:
        """Look up the progress again: another mirror may have had the partition."""
        if self.stage is not Stage.ENDED:
            self._drop()
            self.stage = Stage.PLACE

    def placed(self, at: Progress) -> None:
        """Handle the progress that is recorded in the target."""
        if self.stage is not Stage.PLACE:
            return
        self._drop()
        self.map = OffsetMap(is_partial=True)
        for run in (*at.written, *at.unrecorded):
            self.map.add(Run(run.upstream, run.downstream), run.records)
        self._unrecorded = at.unrecorded
        self._epoch = UNKNOWN
        self._position = self._committed = max(at.position, self.map.next_upstream if len(self.map) else UNKNOWN)
        self.stage = Stage.LOOK_UP_SOURCE if self._position == UNKNOWN else Stage.COPY
        self._caught_up()

    # -- the source ----------------------------------------------------------------------------------------------------------

    def _enqueue(self, piece: Piece) -> None:
        header = piece.header
        origin = self.origins.at(piece.runs[0].upstream) if header.is_transactional else None
        if not self.is_busy:
            self._committed = piece.runs[0].upstream
        if origin in self.skips:
            return
        if header.is_transactional:
            self._half_copied.add(header.producer_id)
        ends = (*(run.downstream for run in piece.runs[1:]), header.record_count)
        runs = tuple(
            Written(run.upstream, run.downstream, end - run.downstream, origin or self.source)
            for run, end in zip(piece.runs, ends, strict=True)
        )
        is_whole = not self._half_copied
        self._newest = Outgoing(piece.batch, runs, header.record_count, header.max_timestamp, is_whole)
        self._waiting.append(self._newest)
        self._waiting_bytes += len(piece.batch)

    def _passed(self, skipped: Skipped) -> None:
        """A marker completes a transaction of the source."""
        self._half_copied.discard(skipped.marker_of)
        if self._newest is not None and not self._half_copied:
            self._newest.is_whole = True

    def _drop(self) -> None:
        self._in_flight = self._newest = None
        self._waiting.clear()
        self._waiting_bytes = 0
        self._appended.clear()
        self._appended_bytes = 0
        self._written.clear()
        self._half_copied.clear()
