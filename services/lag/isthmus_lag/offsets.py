"""Which records to read: the options of the data source, and the ranges that come of them. Pure.

The options are those of Spark's own Kafka source: `startingOffsets` and `endingOffsets` (earliest, latest, or JSON by topic and partition,
where -2 is the earliest and -1 the latest), `startingTimestamp` and `endingTimestamp` (milliseconds, for every partition),
`startingOffsetsByTimestamp` and `endingOffsetsByTimestamp` (JSON).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

RECORDS_PER_PARTITION: Final = 250_000
"""So many records make one Spark task, unless `maxRecordsPerPartition` says otherwise."""
EARLIEST: Final = -2
LATEST: Final = -1


class Kind(Enum):
    """What the number of a bound is."""

    OFFSET = "offset"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Bound:
    """An offset (`EARLIEST` and `LATEST` among them), or the first record at or after a time in milliseconds."""

    kind: Kind
    value: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """One for every partition, or one for each by name."""

    every: Bound | None
    each: Mapping[int, Bound]

    def of(self, partition: int) -> Bound:
        """Raises ValueError for a partition that was left out."""
        bound = self.each.get(partition, self.every)
        if bound is None:
            raise ValueError(f"the offsets name partitions, but not partition {partition} of the topic")
        return bound


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Records of one partition of the topic, from `start` to before `end`."""

    partition: int
    start: int
    end: int


def parse_bounds(options: Mapping[str, str], side: str, topic: str, default: int) -> Bounds:
    """The bounds of one side, "starting" or "ending"; raises ValueError with a sentence for the user."""
    names = (f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets")
    given = [name for name in names if options.get(name) is not None]
    if len(given) > 1:
        raise ValueError(f"give {given[0]} or {given[1]}, not both")
    if not given:
        return Bounds(Bound(Kind.OFFSET, default), {})
    (name,), text = given, options[given[0]].strip()
    if name.endswith("OffsetsByTimestamp"):
        return Bounds(None, _by_partition(name, text, topic, Kind.TIME))
    if name.endswith("Timestamp"):
        if not text.isdigit():
            raise ValueError(f"{name} wants milliseconds since 1970, not '{text}'")
        return Bounds(Bound(Kind.TIME, int(text)), {})
    special = {"earliest": EARLIEST, "latest": LATEST}.get(text.lower())
    if special is not None:
        return Bounds(Bound(Kind.OFFSET, special), {})
    return Bounds(None, _by_partition(name, text, topic, Kind.OFFSET))


def _by_partition(name: str, text: str, topic: str, kind: Kind) -> dict[int, Bound]:
    lowest = 0 if kind is Kind.TIME else EARLIEST
    try:
        told: Any = json.loads(text)[topic]
        bounds = {int(partition): Bound(kind, int(value)) for partition, value in told.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        example = f'{{"{topic}": {{"0": 23, "1": -2}}}}'
        raise ValueError(f"{name} wants earliest, latest or JSON such as {example}, not '{text}'") from error
    if any(bound.value < lowest for bound in bounds.values()):
        raise ValueError(f"{name} has a number below {lowest}: {text}")
    return bounds


def parse_count(options: Mapping[str, str], name: str, default: int | None) -> int | None:
    """A positive number, when the option is there; raises ValueError."""
    text = options.get(name)
    if text is None:
        return default
    if not text.isdigit() or int(text) == 0:
        raise ValueError(f"{name} wants a positive number, not '{text}'")
    return int(text)


def split(wanted: OffsetRange, most: int) -> Iterator[OffsetRange]:
    """Ranges of at most so many offsets that make up this one; none for an empty one."""
    for start in range(wanted.start, wanted.end, most):
        yield OffsetRange(wanted.partition, start, min(start + most, wanted.end))


def limited(start: Mapping[int, int], latest: Mapping[int, int], most: int) -> dict[int, int]:
    """Ends at most `most` offsets after `start` in all, shared by how far each partition is behind.

    Every partition that is behind gets one at least as long as any are left, so that none waits for ever.
    """
    behind = {partition: max(end - start[partition], 0) for partition, end in sorted(latest.items())}
    whole, left = sum(behind.values()), most
    if whole <= most:
        return dict(latest)
    ends: dict[int, int] = {}
    for partition, count in behind.items():
        share = min(max(most * count // whole, 1), count, left)
        ends[partition] = start[partition] + share
        left -= share
    return ends
