"""MirrorMaker's measures: the age of records when read and when copied, and their rate."""

from dataclasses import dataclass, field
from typing import Final

from isthmus_model.clocks import WallMs

_NO_TIME: Final = -1


@dataclass(slots=True)
class Spread:
    """The last, least, greatest and mean value."""

    last: int = 0
    least: int = 0
    greatest: int = 0
    total: int = 0
    count: int = 0

    def add(self, value: int) -> None:
        """Add a value."""
        self.least = value if self.count == 0 else min(self.least, value)
        self.greatest = max(self.greatest, value)
        self.last, self.total, self.count = value, self.total + value, self.count + 1

    @property
    def mean(self) -> float:
        """The mean; 0 without values."""
        return self.total / self.count if self.count else 0.0


@dataclass(slots=True)
class Latency:
    """The measures of one partition, by the newest record of each batch."""

    age: Spread = field(default_factory=Spread)
    replication: Spread = field(default_factory=Spread)
    record_rate: float = 0.0
    byte_rate: float = 0.0
    _before: tuple[int, int] = (0, 0)

    def fetched(self, timestamp: int, now_ms: WallMs) -> None:
        """Record a fetched batch."""
        if timestamp != _NO_TIME:
            self.age.add(max(now_ms - timestamp, 0))

    def appended(self, timestamp: int, now_ms: WallMs) -> None:
        """Record an appended batch."""
        if timestamp != _NO_TIME:
            self.replication.add(max(now_ms - timestamp, 0))

    def measure(self, records: int, size: int, seconds: float) -> None:
        """Update the rates from the totals, `seconds` after the last update."""
        before_records, before_bytes = self._before
        self.record_rate, self.byte_rate = (records - before_records) / seconds, (size - before_bytes) / seconds
        self._before = records, size
