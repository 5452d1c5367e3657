"""A partition of a destination: a leader with followers behind it, of whom any may lead next; and what must hold of every append."""

from isthmus_linker.core.partition import Append, EndOfLog
from isthmus_wire.errors import ErrorCode
from isthmus_wire.records import batches

from tests.sim.linker.source import Batch, SimSource
from tests.sim.world import Violation, World


class SimDestination:
    """Appends are checked as the destination checks them, unless the planted defect lets everything in that fits behind the end, and says
    that all of it is committed: where a copy waits for that, there is seldom a wrong end to be seen."""

    def __init__(self, world: World, source: SimSource, *, checks_expected_end: bool) -> None:
        self._world = world
        self._source = source
        self._checks_expected_end = checks_expected_end
        self.log: list[Batch] = []
        self.end = 0
        self.committed = 0
        self.leader_epoch = 0
        self.elections = 0
        self.appends = 0

    @property
    def ends(self) -> EndOfLog:
        """As its leader tells it."""
        return EndOfLog(self.end, self.log[-1].epoch if self.log else -1)

    @property
    def progress(self) -> tuple[EndOfLog, int]:
        """With how far every in-sync replica is."""
        return self.ends, self.committed if self._checks_expected_end else self.end

    def append(self, asked: Append) -> ErrorCode:
        """At the leader; committed later."""
        records = bytes(asked.chunk.records) if asked.chunk is not None else b""
        begins = asked.start_offset > self.end == 0
        if self._checks_expected_end and (records or begins) and asked.expected_end != self.end:
            return ErrorCode.offset_out_of_range
        found = [self._source.written[records[p : p + h.size]] for p, h in batches(records)]
        if asked.source_epoch > self.leader_epoch or any(batch.epoch > self.leader_epoch for batch in found):
            return ErrorCode.fenced_leader_epoch
        if begins:
            self.end = self.committed = asked.start_offset
        if found and found[0].base < self.end:
            return ErrorCode.offset_out_of_range
        for batch in found:
            self._check(batch)
            self.log.append(batch)
            self.end = batch.last + 1
            self.appends += 1
        return ErrorCode.none

    def _check(self, batch: Batch) -> None:
        """Batch for batch what the source had: before this one comes the one that came before it there, or one whose followers are gone."""
        known = self.log[-1] if self.log else None
        before = batch.before
        while before is not None and (known is None or before.base > known.base):
            if before not in self._source.removed and self._is_owed(before):
                raise Violation(f"the batch at {before.base} is missing before the one at {batch.base}")
            before = before.before
        # Where retention took all that lay between, the source cannot tell any more that it had lost what was copied.
        if known is not None and before is not known and known.last >= self._source.leader.start:
            raise Violation(
                f"the batch at {batch.base} follows one at {known.base} that it never followed at the source"
            )

    def _is_owed(self, batch: Batch) -> bool:
        """A copy may begin late, and then nothing before its beginning is owed."""
        return bool(self.log) or batch.base >= self.end

    def commit(self) -> None:
        """Every in-sync replica has it."""
        self.committed = self.end

    def elect(self) -> None:
        """A clean election: what was not committed may go, batch by batch from the end."""
        while self.log and self.log[-1].base >= self.committed and self._world.chance(0.7):
            gone = self.log.pop()
            self.end = max(self.log[-1].last + 1 if self.log else 0, self.committed)
            assert gone.last >= self.end
        self.leader_epoch += 1
        self.elections += 1

    def raise_epoch(self, floor: int) -> None:
        """As the controller does it."""
        self.leader_epoch = max(self.leader_epoch, floor)
