"""A partition of a source: it grows, elects leaders, applies retention and compaction, and in some lives loses committed records."""

from dataclasses import dataclass, field

from isthmus_linker.core.partition import FetchAt, FetchResult, SourceRange
from isthmus_wire.errors import ErrorCode
from isthmus_wire.records import NewRecord, build_batch

from tests.sim.world import World


@dataclass(frozen=True, eq=False)
class Batch:
    """A written batch and its predecessor; a copy must have the same chain."""

    base: int
    last: int
    epoch: int
    data: bytes
    before: "Batch | None"


@dataclass(eq=False)
class Leader:
    """The state of one leader; a deposed one keeps its own."""

    epoch: int
    log: list[Batch] = field(default_factory=list)
    end: int = 0
    start: int = 0
    committed: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=list)
    newest: "Batch | None" = None
    """The last appended batch, even after retention removed it."""

    def end_of_epoch(self, epoch: int) -> tuple[int, int] | None:
        """The end of that epoch or the nearest earlier one; None for an unknown epoch."""
        if epoch > self.epochs[-1][0]:
            return None
        known = [(e, start) for e, start in self.epochs if e <= epoch]
        if not known:
            return epoch, self.epochs[0][1]
        after = [start for e, start in self.epochs if e > epoch]
        return known[-1][0], after[0] if after else self.end

    def fetch(self, at: FetchAt, max_bytes: int) -> FetchResult | ErrorCode:
        """Respond as a broker; the last batch may be incomplete, the first is always whole."""
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
    """`leader` is the current leader, `deposed` the previous one, which may not know it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.leader = Leader(0, epochs=[(0, 0)])
        self.deposed: Leader | None = None
        self.written: dict[bytes, Batch] = {}
        self.removed: set[Batch] = set()
        self.lost_committed = False
        self._values = 0

    def produce(self) -> None:
        """Append a batch, committed now or later."""
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
        """Commit all batches."""
        self.leader.committed = self.leader.end

    def elect(self) -> None:
        """Elect cleanly: uncommitted batches may be lost."""
        old = self.leader
        keep = old.end if self._world.chance(0.5) else old.committed
        self._lead(old, keep)

    def elect_uncleanly(self) -> None:
        """Elect a leader that is missing committed records."""
        old = self.leader
        bases = [batch.base for batch in old.log if batch.base < old.committed]
        if bases:
            self.lost_committed = True
            keep = self._world.random.choice(bases)
            # After the last remaining batch: a copy would wait for a gap at the end until the next record.
            self._lead(old, max((batch.last + 1 for batch in old.log if batch.last < keep), default=old.start))

    def _lead(self, old: Leader, keep: int) -> None:
        self.deposed = old
        epoch = old.epoch + self._world.random.randrange(1, 6)
        log = [batch for batch in old.log if batch.last < keep]
        # A log keeps its end after its last batches were compacted.
        epochs = [(e, start) for e, start in old.epochs if start < keep or start == old.start]
        epochs = [(e, start) for e, start in epochs if e < epoch]
        newest = old.newest
        while newest is not None and newest.last >= keep:
            newest = newest.before
        self.leader = Leader(epoch, log, keep, old.start, min(old.committed, keep), [*epochs, (epoch, keep)], newest)

    def retain(self) -> None:
        """Remove batches from the front."""
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
        """Remove any batch except the newest committed one."""
        leader = self.leader
        committed = [batch for batch in leader.log if batch.last < leader.committed]
        if len(committed) > 1:
            gone = self._world.random.choice(committed[:-1])
            self.removed.add(gone)
            leader.log.remove(gone)

    def fetch(self, at: FetchAt, current_epoch: int, max_bytes: int) -> FetchResult | ErrorCode:
        """Fetch from the worker's current leader."""
        if current_epoch == self.leader.epoch:
            return self.leader.fetch(at, max_bytes)
        if self.deposed is not None and current_epoch == self.deposed.epoch:
            return self.deposed.fetch(at, max_bytes)
        return ErrorCode.fenced_leader_epoch

    def range(self, current_epoch: int) -> SourceRange | ErrorCode:
        """The range; a new copy begins at the log start."""
        for leader in (self.leader, self.deposed):
            if leader is not None and leader.epoch == current_epoch:
                return SourceRange(leader.start, leader.start, leader.epoch)
        return ErrorCode.fenced_leader_epoch
