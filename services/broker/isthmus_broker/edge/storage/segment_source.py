"""The sources from which a fetch reads records: local segments, or a slower source such as a remote tier."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from isthmus_broker.core.log.producer_state import AbortedTransaction
from isthmus_broker.core.replica.log_view import ReplicaLog
from isthmus_broker.edge.storage.segment import Placed


class RangeReader(Protocol):
    """A segment, or another source of a segment's bytes."""

    def read(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes at `position`."""
        ...


class Slice(NamedTuple):
    """The result of a read: a range of a segment that begins with the batch of the requested offset."""

    segment: RangeReader
    first: Placed | None
    size: int

    @property
    def position(self) -> int:
        """The position in the segment."""
        return 0 if self.first is None else self.first.position

    def records(self) -> bytes:
        """Read the bytes of the range."""
        return self.segment.read(self.position, self.size)


class PendingRead(Protocol):
    """A read that is not complete yet. The fetch watches it, and reads again when woken."""

    def watch(self, wake: Callable[[], None], *, appends_too: bool) -> None:
        """Call `wake` when the bytes are available, or the read has failed."""
        ...

    def unwatch(self, wake: Callable[[], None]) -> None:
        """Stop calling `wake`."""
        ...


class SegmentSource(ReplicaLog, Protocol):
    """A log that a fetch can read."""

    def read(self, offset: int, max_bytes: int, upper: int, *, at_least_one: bool) -> Slice | PendingRead:
        """Read batches from the one that contains `offset`, ending before `upper`, now or later."""
        ...

    def aborted_in(self, first_offset: int, read: Slice) -> Sequence[AbortedTransaction]:
        """The aborted transactions that a `read_committed` consumer of that read must know."""
        ...
