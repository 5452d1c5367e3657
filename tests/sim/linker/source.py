"""A partition of a source: it grows, elects leaders, forgets by retention and compaction, and in some lives loses committed records."""

from dataclasses import dataclass, field

from isthmus_linker.core.partition import FetchAt, FetchResult, SourceRange
from isthmus_wire.errors import ErrorCode
from isthmus_wire.records import NewRecord, build_batch

from tests.sim.world import World


@dataclass(frozen=True, eq=False)
class Batch:
    """A batch that was written, and the one before it: that chain is what a copy must follow."""

    base: int
    last: int
    epoch: int
    data: bytes
    before: "Batch | None"


@dataclass(eq=False)
class Leader:
    """What one leader of the partition can tell; a deposed one keeps what it had."""

    epoch: int
    log: list[Batch] = field(default_factory=list)
    end: int = 0
    start: int = 0
    committed: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=list)
    newest: "Batch | None" = None
    """What was appended last, also where retention took it."""

    def end_of_epoch(self, epoch: int) -> tuple[int, int] | None:
        """Where the log of that epoch or the nearest earlier one ends; None for an epoch this leader does not know of."""
        if epoch > self.epochs[-1][0]:
            return None
        known = [(e, start) for e, start in self.epochs if e <= epoch]
        if not known:
            return epoch, self.epochs[0][1]
        after = [start for e, start in self.epochs if e > epoch]
        return known[-1][0], after[0] if after else self.end

    def fetch(self, at: FetchAt, max_bytes: int) -> FetchResult | ErrorCode:
        """As a broker answers; the last batch may be torn, and the first is always whole."""
        if not self.start <= at.offset <= self.end:
            return ErrorCode.offset_out_of_range
        if at.last_epoch >= 0:
            ends = self.end_of_epoch(at.last_epoch)
            if ends is None:
                return ErrorCode.offset_out_of_range
            if ends[0] < at.last_epoch or ends[1] < at.offset:
                return FetchResult(memoryview(b""), self.committed, self.epoch, ends)
        data = b"".join(batch.data for batch in self.log if at.offset <= batch.last < self.committed)
        first = next((len(b.data) for b in self.log if at.offset <= b.last < self.committed), 0)
        return FetchResult(memoryview(data[: max(max_bytes, first)]), self.committed, self.epoch)


class SimSource:
    """`leader` is the one that leads now, `deposed` the one before it, which may not know."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.leader = Leader(0, epochs=[(0, 0)])
        self.deposed: Leader | None = None
        self.written: dict[bytes, Batch] = {}
        self.removed: set[Batch] = set()
        self.lost_committed = False
        self._values = 0

    def produce(self) -> None:
        """One more batch, committed now or later."""
        leader = self.leader
        count = self._world.random.randrange(1, 4)
        records = []
        for _ in range(count):
            self._values += 1
            records.append(NewRecord(None, b"%d" % self._values, 1))
        data = build_batch(records, base_offset=leader.end, leader_epoch=leader.epoch)
        batch = Batch(leader.end, leader.end + count - 1, leader.epoch, data, leader.newest)
        leader.log.append(batch)
        leader.newest = batch
        leader.end = batch.last + 1
        self.written[data] = batch
        if self._world.chance(0.7):
            leader.committed = leader.end

    def commit(self) -> None:
        """Everything written is committed."""
        self.leader.committed = self.leader.end

    def elect(self) -> None:
        """A clean election: what was not committed may go."""
        old = self.leader
        keep = old.end if self._world.chance(0.5) else old.committed
        self._lead(old, keep)

    def elect_uncleanly(self) -> None:
        """Somebody leads who lacks committed records."""
        old = self.leader
        bases = [batch.base for batch in old.log if batch.base < old.committed]
        if bases:
            self.lost_committed = True
            keep = self._world.random.choice(bases)
            # Behind the last batch that is left: a log that ends in a hole would be waited for until somebody writes.
            self._lead(old, max((batch.last + 1 for batch in old.log if batch.last < keep), default=old.start))

    def _lead(self, old: Leader, keep: int) -> None:
        self.deposed = old
        epoch = old.epoch + self._world.random.randrange(1, 6)
        log = [batch for batch in old.log if batch.last < keep]
        # A log whose tail was compacted away still ends where it ended.
        epochs = [(e, start) for e, start in old.epochs if start < keep or start == old.start]
        epochs = [(e, start) for e, start in epochs if e < epoch]
        newest = old.newest
        while newest is not None and newest.last >= keep:
            newest = newest.before
        self.leader = Leader(epoch, log, keep, old.start, min(old.committed, keep), [*epochs, (epoch, keep)], newest)

    def retain(self) -> None:
        """Retention takes batches from the front."""
        leader = self.leader
        batches = [batch for batch in leader.log if batch.last < leader.committed]
        if not batches:
            return
        until = self._world.random.choice(batches).last + 1
        self.removed.update(batch for batch in leader.log if batch.last < until)
        leader.log = [batch for batch in leader.log if batch.last >= until]
        leader.start = until
        later = [(e, start) for e, start in leader.epochs if start > until]
        floor = [e for e, start in leader.epochs if start <= until]
        leader.epochs = [(floor[-1], until), *later] if floor else later

    def compact(self) -> None:
        """Compaction takes a batch from anywhere but the end: what makes a record old is a newer one that is committed as well."""
        leader = self.leader
        committed = [batch for batch in leader.log if batch.last < leader.committed]
        if len(committed) > 1:
            gone = self._world.random.choice(committed[:-1])
            self.removed.add(gone)
            leader.log.remove(gone)

    def fetch(self, at: FetchAt, known_epoch: int, max_bytes: int) -> FetchResult | ErrorCode:
        """Asked of whom the worker takes for the leader."""
        if known_epoch == self.leader.epoch:
            return self.leader.fetch(at, max_bytes)
        if self.deposed is not None and known_epoch == self.deposed.epoch:
            return self.deposed.fetch(at, max_bytes)
        return ErrorCode.fenced_leader_epoch

    def range(self, known_epoch: int) -> SourceRange | ErrorCode:
        """Where the log begins; a new copy begins there."""
        for leader in (self.leader, self.deposed):
            if leader is not None and leader.epoch == known_epoch:
                return SourceRange(leader.start, leader.start, leader.epoch)
        return ErrorCode.fenced_leader_epoch
