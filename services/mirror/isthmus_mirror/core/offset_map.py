"""The exact map between the offsets of a source's partition and those of its copy.

The copy is one run after another: within a run both sides count alike, between runs the source has offsets that the copy lacks
(compaction, control records, aborted transactions, retention). So a run is told by its first offset on either side, and ends where the next
begins. Both numbers grow from run to run.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple


class Run(NamedTuple):
    """Where a run begins on either side."""

    upstream: int
    downstream: int


class OffsetMap:
    """Of one partition. What lies before the first run, or at and behind `end`, is not in the copy."""

    def __init__(self, runs: Iterable[Run] = (), end: int = 0) -> None:
        self._up = array("q")
        self._down = array("q")
        self.end = end
        for run in runs:
            self.begin(run)

    def __len__(self) -> int:
        return len(self._up)

    def begin(self, run: Run) -> None:
        """From here on both sides count alike."""
        assert not self._up or (run.upstream > self._up[-1] and run.downstream > self._down[-1])
        self._up.append(run.upstream)
        self._down.append(run.downstream)
        self.end = max(self.end, run.downstream)

    @property
    def next_upstream(self) -> int:
        """The source's offset behind the last one that was copied."""
        return self._up[-1] + self.end - self._down[-1] if self._up else 0

    def to_downstream(self, upstream: int) -> int:
        """Where the copy has the source's first record at or after this offset: its end for what was not copied yet."""
        at = bisect_right(self._up, upstream) - 1
        if at < 0:
            return self._down[0] if self._down else self.end
        following = self._down[at + 1] if at + 1 < len(self._down) else self.end
        return min(self._down[at] + upstream - self._up[at], following)

    def to_upstream(self, downstream: int) -> int | None:
        """Which offset of the source the copy has here; for its end the one behind its last. None for what the map does not hold."""
        at = bisect_right(self._down, downstream) - 1
        if at < 0 or downstream > self.end:
            return None
        return self._up[at] + downstream - self._down[at]
