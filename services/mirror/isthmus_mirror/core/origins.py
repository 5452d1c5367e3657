"""Where the records of a source's partition were produced, if other flows write to it as well.

Flows under identity naming may form any graph, cycles included. A record is copied to a cluster once: not back to the cluster it was
produced to, and not by a detour if a flow copies it directly.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable

from isthmus_mirror.core.offset_map import OffsetMap, Run
from isthmus_mirror.core.settings import FlowSettings
from isthmus_mirror.core.written import Written


class Origins:
    """The records that flows wrote to one partition of the source; all others were produced to it."""

    def __init__(self) -> None:
        self.maps: dict[str, OffsetMap] = {}
        """The offset maps of the flows that wrote them, by their source."""
        self._runs: list[tuple[int, int, str]] = []  # first offset, the one after the last, origin

    def add(self, source: str, written: Iterable[Written]) -> None:
        """Add what a flow from this source has written."""
        offsets = self.maps.setdefault(source, OffsetMap())
        for run in written:
            insort(self._runs, (run.downstream, run.stop, run.origin))
            offsets.add(Run(run.upstream, run.downstream), run.records)

    def at(self, offset: int) -> str | None:
        """The cluster that the record at this offset was produced to; None if it is this one."""
        index = bisect_right(self._runs, offset, key=lambda run: run[0]) - 1
        if index < 0 or offset >= self._runs[index][1]:
            return None
        return self._runs[index][2]


def skipped_origins(flow: FlowSettings, flows: Iterable[FlowSettings], topic: str) -> frozenset[str]:
    """The clusters whose records a flow does not copy: its target, and those with a flow of their own to it."""
    into_target = (other for other in flows if other.enabled and other.target == flow.target)
    direct = (other.source for other in into_target if other.naming.identity and other.takes_topic(topic))
    return frozenset({flow.target, *direct} - {flow.source})
