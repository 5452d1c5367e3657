"""The kinds and rates of faults. The rates are drawn from the seed, since fixed rates detect little."""

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class NetRates:
    loss: float = 0.0
    duplicate: float = 0.0
    late: float = 0.0
    delay_max: int = 3
    late_max: int = 1

    @classmethod
    def draw(cls, random: Random) -> "NetRates":
        return cls(
            loss=_often(random, 0.3),
            duplicate=_often(random, 0.2),
            late=_often(random, 0.3),
            delay_max=random.choice((2, 10, 40, 120)),
            late_max=random.choice((100, 1_000, 5_000)),
        )


@dataclass(frozen=True, slots=True)
class DiskRates:
    slow: float = 0.0
    delay_max: int = 2
    slow_max: int = 1

    @classmethod
    def draw(cls, random: Random) -> "DiskRates":
        return cls(
            slow=_often(random, 0.2),
            delay_max=random.choice((1, 5, 30, 150)),
            slow_max=random.choice((100, 800, 3_000)),
        )


@dataclass(frozen=True, slots=True)
class FaultRates:
    """Mean pauses between the faults of each kind, in milliseconds; None for never."""

    crash_every: int | None
    down_max: int
    crash_in_write: float
    """The share of crashes in the middle of the node's next write."""
    cut_every: int | None
    cut_max: int
    one_way: float
    refuses: float
    """The share of requests to a dead node that fail at once instead of being lost."""
    clean_stop: float
    """The share of stops that are announced to the node."""
    append_every: int
    voters_every: int | None

    @classmethod
    def draw(cls, random: Random) -> "FaultRates":
        return cls(
            crash_every=_sometimes(random, 300, 6_000),
            down_max=random.choice((50, 500, 3_000)),
            crash_in_write=random.random(),
            cut_every=_sometimes(random, 500, 6_000),
            cut_max=random.choice((300, 1_500, 5_000)),
            one_way=random.random(),
            refuses=random.choice((0.0, 0.5, 1.0)),
            clean_stop=random.choice((0.0, 0.3)),
            append_every=random.choice((30, 100, 400)),
            voters_every=_sometimes(random, 200, 3_000),
        )


def _often(random: Random, most: float) -> float:
    """A rate: none in a third of the worlds, else up to `most`, with small rates more often."""
    return 0.0 if random.random() < 0.33 else most * random.random() ** 2


def _sometimes(random: Random, shortest: int, longest: int) -> int | None:
    return None if random.random() < 0.2 else random.randrange(shortest, longest)
