"""A partition of an ordinary target: it appends batches as Kafka does for an idempotent producer, and as Isthmus does with AppendAfter."""

from collections.abc import Sequence
from typing import NamedTuple

from isthmus_mirror.core.sequenced import Tail
from isthmus_wire.errors import ErrorCode
from isthmus_wire.records import BatchHeader, header_at, next_sequence

from tests.sim.mirror.source import SimSource, values_of
from tests.sim.world import Violation, World

REMEMBERED = 5


class Stored(NamedTuple):
    """A batch in the log."""

    base: int
    header: BatchHeader
    values: list[bytes]

    @property
    def end(self) -> int:
        return self.base + len(self.values)


class Taken(NamedTuple):
    """A response without an error."""

    base_offset: int
    append_time: int


class SimTarget:
    """Every append is checked against the source: no duplicates, no reordering, no missing record that still exists."""

    def __init__(self, world: World, source: SimSource, *, compares_checksums: bool = True) -> None:
        """`compares_checksums` is false in a canary."""
        self._world = world
        self._source = source
        self._compares_checksums = compares_checksums
        self.log: list[Stored] = []
        self.committed = 0

    @property
    def end(self) -> int:
        """The log end offset."""
        return self.log[-1].end if self.log else 0

    def append(self, data: bytes) -> Taken | ErrorCode:
        """Append at the leader; committed later."""
        header = header_at(data)
        if self.log:
            for stored in self.log[-REMEMBERED:]:
                known = stored.header
                if (known.base_sequence, known.last_sequence) == (header.base_sequence, header.last_sequence):
                    return Taken(stored.base, known.max_timestamp)
            if header.base_sequence != next_sequence(self.log[-1].header.last_sequence, 1):
                return ErrorCode.out_of_order_sequence_number
        self._store(data)
        return Taken(self.log[-1].base, -1)

    def append_after(self, end: int, crc: int, sent: Sequence[bytes]) -> ErrorCode:
        """Append at the leader; committed later."""
        is_same = not self._compares_checksums or crc == (self.log[-1].header.crc if self.log else -1)
        if end != self.end or not is_same:
            return ErrorCode.offset_out_of_range
        for data in sent:
            self._store(data)
        return ErrorCode.none

    def _store(self, data: bytes) -> None:
        stored = Stored(self.end, header_at(data), values_of(memoryview(data)))
        self._check(stored)
        self.log.append(stored)

    def _check(self, stored: Stored) -> None:
        before = self._source.offsets[self.log[-1].values[-1]] if self.log else -1
        for value in stored.values:
            offset = self._source.offsets[value]
            if offset <= before:
                raise Violation(f"the source's record {offset} comes after {before}")
            left_out = [at for at in range(before + 1, offset) if at in self._source.alive]
            if left_out:
                raise Violation(f"the source's records {left_out} are left out before {offset}")
            before = offset

    def compact(self, below: int) -> None:
        """Rewrite a batch that ends before `below`, never the newest; this changes its checksum."""
        older = [index for index, stored in enumerate(self.log[:-1]) if stored.end <= below]
        if older:
            index = self._world.random.choice(older)
            stored = self.log[index]
            self.log[index] = stored._replace(header=stored.header._replace(crc=stored.header.crc ^ 1))

    def commit(self) -> None:
        """Commit all batches."""
        self.committed = self.end

    def elect(self) -> None:
        """Elect cleanly: uncommitted batches may be lost from the end."""
        while self.log and self.log[-1].base >= self.committed and self._world.chance(0.7):
            self.log.pop()

    def crc_at(self, offset: int) -> int | None:
        """The checksum of the committed batch that begins there."""
        matches = (s.header.crc for s in self.log if s.base == offset and s.end <= self.committed)
        return next(matches, None)

    def tail(self, end: int) -> Tail | None:
        """The tail of the batch that ends there."""
        matches = (s.header for s in self.log if s.end == end)
        header = next(matches, None)
        return None if header is None else Tail(header.producer_id, header.last_sequence, header.crc)

    @property
    def truth(self) -> list[int]:
        """The source's offset of each record."""
        return [self._source.offsets[value] for stored in self.log for value in stored.values]
