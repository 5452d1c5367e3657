"""Targets of an offset reset: parsing and clamping."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from isthmus_client.metadata import TopicPartition

_DURATION: Final = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_scope(words: Iterable[str]) -> dict[str, set[int] | None]:
    """Partitions by topic from "topic" (None: all of it) and "topic:0,2"; raises ValueError."""
    scope: dict[str, set[int] | None] = {}
    for word in words:
        topic, colon, indexes = word.partition(":")
        if not topic or (colon and not re.fullmatch(r"\d+(,\d+)*", indexes)):
            raise ValueError(f"expected TOPIC or TOPIC:0,1,2, got '{word}'")
        known = scope.get(topic, set())
        if colon and known is not None:
            scope[topic] = known | {int(index) for index in indexes.split(",")}
        else:
            scope[topic] = None
    return scope


def parse_datetime(text: str) -> int:
    """Milliseconds since 1970 of an ISO 8601 time, in UTC where it names no zone; raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def parse_duration(text: str) -> int:
    """Milliseconds of an ISO 8601 duration in days and below; raises ValueError."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match[part] for part in ("days", "hours", "minutes", "seconds")):
        raise ValueError(f"expected a duration such as PT1H30M or P7D, got '{text}'")
    parts = {part: float(match[part] or 0) for part in ("days", "hours", "minutes", "seconds")}
    length = timedelta(**parts) // timedelta(milliseconds=1)
    return -length if match["sign"] == "-" else length


def read_plan(text: str) -> dict[TopicPartition, int]:
    """Offsets from lines "topic,partition,offset"; raises ValueError."""
    plan: dict[TopicPartition, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        fields = [field.strip().strip('"') for field in line.split(",")]
        if len(fields) != 3 or not fields[0] or not fields[1].isdigit() or not fields[2].isdigit():
            raise ValueError(f"line {number}: expected topic,partition,offset, got '{line}'")
        plan[TopicPartition(fields[0], int(fields[1]))] = int(fields[2])
    return plan


def write_plan(plan: Mapping[TopicPartition, int]) -> str:
    """The lines that `read_plan` reads."""
    return "".join(f"{topic},{partition},{offset}\n" for (topic, partition), offset in sorted(plan.items()))


def clamped(offset: int, earliest: int, latest: int) -> int:
    """The nearest existing offset."""
    return max(earliest, min(offset, latest))
