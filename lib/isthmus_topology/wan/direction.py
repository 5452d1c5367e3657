"""One direction between two regions: when what is sent now arrives there. Pure; time is given in seconds."""

from __future__ import annotations

import random
from typing import Final

from isthmus_topology.description import Weather

SEGMENT: Final = 1_448
"""Bytes of a TCP segment on an ordinary link; a loss hits one."""
RETRANSMIT_SECONDS: Final = 0.2
"""What TCP waits before it sends a lost segment again, at the least."""
_BYTES_PER_MEGABIT: Final = 125_000


class Direction:
    """All connections from one region to another share its bandwidth; each keeps the order of its own bytes."""

    def __init__(self, weather: Weather, draws: random.Random) -> None:
        self.weather = weather
        self.is_cut = False
        self.carried = 0
        """Bytes let through so far."""
        self._draws = draws
        self._free_at = 0.0

    def arrival(self, now: float, size: int) -> float:
        """When the last of `size` bytes that are sent now is there."""
        weather = self.weather
        sent = max(now, self._free_at)
        if weather.bandwidth_mbit:
            sent += size / (weather.bandwidth_mbit * _BYTES_PER_MEGABIT)
            self._free_at = sent
        self.carried += size
        return sent + self.delay() + self._losses(size) * RETRANSMIT_SECONDS

    def delay(self) -> float:
        """One way, for what has no size."""
        weather = self.weather
        jitter = self._draws.uniform(-weather.jitter_ms, weather.jitter_ms) if weather.jitter_ms else 0.0
        return max(0.0, weather.latency_ms + jitter) / 1000

    def _losses(self, size: int) -> int:
        """Rounds in which some segment of it was lost; TCP sends all losses of a round again together."""
        loss = self.weather.loss
        if not loss:
            return 0
        rounds, segments = 0, -(-size // SEGMENT)
        while segments and self._draws.random() < 1 - (1 - loss) ** segments:
            rounds += 1
            segments = sum(self._draws.random() < loss for _ in range(segments)) or 1
        return rounds
