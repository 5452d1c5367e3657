"""What the lives of a link's and of a mirror's partition have in common: an unreliable network, replaced workers, and peace at the end."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Generic, Protocol, TypeVar

from tests.sim.world import Violation, World

TURMOIL_MS = 8_000
PEACE_MS = 60_000
_TIMEOUT_MS = 300
"""How long a sender waits for a response that never comes."""

A = TypeVar("A")


def draw_rate(random: Random, most: float) -> float:
    """The rate of a fault: often none, mostly low."""
    return 0.0 if random.random() < 0.3 else most * random.random() ** 2


@dataclass(frozen=True)
class WorkerRates:
    """How often messages and workers fail, drawn from the seed."""

    loss: float
    repeat: float
    delay_max: int
    crash: float
    zombie: float
    """How often a replaced worker continues."""

    @classmethod
    def draw(cls, random: Random, crash_most: float) -> "WorkerRates":
        return cls(
            loss=draw_rate(random, 0.4),
            repeat=draw_rate(random, 0.3),
            delay_max=random.choice((5, 50, 400)),
            crash=draw_rate(random, crash_most),
            zombie=random.random(),
        )


class Sender(Protocol):
    """A worker; a dead one receives no response."""

    alive: bool


W = TypeVar("W", bound=Sender)


class Network:
    """Loses, delays and repeats messages until there is peace."""

    def __init__(self, world: World, rates: WorkerRates) -> None:
        self.is_peaceful = False
        self._world = world
        self._rates = rates

    def exchange(
        self, sender: Sender, request: Callable[[], A], responded: Callable[[A], None], lost: Callable[[], None]
    ) -> None:
        """A request; it or its response may be lost, so it may take effect without a response."""
        if self.loses():
            self.respond(sender, lost, _TIMEOUT_MS)
            return

        def arrive() -> None:
            response = request()
            self.respond(sender, lost if self.loses() else lambda: responded(response))

        self._world.after(self._delay(), arrive)

    def append(
        self,
        sender: Sender,
        arrive: Callable[[], None],
        arrive_again: Callable[[], None],
        lost: Callable[[], None],
    ) -> None:
        """An append; it may arrive twice, late, or after its sender has crashed."""
        if self.loses():
            self.respond(sender, lost, _TIMEOUT_MS)
        else:
            self._world.after(self._delay(), arrive)
        if not self.is_peaceful and self._world.chance(self._rates.repeat):
            self._world.after(self._delay() * 5, arrive_again)

    def respond(self, sender: Sender, then: Callable[[], None], more: int = 0) -> None:
        """Deliver a response, unless its receiver is dead by then."""
        self._world.after(self._delay() + more, lambda: then() if sender.alive else None)

    def time_out(self, sender: Sender, then: Callable[[], None]) -> None:
        """Deliver the timeout of a request."""
        self.respond(sender, then, _TIMEOUT_MS)

    def loses(self) -> bool:
        """Whether this message is lost."""
        return not self.is_peaceful and self._world.chance(self._rates.loss)

    def _delay(self) -> int:
        return self._world.random.randrange(1, 3 if self.is_peaceful else self._rates.delay_max)


class CopyLife(ABC, Generic[W]):
    """Turmoil first, then peace, in which the copy must catch up."""

    def __init__(self, world: World, rates: WorkerRates) -> None:
        self.world = world
        self.network = Network(world, rates)
        self._rates = rates
        self.workers: list[W] = []

    def live(self) -> None:
        """Run turmoil and peace; raises Violation."""
        self.start_worker()
        self._rounds()
        self.world.run_until(TURMOIL_MS)
        self._make_peace()
        if not self.world.run_until(TURMOIL_MS + PEACE_MS, self.is_done):
            raise Violation(self.describe())

    def note(self, what: str) -> None:
        """Add a line to the trace."""
        self.world.log(0, what)

    @abstractmethod
    def events(self) -> Iterable[tuple[float, Callable[[], None]]]:
        """What may happen in a round, with its chance."""

    @abstractmethod
    def start_worker(self) -> None:
        """Start another worker."""

    @abstractmethod
    def calm(self) -> None:
        """End the faults that the life itself injects."""

    @abstractmethod
    def is_done(self) -> bool:
        """Whether the copy has caught up; raises Violation."""

    @abstractmethod
    def describe(self) -> str:
        """The progress of the copy and of its source."""

    def replace_worker(self) -> None:
        """Replace the worker; the old one crashes, or becomes a zombie."""
        if not self.world.chance(self._rates.zombie):
            self.workers[-1].alive = False
        self.start_worker()

    def _rounds(self) -> None:
        if self.network.is_peaceful:
            return
        for rate, happen in self.events():
            if self.world.chance(rate):
                self.note(happen.__name__)
                happen()
        self.world.after(self.world.random.randrange(20, 120), self._rounds)

    def _make_peace(self) -> None:
        self.note("peace")
        self.network.is_peaceful = True
        self.calm()
        for worker in self.workers:
            worker.alive = False
        self.start_worker()
