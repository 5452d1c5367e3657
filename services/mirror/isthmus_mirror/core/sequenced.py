"""The copy of one partition that only mirrors write: what to append, and how to handle responses.

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
from typing import Final, NamedTuple

from isthmus_model.clocks import MonotonicMs

from isthmus_mirror.core.batches import Piece, addressed, sequence_of
from isthmus_mirror.core.limits import APPEND_OVERDUE_MS
from isthmus_mirror.core.offset_map import OffsetMap, Run
from isthmus_mirror.core.outbox import Outbox, Outgoing, Stretch
from isthmus_mirror.core.partition import NO_TIME, UNKNOWN, PartitionCopy, Stage
from isthmus_mirror.core.progress import Jump, Mark

_NO_BATCH: Final = -1


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


@dataclass(slots=True, eq=False, kw_only=True)
class SequencedCopy(PartitionCopy):
    """A copy under one producer id, with the copy's own offsets as sequences."""

    producer_id: int
    _landed: list[Jump] = field(
        default_factory=list
    )  # jumps whose batches were appended, and that are not yet recorded as certain
    _outbox: Outbox = field(default_factory=Outbox)
    _checking: Stretch | None = None
    _waits_ms: int = 0  # since when a response of the target is pending, if one is
    _end_crc: int = _NO_BATCH  # of the copy's last batch

    # -- what to do ----------------------------------------------------------------------------------------------------------

    @property
    def buffered_bytes(self) -> int:
        """Bytes fetched and not yet appended."""
        return self._outbox.buffered_bytes

    @property
    def newest_timestamp(self) -> int:
        """The greatest timestamp of the newest fetched batch."""
        newest = self._outbox.newest
        return NO_TIME if newest is None else newest.max_timestamp

    @property
    def is_busy(self) -> bool:
        """Whether anything fetched is not appended yet."""
        return bool(self._outbox)

    @property
    def reached(self) -> int:
        """The source offset up to which the copy has all records that can be copied."""
        if self._outbox.first is not None:
            return self._outbox.first.first
        return self._position if self._position != UNKNOWN else self.map.next_upstream

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
        elif base_offset < 0 or append_time != NO_TIME:
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

    def _drop(self) -> None:
        self._checking = None
        self._outbox.drop()
