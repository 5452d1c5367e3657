"""Series of lag samples, one per copy, and their sums by link, by topic or by pair of regions."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from isthmus_model.lag import number_or_none
from isthmus_model.lag_samples import Copy, LagSample

from isthmus_api.limits import SERIES_MAX, SERIES_POINTS


class Point(NamedTuple):
    """One sample; `lag_ms` is None for a copy that was never caught up."""

    at_ms: int
    lag_ms: int | None
    lag_records: int


class Latest(NamedTuple):
    """A copy's last point, and the interval between its last two."""

    copy: Copy
    point: Point
    pace_ms: int


class By(StrEnum):
    """How samples are grouped."""

    COPY = "copy"
    LINK = "link"
    TOPIC = "topic"
    REGIONS = "regions"


@dataclass(frozen=True, slots=True)
class Bucket:
    """The worst of some copies within one step of time; `lag_ms` is None when no copy was ever caught up."""

    at_ms: int
    copies: int
    lag_ms: int | None
    lag_records: int


class Ring:
    """At most `SERIES_MAX` series of at most `SERIES_POINTS` points."""

    def __init__(self) -> None:
        self._series: OrderedDict[Copy, deque[Point]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._series)

    def add(self, sample: LagSample) -> None:
        """A sample that is older than the last of its series is a repetition, and left out."""
        copy = sample.as_copy()
        points = self._series.setdefault(copy, deque(maxlen=SERIES_POINTS))
        if points and points[-1].at_ms >= sample.at_ms:
            return
        points.append(Point(sample.at_ms, number_or_none(sample.lag_ms), sample.lag_records))
        self._series.move_to_end(copy)
        if len(self._series) > SERIES_MAX:
            self._series.popitem(last=False)

    def items(self) -> Iterator[tuple[Copy, deque[Point]]]:
        """Every series."""
        return iter(self._series.items())

    def latest(self, since_ms: int) -> Iterator[Latest]:
        """The last point of every series that has one since then."""
        for copy, points in self._series.items():
            if points[-1].at_ms >= since_ms:
                yield Latest(copy, points[-1], points[-1].at_ms - points[-2].at_ms if len(points) > 1 else 0)


def group_of(copy: Copy, by: By) -> Copy:
    """The copy without the fields that differ within its group."""
    if by is By.COPY:
        return copy
    bare = replace(copy, topic="", source_topic="", partition=-1, target_broker=-1)
    if by is By.LINK:
        return replace(bare, source_region="", target_region="")
    if by is By.TOPIC:
        return replace(bare, topic=copy.topic, source_topic=copy.source_topic, source_region="", target_region="")
    return bare


def buckets(series: Iterable[tuple[Copy, Iterable[Point]]], by: By, step_ms: int) -> dict[Copy, list[Bucket]]:
    """By group, in order of time. Within a bucket the worst lag counts, and the records that each copy lacked last."""
    points_of: dict[Copy, dict[int, dict[Copy, list[Point]]]] = {}
    for copy, points in series:
        steps = points_of.setdefault(group_of(copy, by), {})
        for point in points:
            steps.setdefault(point.at_ms - point.at_ms % step_ms, {}).setdefault(copy, []).append(point)
    return {
        copy: [_bucket(at_ms, of_copies) for at_ms, of_copies in sorted(steps.items())]
        for copy, steps in points_of.items()
    }


def _bucket(at_ms: int, points: Mapping[Copy, Sequence[Point]]) -> Bucket:
    lags = [point.lag_ms for of_copy in points.values() for point in of_copy if point.lag_ms is not None]
    lacking = sum(of_copy[-1].lag_records for of_copy in points.values())
    return Bucket(at_ms, len(points), max(lags, default=None), lacking)
