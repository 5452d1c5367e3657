"""A partition of a destination: a leader with followers, each a possible next leader; and the invariants of every append."""

from isthmus_linker.core.partition import Append, EndOfLog
from isthmus_wire.errors import ErrorCode
from isthmus_wire.records import batches

from tests.sim.linker.source import Batch, SimSource
from tests.sim.world import Violation, World


class SimDestination:
    """Appends are checked as in the destination, unless a planted defect accepts everything that fits at the end and reports it as
    committed: while copies wait for commits, a wrong end is rarely visible."""

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
        """The log end that the leader reports."""
        return EndOfLog(self.end, self.log[-1].epoch if self.log else -1)

    @property
    def progress(self) -> tuple[EndOfLog, int]:
        """The log end and the high watermark."""
        return self.ends, self.committed if self._checks_expected_end else self.end

    def append(self, request: Append) -> ErrorCode:
        """Append at the leader; committed later."""
        records = bytes(request.chunk.records) if request.chunk is not None else b""
        begins = request.start_offset > self.end == 0
        if self._checks_expected_end and (records or begins) and request.expected_end != self.end:
            return ErrorCode.offset_out_of_range
        appended = [self._source.written[records[p : p + h.size]] for p, h in batches(records)]
        if request.source_epoch > self.leader_epoch or any(batch.epoch > self.leader_epoch for batch in appended):
            return ErrorCode.fenced_leader_epoch
        if begins:
            self.end = self.committed = request.start_offset
        if appended and appended[0].base < self.end:
            return ErrorCode.offset_out_of_range
        for batch in appended:
            self._check(batch)
            self.log.append(batch)
            self.end = batch.last + 1
            self.appends += 1
        return ErrorCode.none

    def _check(self, batch: Batch) -> None:
        """Check the order: a batch follows its predecessor at the source, unless the batches between were removed."""
        last = self.log[-1] if self.log else None
        before = batch.before
        while before is not None and (last is None or before.base > last.base):
            if before not in self._source.removed and self._is_owed(before):
                raise Violation(f"the batch at {before.base} is missing before the one at {batch.base}")
            before = before.before
        # If retention removed all batches between, a loss at the source cannot be detected.
        if last is not None and before is not last and last.last >= self._source.leader.start:
            raise Violation(
                f"the batch at {batch.base} follows one at {last.base} that it never followed at the source"
            )

    def _is_owed(self, batch: Batch) -> bool:
        """A copy may begin late; batches before its start need not be copied."""
        return bool(self.log) or batch.base >= self.end

    def commit(self) -> None:
        """Commit all batches."""
        self.committed = self.end

    def elect(self) -> None:
        """Elect cleanly: uncommitted batches may be lost from the end."""
        while self.log and self.log[-1].base >= self.committed and self._world.chance(0.7):
            gone = self.log.pop()
            self.end = max(self.log[-1].last + 1 if self.log else 0, self.committed)
            assert gone.last >= self.end
        self.leader_epoch += 1
        self.elections += 1

    def raise_epoch(self, floor: int) -> None:
        """Raise the leader epoch, as the controller does."""
        self.leader_epoch = max(self.leader_epoch, floor)
