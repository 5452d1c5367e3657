"""The exact map between the offsets of a source's partition and those of its copy.

The copy is a sequence of runs: within a run, offsets on both sides advance together; between runs the source has offsets that are not
copied (compaction, control records, aborted transactions, retention). A run is described by its first offset on each side, and ends where
the next begins. Both offsets increase from run to run.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple


class Run(NamedTuple):
    """The first offsets of a run on both sides."""

    upstream: int
    downstream: int


class OffsetMap:
    """The map of one partition. Offsets before the first run, and from `end` on, are not in the copy."""

    def __init__(self, runs: Iterable[Run] = (), end: int = 0) -> None:
        self._up = array("q")
        self._down = array("q")
        self.end = end
        for run in runs:
            self.begin(run)

    def __len__(self) -> int:
        return len(self._up)

    def begin(self, run: Run) -> None:
        """Begin a run."""
        assert not self._up or (run.upstream > self._up[-1] and run.downstream > self._down[-1])
        self._up.append(run.upstream)
        self._down.append(run.downstream)
        self.end = max(self.end, run.downstream)

    @property
    def next_upstream(self) -> int:
        """The source offset after the last copied one."""
        return self._up[-1] + self.end - self._down[-1] if self._up else 0

    def to_downstream(self, upstream: int) -> int:
        """The copy's offset of the source's first record at or after this offset; the copy's end if it is not copied yet."""
        at = bisect_right(self._up, upstream) - 1
        if at < 0:
            return self._down[0] if self._down else self.end
        following = self._down[at + 1] if at + 1 < len(self._down) else self.end
        return min(self._down[at] + upstream - self._up[at], following)

    def to_upstream(self, downstream: int) -> int | None:
        """The source offset of this offset of the copy; for its end, the one after its last. None outside of the map."""
        at = bisect_right(self._down, downstream) - 1
        if at < 0 or downstream > self.end:
            return None
        return self._up[at] + downstream - self._down[at]
