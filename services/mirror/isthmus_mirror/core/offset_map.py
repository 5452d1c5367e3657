"""The exact map between the offsets of a source's partition and those of its copy.

The copy is a sequence of runs: within a run, offsets on both sides advance together; between runs the source has offsets that are not
copied (compaction, control records, aborted transactions, retention), and a copy with other writers has records and markers that are not
the source's. A run is described by its first offset on each side, and ends where the next begins, or after a given number of records. Both
offsets increase from run to run.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

_OPEN: Final = -1


class Run(NamedTuple):
    """The first offsets of a run on both sides."""

    upstream: int
    downstream: int


class OffsetMap:
    """The map of one partition. Offsets from `end` on are not in the copy; neither are those before the first run, unless `is_partial`."""

    def __init__(self, runs: Iterable[Run] = (), end: int = 0, *, is_partial: bool = False) -> None:
        """A partial map is of a copy that had other records before: earlier offsets may be anywhere among them."""
        self._up = array("q")
        self._down = array("q")
        self._stop = array(
            "q"
        )  # the copy's offset after the run; open for the last run of a copy without other writers
        self.end = end
        self._is_partial = is_partial
        for run in runs:
            self.begin(run)

    def __len__(self) -> int:
        return len(self._up)

    def begin(self, run: Run) -> None:
        """Begin a run, which ends where the next begins."""
        assert not self._up or (run.upstream > self._up[-1] and run.downstream > self._down[-1])
        if self._stop and self._stop[-1] == _OPEN:
            self._stop[-1] = run.downstream
        self._up.append(run.upstream)
        self._down.append(run.downstream)
        self._stop.append(_OPEN)
        self.end = max(self.end, run.downstream)

    def add(self, run: Run, count: int) -> None:
        """Add a run of this many records."""
        if self._up and self._stop[-1] == run.downstream and self.next_upstream == run.upstream:
            self._stop[-1] = self.end = run.downstream + count
            return
        self.begin(run)
        self._stop[-1] = self.end = run.downstream + count

    def _stop_of(self, index: int) -> int:
        return self.end if self._stop[index] == _OPEN else self._stop[index]

    @property
    def next_upstream(self) -> int:
        """The source offset after the last copied one."""
        return self._up[-1] + self._stop_of(-1) - self._down[-1] if self._up else 0

    def to_downstream(self, upstream: int) -> int:
        """The copy's offset of the source's first record at or after this offset; the copy's end if it is not copied yet.

        0 for an offset before a partial map.
        """
        at = bisect_right(self._up, upstream) - 1
        if at >= 0:
            offset = self._down[at] + upstream - self._up[at]
            if offset < self._stop_of(at):
                return offset
        elif self._is_partial:
            return 0
        return self._down[at + 1] if at + 1 < len(self._down) else self.end

    def to_upstream(self, downstream: int) -> int | None:
        """The source offset of this offset of the copy; for its end, the one after its last. None outside of the map."""
        is_inside = bool(self._down) and self._down[0] <= downstream <= self.end
        return self.first_upstream(downstream) if is_inside else None

    def first_upstream(self, downstream: int) -> int:
        """The source offset of the copy's first record at or after this offset; the one after the last copied if there is none."""
        at = bisect_right(self._down, downstream) - 1
        if at >= 0 and downstream < self._stop_of(at):
            return self._up[at] + downstream - self._down[at]
        return self._up[at + 1] if at + 1 < len(self._up) else self.next_upstream
