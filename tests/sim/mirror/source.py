"""A partition of a source: it grows, is compacted within and between batches, has markers, and applies retention."""

from isthmus_mirror.core.partition import FetchResult, SourceRange
from isthmus_wire.errors import ErrorCode
from isthmus_wire.records import (
    NewRecord,
    batches,
    build_batch,
    build_control_batch,
    header_at,
    iterate_records,
    rebuild_batch,
    records_to_keep,
)

from tests.sim.world import World


class SimSource:
    """Every record has a unique value, which identifies it in the copy."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.log: list[bytes] = []
        self.end = 0
        self.start = 0
        self.offsets: dict[bytes, int] = {}
        """Offsets of all records ever written, by value."""
        self.alive: dict[int, bytes] = {}
        """Values of the current records, by offset."""

    def produce(self) -> None:
        """Append a batch of records, or a marker."""
        random = self._world.random
        if random.random() < 0.15:
            self._add(
                build_control_batch(1, bytes(6), timestamp=1, base_offset=self.end, leader_epoch=0, producer_id=7)
            )
            return
        count = random.randrange(1, 4)
        timestamp = -1 if random.random() < 0.1 else self._world.now + 1
        values = [b"%d" % (len(self.offsets) + number) for number in range(count)]
        for number, value in enumerate(values):
            self.offsets[value] = self.end + number
            self.alive[self.end + number] = value
        records = [NewRecord(b"k", value, timestamp) for value in values]
        self._add(build_batch(records, base_offset=self.end, leader_epoch=0))

    def _add(self, batch: bytes) -> None:
        self.log.append(batch)
        self.end = header_at(batch).last_offset + 1

    def compact(self) -> None:
        """Remove a record, with its batch if it was the last one; never from the newest batch."""
        older = [offset for offset in self.alive if offset < header_at(self.log[-1]).base_offset] if self.log else []
        if not older:
            return
        gone = self._world.random.choice(older)
        del self.alive[gone]
        for index, batch in enumerate(self.log):
            header = header_at(batch)
            if header.base_offset <= gone <= header.last_offset:
                kept = [record for record in records_to_keep(batch) if record.offset != gone]
                self.log[index : index + 1] = [rebuild_batch(header, kept, None)] if kept else []
                return

    def retain(self) -> None:
        """Remove batches from the front."""
        if self.log:
            until = header_at(self._world.random.choice(self.log)).last_offset + 1
            self.log = [batch for batch in self.log if header_at(batch).last_offset >= until]
            self.alive = {offset: value for offset, value in self.alive.items() if offset >= until}
            self.start = max(self.start, until)

    def fetch(self, offset: int, max_bytes: int) -> FetchResult | ErrorCode:
        """Respond as a broker: the last batch may be incomplete, the first is whole."""
        if not self.start <= offset <= self.end:
            return ErrorCode.offset_out_of_range
        fetched = [batch for batch in self.log if header_at(batch).last_offset >= offset]
        data = b"".join(fetched)[: max(max_bytes, len(fetched[0]))] if fetched else b""
        return FetchResult(memoryview(data), self.end, self._world.now + 1)

    def range(self) -> SourceRange:
        """A new copy begins at the log's start."""
        return SourceRange(self.start, self.start, self.end)


def values_of(data: memoryview) -> list[bytes]:
    """The values of a batch's records."""
    return [record.value or b"" for at, _ in batches(data) for record in iterate_records(data, at)]
