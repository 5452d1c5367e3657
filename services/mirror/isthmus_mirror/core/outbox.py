"""Outgoing batches of one partition: which wait, which are in flight, and which may be sent next.

To an ordinary broker one batch at a time is in flight, so that no batch depends on a response that is not understood yet. Small waiting
batches are merged. A broker with AppendAfter (`isthmus_client.append_after`) gets several batches at once, and more before their responses:
each is appended only if the copy ends with the very batch that the request expects.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Final

from isthmus_wire.errors import CorruptBatch

from isthmus_mirror.core.batch_merging import join, joinable
from isthmus_mirror.core.limits import JOIN_LEAST, STRETCH_BYTES_MAX, STRETCHES_MAX
from isthmus_mirror.core.progress import Jump

_NO_BYTES: Final = memoryview(b"")


@dataclass(slots=True, eq=False)
class Outgoing:
    """An outgoing batch for the copy's offsets `base` to `base + count`."""

    data: memoryview
    base: int
    count: int
    crc: int
    first: int
    """The source offset of its first record."""
    next: int
    """The source offset after its last record."""
    max_timestamp: int
    jump: Jump | None
    is_recorded: bool
    """Whether its jump is durable or not needed."""
    size: int

    def release(self) -> None:
        """Release the bytes."""
        self.data = _NO_BYTES


@dataclass(slots=True, eq=False)
class Stretch:
    """Batches that are sent together, and the checksum of the copy's batch before them; -1 if there is none."""

    batches: tuple[Outgoing, ...]
    after_crc: int
    is_chained: bool
    """Whether the broker compares that checksum. If not, this is one batch."""
    has_landed: bool = False

    @property
    def base(self) -> int:
        """The copy's log end offset before them."""
        return self.batches[0].base

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return sum(out.size for out in self.batches)

    @property
    def newest_timestamp(self) -> int:
        """The greatest timestamp of the last batch."""
        return self.batches[-1].max_timestamp


class Outbox:
    """A queue of outgoing batches, first in, first out."""

    def __init__(self) -> None:
        self.buffered_bytes = 0
        """Bytes in it."""
        self.joins = True
        """Whether batches may be merged."""
        self._batches: deque[Outgoing] = deque()
        self._under_way: deque[Stretch] = deque()
        self._sent = 0  # number of batches from the front that are in flight
        self._unrecorded: deque[Outgoing] = deque()  # batches whose jumps are not durable, in order

    def __bool__(self) -> bool:
        return bool(self._batches)

    @property
    def first(self) -> Outgoing | None:
        """The first batch."""
        return self._batches[0] if self._batches else None

    @property
    def newest(self) -> Outgoing | None:
        """The newest batch."""
        return self._batches[-1] if self._batches else None

    def put(self, out: Outgoing) -> None:
        """Add a batch that continues where the newest ends."""
        self._batches.append(out)
        self.buffered_bytes += out.size
        if not out.is_recorded:
            self._unrecorded.append(out)

    def jumps_to_record(self) -> list[Jump]:
        """Jumps that must be durable before their batches are sent."""
        return [out.jump for out in self._unrecorded if out.jump is not None]

    def recorded(self, jumps: Iterable[Jump]) -> None:
        """Record that these jumps are durable."""
        done = set(jumps)
        while self._unrecorded and self._unrecorded[0].jump in done:
            self._unrecorded.popleft().is_recorded = True

    def next(self, end_crc: int, *, chained: bool) -> Stretch | None:
        """The next request to a broker of that kind; in flight until it lands or everything is dropped."""
        most = STRETCHES_MAX if chained and all(stretch.is_chained for stretch in self._under_way) else 1
        if len(self._under_way) >= most or self._sent == len(self._batches):
            return None
        if not chained and self.joins:
            self._join_front()
        batches = self._ready(STRETCH_BYTES_MAX if chained else 0)
        if not batches:
            return None
        after_crc = self._batches[self._sent - 1].crc if self._sent else end_crc
        stretch = Stretch(batches, after_crc, chained)
        self._under_way.append(stretch)
        self._sent += len(batches)
        return stretch

    def _join_front(self) -> None:
        """Merge the waiting batches at the front, if there are several small ones; none is in flight."""
        few = joinable(takewhile(lambda out: out.jump is None, self._batches))
        if len(few) < JOIN_LEAST:
            return
        try:
            joined = join([out.data for out in few])
        except CorruptBatch:  # the source accepted unreadable records; the copy gets them unchanged
            self.joins = False
            return
        for out in few:
            self._batches.popleft()
            self.buffered_bytes -= out.size
            out.release()
        self.buffered_bytes += len(joined.data)
        first, count = few[0], sum(out.count for out in few)
        self._batches.appendleft(
            Outgoing(
                joined.data, first.base, count, joined.crc, first.first, few[-1].next,
                joined.max_timestamp, None, True, len(joined.data),
            )
        )  # fmt: skip

    def _ready(self, most: int) -> tuple[Outgoing, ...]:
        """Waiting batches that are ready, up to this many bytes but at least one."""
        ready: list[Outgoing] = []
        size = 0
        for out in islice(self._batches, self._sent, None):
            size += out.size
            if not out.is_recorded or (ready and size > most):
                break
            ready.append(out)
        return tuple(ready)

    @property
    def is_waiting(self) -> bool:
        """Whether anything is in flight."""
        return bool(self._under_way)

    def is_under_way(self, sent: Stretch) -> bool:
        """Whether this request is in flight and not given up since."""
        return any(stretch is sent for stretch in self._under_way)

    def landed(self, sent: Stretch) -> Iterator[Outgoing]:
        """Record that a stretch was appended; yields released batches in order: a stretch counts when all before it have landed."""
        sent.has_landed = True
        while self._under_way and self._under_way[0].has_landed:
            stretch = self._under_way.popleft()
            self._sent -= len(stretch.batches)
            for out in stretch.batches:
                assert self._batches.popleft() is out
                self.buffered_bytes -= out.size
                out.release()
                yield out

    def drop(self) -> None:
        """Drop all batches, in flight or not."""
        for out in self._batches:
            out.release()
        self._batches.clear()
        self._under_way.clear()
        self._unrecorded.clear()
        self._sent = self.buffered_bytes = 0
