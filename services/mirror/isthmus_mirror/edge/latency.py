"""How old records are when they are read and when they are in the copy, and how many come in a second: MirrorMaker's measures."""

from dataclasses import dataclass, field
from typing import Final

from isthmus_model.clocks import WallMs

_NO_TIME: Final = -1


@dataclass(slots=True)
class Spread:
    """The last value, the least, the greatest, and the mean."""

    last: int = 0
    least: int = 0
    greatest: int = 0
    total: int = 0
    count: int = 0

    def add(self, value: int) -> None:
        """One more."""
        self.least = value if self.count == 0 else min(self.least, value)
        self.greatest = max(self.greatest, value)
        self.last, self.total, self.count = value, self.total + value, self.count + 1

    @property
    def mean(self) -> float:
        """0 before the first."""
        return self.total / self.count if self.count else 0.0


@dataclass(slots=True)
class Latency:
    """Of one partition, by the newest record of each batch."""

    age: Spread = field(default_factory=Spread)
    replication: Spread = field(default_factory=Spread)
    record_rate: float = 0.0
    byte_rate: float = 0.0
    _before: tuple[int, int] = (0, 0)

    def fetched(self, timestamp: int, now_ms: WallMs) -> None:
        """A batch was read."""
        if timestamp != _NO_TIME:
            self.age.add(max(now_ms - timestamp, 0))

    def appended(self, timestamp: int, now_ms: WallMs) -> None:
        """A batch is in the copy."""
        if timestamp != _NO_TIME:
            self.replication.add(max(now_ms - timestamp, 0))

    def measure(self, records: int, size: int, seconds: float) -> None:
        """What was copied until now, `seconds` after it was told the last time."""
        before_records, before_bytes = self._before
        self.record_rate, self.byte_rate = (records - before_records) / seconds, (size - before_bytes) / seconds
        self._before = records, size
