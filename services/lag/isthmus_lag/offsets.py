"""Options of the data source that select records, and the resulting offset ranges. Pure.

The options are those of Spark's own Kafka source, and mean the same: `startingOffsets` and `endingOffsets` (earliest, latest, or JSON by
topic and partition, where -2 is the earliest and -1 the latest), `startingTimestamp` and `endingTimestamp` (milliseconds, for every
partition), `startingOffsetsByTimestamp` and `endingOffsetsByTimestamp` (JSON). JSON names every partition of the topic. If no record
is at or after the starting time, `startingOffsetsByTimestampStrategy` decides: error, or latest.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

RECORDS_PER_PARTITION: Final = 250_000
"""Records per Spark task, unless `maxRecordsPerPartition` is set."""
STRATEGY: Final = "startingOffsetsByTimestampStrategy"
EARLIEST: Final = -2
LATEST: Final = -1


class Kind(Enum):
    """The meaning of a bound's number."""

    OFFSET = "offset"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Bound:
    """An offset (`EARLIEST` and `LATEST` among them), or the first record at or after a time in milliseconds."""

    kind: Kind
    value: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """One bound for all partitions, or one for each. A time after the last record means the end, or is an error if `strict`."""

    every: Bound | None
    each: Mapping[int, Bound]
    strict: bool = False

    def over(self, partitions: Collection[int]) -> dict[int, Bound]:
        """The bound of each partition of the topic; raises ValueError if the bounds name other partitions."""
        if self.every is not None:
            return dict.fromkeys(partitions, self.every)
        if set(self.each) != set(partitions):
            named, existing = sorted(self.each), sorted(partitions)
            raise ValueError(
                f"the offsets name partitions {named}, but the topic has {existing}: name every one of them"
            )
        return dict(self.each)


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a stream: the next offset of each partition, and the id of the topic, which changes if the topic is recreated."""

    topic_id: str | None
    offsets: Mapping[int, int]

    def to_json(self) -> dict[str, Any]:
        """The form in which Spark stores it."""
        return {"topic_id": self.topic_id, "offsets": {str(key): at for key, at in sorted(self.offsets.items())}}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Position":
        """Read the stored form; streams from before topic ids were stored have only offsets."""
        if "offsets" not in stored:
            stored = {"topic_id": None, "offsets": stored}
        return cls(stored["topic_id"], {int(partition): offset for partition, offset in stored["offsets"].items()})

    def is_of(self, topic_id: str | None) -> bool:
        """Whether the offsets may be of this topic: brokers before Kafka 2.8 have no topic ids."""
        return None in (self.topic_id, topic_id) or self.topic_id == topic_id


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Records of one partition of the topic, from `start` to before `end`."""

    partition: int
    start: int
    end: int


def parse_bounds(options: Mapping[str, str], side: str, topic: str, default: int) -> Bounds:
    """Parse the bounds of one side, "starting" or "ending"; raises ValueError with a message for the user."""
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
            raise ValueError(f"{name} must be milliseconds since 1970, not '{text}'")
        return Bounds(Bound(Kind.TIME, int(text)), {}, strict)
    special = {"earliest": EARLIEST, "latest": LATEST}.get(text.lower())
    if special is not None:
        return Bounds(Bound(Kind.OFFSET, special), {})
    return Bounds(None, _by_partition(name, text, topic, Kind.OFFSET))


def _is_strict(options: Mapping[str, str]) -> bool:
    strategy = options.get(STRATEGY) or "error"
    if strategy.lower() not in ("error", "latest"):
        raise ValueError(f"{STRATEGY} must be error or latest, not '{strategy}'")
    return strategy.lower() == "error"


def _by_partition(name: str, text: str, topic: str, kind: Kind) -> dict[int, Bound]:
    lowest = 0 if kind is Kind.TIME else EARLIEST
    try:
        numbers: Any = json.loads(text)[topic]
        bounds = {int(partition): Bound(kind, int(value)) for partition, value in numbers.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        example = f'{{"{topic}": {{"0": 23, "1": -2}}}}'
        raise ValueError(f"{name} must be earliest, latest or JSON such as {example}, not '{text}'") from error
    if any(bound.value < lowest for bound in bounds.values()):
        raise ValueError(f"{name} has a number below {lowest}: {text}")
    return bounds


def parse_count(options: Mapping[str, str], name: str, default: int | None) -> int | None:
    """Parse an optional positive number; raises ValueError."""
    text = options.get(name)
    if text is None:
        return default
    if not text.isdigit() or int(text) == 0:
        raise ValueError(f"{name} must be a positive number, not '{text}'")
    return int(text)


def split(whole_range: OffsetRange, most: int) -> Iterator[OffsetRange]:
    """Split a range into ranges of at most `most` offsets; none if it is empty."""
    for start in range(whole_range.start, whole_range.end, most):
        yield OffsetRange(whole_range.partition, start, min(start + most, whole_range.end))


def limited(start: Mapping[int, int], latest: Mapping[int, int], most: int) -> dict[int, int]:
    """Limit a batch to `most` offsets in all, shared in proportion to the lag of each partition.

    Every partition with lag gets at least one offset while any are left, so that no partition starves.
    """
    lags = {partition: max(end - start[partition], 0) for partition, end in sorted(latest.items())}
    total, left = sum(lags.values()), most
    if total <= most:
        return dict(latest)
    ends: dict[int, int] = {}
    for partition, count in lags.items():
        share = min(max(most * count // total, 1), count, left)
        ends[partition] = start[partition] + share
        left -= share
    return ends
