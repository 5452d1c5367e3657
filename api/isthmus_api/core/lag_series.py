"""The latest samples of every copy, and what they come to by link, by topic or by pair of regions. Pure."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from isthmus_model.lag_samples import CopyKind, LagSample

from isthmus_api.limits import SERIES_MAX, SERIES_POINTS

NEVER: Final = -1
"""The lag in milliseconds of a copy that was never seen with everything."""


class Copy(NamedTuple):
    """What a series is of: one copy of one partition."""

    kind: CopyKind
    link: str
    source_cluster: str
    target_cluster: str
    source_region: str
    target_region: str
    source_topic: str
    topic: str
    partition: int
    target_broker: int


class Point(NamedTuple):
    """How far behind it was."""

    at_ms: int
    lag_ms: int
    lag_records: int


class Latest(NamedTuple):
    """A copy's last point, and how long before it the one before that was."""

    copy: Copy
    point: Point
    pace_ms: int


class By(StrEnum):
    """What samples are put together by."""

    COPY = "copy"
    LINK = "link"
    TOPIC = "topic"
    REGIONS = "regions"


@dataclass(frozen=True, slots=True)
class Bucket:
    """The worst of some copies within a stretch of time; `lag_ms` is -1 when no copy was ever seen with everything."""

    at_ms: int
    copies: int
    lag_ms: int
    lag_records: int


class Ring:
    """At most `SERIES_MAX` series of at most `SERIES_POINTS` points."""

    def __init__(self) -> None:
        self._series: OrderedDict[Copy, deque[Point]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._series)

    def add(self, sample: LagSample) -> None:
        """A sample that is older than the last of its series is a repetition, and left out."""
        copy = Copy(**{name: getattr(sample, name) for name in Copy._fields})
        points = self._series.setdefault(copy, deque(maxlen=SERIES_POINTS))
        if points and points[-1].at_ms >= sample.at_ms:
            return
        points.append(Point(sample.at_ms, sample.lag_ms, sample.lag_records))
        self._series.move_to_end(copy)
        if len(self._series) > SERIES_MAX:
            self._series.popitem(last=False)

    def items(self) -> Iterator[tuple[Copy, deque[Point]]]:
        """Every series."""
        return iter(self._series.items())

    def latest(self, since_ms: int) -> Iterator[Latest]:
        """The last point of every series that is not silent since then."""
        for copy, points in self._series.items():
            if points[-1].at_ms >= since_ms:
                yield Latest(copy, points[-1], points[-1].at_ms - points[-2].at_ms if len(points) > 1 else 0)


def group_of(copy: Copy, by: By) -> Copy:
    """The copy with everything left out that does not count for the group."""
    if by is By.COPY:
        return copy
    bare = copy._replace(topic="", source_topic="", partition=-1, target_broker=-1)
    if by is By.LINK:
        return bare._replace(source_region="", target_region="")
    if by is By.TOPIC:
        return bare._replace(topic=copy.topic, source_topic=copy.source_topic, source_region="", target_region="")
    return bare


def buckets(series: Iterable[tuple[Copy, Iterable[Point]]], by: By, step_ms: int) -> dict[Copy, list[Bucket]]:
    """By group, in order of time. Within a bucket the worst lag counts, and the records that each copy lacked last."""
    gathered: dict[Copy, dict[int, tuple[int, dict[Copy, int]]]] = {}
    for copy, points in series:
        group = gathered.setdefault(group_of(copy, by), {})
        for point in points:
            at = point.at_ms - point.at_ms % step_ms
            worst, lacking = group.setdefault(at, (NEVER, {}))
            lacking[copy] = point.lag_records
            group[at] = (max(worst, point.lag_ms), lacking)
    return {
        copy: [Bucket(at, len(lacking), worst, sum(lacking.values())) for at, (worst, lacking) in sorted(group.items())]
        for copy, group in gathered.items()
    }
