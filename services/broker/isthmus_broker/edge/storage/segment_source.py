"""Where a fetch reads a log's records from: local segments, which respond at once, or a source that takes its time, such as a tier."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from isthmus_broker.core.log.producer_state import AbortedTransaction
from isthmus_broker.core.replica.log_view import ReplicaLog
from isthmus_broker.edge.storage.segment import Placed


class RangeReader(Protocol):
    """A segment, or whatever has the bytes of one."""

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position` on."""
        ...


class Slice(NamedTuple):
    """What a read found: a stretch of a segment that begins with the batch of the wanted offset."""

    segment: RangeReader
    first: Placed | None
    size: int

    @property
    def position(self) -> int:
        """Where it begins in the segment."""
        return 0 if self.first is None else self.first.position

    def records(self) -> bytes:
        """Its bytes, read now."""
        return self.segment.read(self.position, self.size)


class PendingRead(Protocol):
    """Bytes that are being fetched. The fetch that watches is woken when they are there, and then reads again."""

    def watch(self, wake: Callable[[], None], *, appends_too: bool) -> None:
        """Call `wake` when the bytes are there, or cannot be had."""
        ...

    def unwatch(self, wake: Callable[[], None]) -> None:
        """Stop calling it."""
        ...


class SegmentSource(ReplicaLog, Protocol):
    """A log as a fetch reads it."""

    def read(self, offset: int, max_bytes: int, upper: int, *, at_least_one: bool) -> Slice | PendingRead:
        """Batches from the one that has `offset` on, ending before `upper`; at once, or later."""
        ...

    def aborted_between(self, first_offset: int, upper: int) -> Sequence[AbortedTransaction]:
        """Aborted transactions with records in the range."""
        ...
