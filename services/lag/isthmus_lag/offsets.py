"""Which records to read: the options of the data source, and the ranges that come of them. Pure.

The options are those of Spark's own Kafka source, and mean the same: `startingOffsets` and `endingOffsets` (earliest, latest, or JSON by
topic and partition, where -2 is the earliest and -1 the latest), `startingTimestamp` and `endingTimestamp` (milliseconds, for every
partition), `startingOffsetsByTimestamp` and `endingOffsetsByTimestamp` (JSON). JSON names every partition of the topic. Where no record is
as late as the starting time, `startingOffsetsByTimestampStrategy` says what then: error, or latest.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

RECORDS_PER_PARTITION: Final = 250_000
"""So many records make one Spark task, unless `maxRecordsPerPartition` says otherwise."""
STRATEGY: Final = "startingOffsetsByTimestampStrategy"
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
    """One for every partition, or one for each by name. A time after the last record is the end, or an error when it is `strict`."""

    every: Bound | None
    each: Mapping[int, Bound]
    strict: bool = False

    def over(self, partitions: Collection[int]) -> dict[int, Bound]:
        """By partition of the topic; raises ValueError when others were named."""
        if self.every is not None:
            return dict.fromkeys(partitions, self.every)
        if set(self.each) != set(partitions):
            named, there = sorted(self.each), sorted(partitions)
            raise ValueError(f"the offsets name partitions {named}, and the topic has {there}: name every one of them")
        return dict(self.each)


@dataclass(frozen=True, slots=True)
class Position:
    """How far a stream is: the next offset of each partition, and of which topic, for one made anew under the name is another."""

    topic_id: str | None
    offsets: Mapping[int, int]

    def told(self) -> dict[str, Any]:
        """As Spark keeps it."""
        return {"topic_id": self.topic_id, "offsets": {str(key): at for key, at in sorted(self.offsets.items())}}

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> "Position":
        """From what Spark kept; streams that were begun before topics' ids were kept have offsets alone."""
        if "offsets" not in told:
            told = {"topic_id": None, "offsets": told}
        return cls(told["topic_id"], {int(partition): offset for partition, offset in told["offsets"].items()})

    def is_of(self, topic_id: str | None) -> bool:
        """Whether the offsets are of this topic, as far as it is known: brokers before Kafka 2.8 have no ids."""
        return None in (self.topic_id, topic_id) or self.topic_id == topic_id


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
    strict = side == "starting" and _is_strict(options)
    if name.endswith("OffsetsByTimestamp"):
        return Bounds(None, _by_partition(name, text, topic, Kind.TIME), strict)
    if name.endswith("Timestamp"):
        if not text.isdigit():
            raise ValueError(f"{name} wants milliseconds since 1970, not '{text}'")
        return Bounds(Bound(Kind.TIME, int(text)), {}, strict)
    special = {"earliest": EARLIEST, "latest": LATEST}.get(text.lower())
    if special is not None:
        return Bounds(Bound(Kind.OFFSET, special), {})
    return Bounds(None, _by_partition(name, text, topic, Kind.OFFSET))


def _is_strict(options: Mapping[str, str]) -> bool:
    strategy = options.get(STRATEGY) or "error"
    if strategy.lower() not in ("error", "latest"):
        raise ValueError(f"{STRATEGY} wants error or latest, not '{strategy}'")
    return strategy.lower() == "error"


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
