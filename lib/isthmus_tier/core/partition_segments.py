"""The segments of one partition, as the records of `__remote_log_metadata` describe them.

A segment is looked up by leader epoch and offset: after an unclean election, two segments may have the same offset, each with the record of
another leader. For each epoch there is a list of readable segments, in which both the starts and the ends rise: a segment that another one
covers entirely is left out of it. It stays in the store until retention removes it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from isthmus_tier.core.records import Update
from isthmus_tier.core.segments import RemoteSegment, State, is_legal


class _Part(NamedTuple):
    """The offsets of one leader epoch in a segment."""

    start: int
    end: int
    segment: UUID


class PartitionSegments:
    """What is known of one partition. A record that contradicts what is known is counted, and changes nothing."""

    def __init__(self) -> None:
        self._segments: dict[UUID, RemoteSegment] = {}
        self._readable: dict[int, list[_Part]] = {}
        self._covered: dict[int, set[_Part]] = {}
        """Parts of complete segments that are not in the lists."""
        self.contradictions = 0
        """Records that were ignored."""

    def __len__(self) -> int:
        return len(self._segments)

    def apply(self, record: RemoteSegment | Update) -> bool:
        """Take in the next record; returns whether it fits."""
        known = self._segments.get(record.id)
        is_known_or_described = known is not None or isinstance(record, RemoteSegment)
        if not is_known_or_described or not is_legal(None if known is None else known.state, record.state):
            self.contradictions += 1
            return False
        self._enter(record if isinstance(record, RemoteSegment) else _changed(self._segments[record.id], record))
        return True

    def all(self) -> list[RemoteSegment]:
        """Every segment that may have anything in the store, by start offset and then by age."""
        return sorted(self._segments.values(), key=lambda one: (one.start_offset, one.changed_ms, one.id))

    def readable(self) -> list[RemoteSegment]:
        """The segments whose copies are complete."""
        return [one for one in self.all() if one.state is State.COPY_FINISHED]

    def find(self, epoch: int, offset: int) -> RemoteSegment | None:
        """The segment that has the record of this leader epoch at `offset`."""
        parts = self._readable.get(epoch, [])
        number = bisect_right(parts, offset, key=lambda part: part.start) - 1
        if number < 0 or parts[number].end < offset:
            return None
        return self._segments[parts[number].segment]

    def _enter(self, segment: RemoteSegment) -> None:
        known = self._segments.get(segment.id)
        if known is not None and known.state is State.COPY_FINISHED and segment.state is not State.COPY_FINISHED:
            self._hide(known)
        if segment.state is State.DELETE_FINISHED:
            self._segments.pop(segment.id, None)
            return
        self._segments[segment.id] = segment
        if segment.state is State.COPY_FINISHED and (known is None or known.state is not State.COPY_FINISHED):
            self._show(segment)

    def _show(self, segment: RemoteSegment) -> None:
        for epoch, part in _parts(segment):
            self._insert(epoch, part)

    def _hide(self, segment: RemoteSegment) -> None:
        """Remove it from the lists. What only it covered returns to them."""
        for epoch, part in _parts(segment):
            covered = self._covered.get(epoch, set())
            if part in covered:
                covered.remove(part)
                continue
            self._readable[epoch].remove(part)
            for other in sorted(one for one in covered if part.start <= one.start and one.end <= part.end):
                covered.remove(other)
                self._insert(epoch, other)
            if not self._readable[epoch]:
                del self._readable[epoch]

    def _insert(self, epoch: int, new: _Part) -> None:
        """Replace the parts that it covers. It is left out if another part covers it."""
        parts, covered = self._readable.setdefault(epoch, []), self._covered.setdefault(epoch, set())
        at = bisect_left(parts, new.start, key=lambda part: part.start)
        is_behind = at > 0 and parts[at - 1].end >= new.end
        if is_behind or (at < len(parts) and parts[at].start == new.start and parts[at].end > new.end):
            covered.add(new)
            return
        until = at
        while until < len(parts) and parts[until].end <= new.end:
            until += 1
        covered.update(parts[at:until])
        parts[at:until] = [new]


def _parts(segment: RemoteSegment) -> Iterable[tuple[int, _Part]]:
    """The offsets of each epoch; those of an epoch end where the next begins."""
    ends = [start - 1 for _, start in segment.epochs[1:]] + [segment.end_offset]
    for (epoch, start), end in zip(segment.epochs, ends, strict=True):
        if start <= end:
            yield epoch, _Part(start, end, segment.id)


def _changed(segment: RemoteSegment, update: Update) -> RemoteSegment:
    return replace(
        segment,
        broker_id=update.broker_id,
        changed_ms=update.changed_ms,
        state=update.state,
        custom=segment.custom if update.custom is None else update.custom,
    )
