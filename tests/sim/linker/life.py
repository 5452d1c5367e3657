"""The life of a link's partition on an unreliable network, with crashes and zombies, then in peace."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from isthmus_linker.core.epochs import epoch_floor
from isthmus_linker.core.partition import Append, EndOfLog, FetchAt, FetchResult, PartitionCopy, SourceRange, Stage
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.mirrors import MirrorError

from tests.sim.linker.destination import SimDestination
from tests.sim.linker.source import SimSource
from tests.sim.world import Violation, World

A = TypeVar("A")
TURMOIL_MS = 8_000
PEACE_MS = 60_000
RETRY_TIMEOUT_MS = 5_000


@dataclass(frozen=True)
class Rates:
    """Rates of faults, drawn from the seed."""

    loss: float
    repeat: float
    delay_max: int
    crash: float
    zombie: float
    source_election: float
    destination_election: float
    retention: float
    compaction: float
    unclean: float
    stale: float
    commit: float

    @classmethod
    def draw(cls, random: Random) -> "Rates":
        def rate(most: float) -> float:
            return 0.0 if random.random() < 0.3 else most * random.random() ** 2

        return cls(
            loss=rate(0.4),
            repeat=rate(0.3),
            delay_max=random.choice((5, 50, 400)),
            crash=rate(0.2),
            zombie=random.random(),
            source_election=rate(0.2),
            destination_election=rate(0.3),
            retention=rate(0.15),
            compaction=rate(0.3),
            unclean=rate(0.05) if random.random() < 0.3 else 0.0,
            stale=rate(0.5),
            commit=0.1 + 0.9 * random.random(),
        )


class Worker:
    """The edge's work over an unreliable network. A zombie is a replaced worker that continues."""

    def __init__(self, life: "LinkLife", number: int) -> None:
        self.copy = PartitionCopy(RETRY_TIMEOUT_MS, 500)
        self.number = number
        self.alive = True
        self._life = life
        self._looking_up = False
        self._fetching = False
        self._current_epoch = life.source.leader.epoch
        self._known_elections = life.destination.elections

    def turn(self) -> None:
        """Do everything that is due, and schedule the next turn."""
        if not self.alive:
            return
        life, now = self._life, self._life.world.now
        if not life.world.chance(life.stale):
            self._current_epoch = life.source.leader.epoch
            self._apply_elections(life.destination.elections)
        was = self.copy.stage
        for stage, request in (
            (Stage.LOOK_UP_DESTINATION, self._look_up_destination),
            (Stage.LOOK_UP_SOURCE, self._look_up_source),
        ):
            if not self._looking_up and self.copy.needs_lookup(stage, MonotonicMs(now)):
                self._looking_up = True
                request()
        at = None if self._fetching else self.copy.fetch_at(MonotonicMs(now))
        if at is not None:
            self._fetching = True
            self._fetch(at)
        append = self.copy.next_append(MonotonicMs(now))
        if append is not None:
            self._append(append)
        floor = epoch_floor(max(self.copy.source_epoch, self.copy.needs_epoch_above), life.destination.leader_epoch)
        if floor is not None:
            life.destination.raise_epoch(floor)
        if self.copy.stage is not was or at is not None:
            life.note(f"worker {self.number}: {self.copy.stage.name}, fetches at {at}, the log ends at {self.copy.end}")
        life.world.after(life.world.random.randrange(1, 40), self.turn)

    def _apply_elections(self, elections: int) -> None:
        if elections != self._known_elections:
            self._known_elections = elections
            self.copy.leader_moved(MonotonicMs(self._life.world.now))

    def _look_up_destination(self) -> None:
        def responded(position: tuple[EndOfLog, int]) -> None:
            self._looking_up = False
            self.copy.destination_ends(*position, MonotonicMs(self._life.world.now))

        def lost() -> None:
            self._looking_up = False
            self.copy.lookup_failed(MonotonicMs(self._life.world.now))

        self._life.exchange(self, lambda: self._life.destination.progress, responded, lost)

    def _look_up_source(self) -> None:
        def responded(response: SourceRange | ErrorCode) -> None:
            self._looking_up = False
            if isinstance(response, ErrorCode):
                self.copy.lookup_failed(MonotonicMs(self._life.world.now))
            else:
                self.copy.source_has(response, MonotonicMs(self._life.world.now))

        def lost() -> None:
            self._looking_up = False
            self.copy.lookup_failed(MonotonicMs(self._life.world.now))

        epoch = self._current_epoch
        self._life.exchange(self, lambda: self._life.source.range(epoch), responded, lost)

    def _fetch(self, at: FetchAt) -> None:
        def responded(response: FetchResult | ErrorCode) -> None:
            self._fetching = False
            if isinstance(response, ErrorCode):
                self.copy.fetch_refused(at, response, epoch, MonotonicMs(self._life.world.now))
            else:
                self.copy.fetched(at, response, MonotonicMs(self._life.world.now))

        def lost() -> None:
            self._fetching = False

        epoch, size = self._current_epoch, self._life.world.random.choice((1, 150, 400, 5_000))
        self._life.exchange(self, lambda: self._life.source.fetch(at, epoch, size), responded, lost)

    def _append(self, append: Append) -> None:
        def responded(code: ErrorCode, ends: EndOfLog) -> None:
            if code is ErrorCode.none:
                self.copy.appended(append, ends)
            else:
                self.copy.append_refused(append, code, ends, MonotonicMs(self._life.world.now))

        self._life.append(
            self, append, responded, lambda: self.copy.append_lost(append, MonotonicMs(self._life.world.now))
        )


class LinkLife:
    """Turmoil first, then peace, in which the copy must catch up."""

    def __init__(self, seed: int, *, traced: bool = False, checks_expected_end: bool = True) -> None:
        self.world = World(seed, traced=traced)
        self.rates = Rates.draw(self.world.random)
        self.stale = self.rates.stale
        self.source = SimSource(self.world)
        self.destination = SimDestination(self.world, self.source, checks_expected_end=checks_expected_end)
        self.workers: list[Worker] = []
        self._peaceful = False

    def run(self) -> None:
        """Raises Violation."""
        for _ in range(self.world.random.randrange(0, 6)):
            self.source.produce()
        self._start_worker()
        self._rounds()
        self.world.run_until(TURMOIL_MS)
        self._make_peace()
        if not self.world.run_until(TURMOIL_MS + PEACE_MS, self._is_done):
            raise Violation(f"the copy ends at {self.destination.end}, the source at {self.source.leader.committed}")

    # -- the network ---------------------------------------------------------------------------------------------------------

    def exchange(
        self, worker: Worker, request: Callable[[], A], responded: Callable[[A], None], lost: Callable[[], None]
    ) -> None:
        """A request without effects; request or response may be lost."""
        if self._loses():
            self._later(worker, lost, 300)
            return

        def arrive() -> None:
            response = request()
            self._later(worker, lost if self._loses() else lambda: responded(response))

        self.world.after(self._delay(), arrive)

    def append(
        self, worker: Worker, append: Append, responded: Callable[[ErrorCode, EndOfLog], None], lost: Callable[[], None]
    ) -> None:
        """An append; it may arrive twice, late, or after its sender has crashed. The response waits for the commit or the timeout."""
        sent = (
            append if append.chunk is None else append._replace(chunk=replace(append.chunk))
        )  # its sender may release it

        def arrive() -> None:
            code = self.destination.append(sent)
            self.note(
                f"worker {worker.number} appends at {append.expected_end}: {code.name}, the log ends at {self.destination.end}"
            )
            ends = self.destination.ends
            if code is ErrorCode.none and not self._peaceful and not self.world.chance(self.rates.commit):
                code = ErrorCode.request_timed_out
            else:
                self.destination.commit()
            outcome, wait = code, 300 if code is ErrorCode.request_timed_out else 0
            self._later(worker, lost if self._loses() else lambda: responded(outcome, ends), wait)

        def arrive_again() -> None:
            self.destination.append(sent)
            if self._peaceful:
                self.destination.commit()

        if self._loses():
            self._later(worker, lost, 300)
        else:
            self.world.after(self._delay(), arrive)
        if not self._peaceful and self.world.chance(self.rates.repeat):
            self.world.after(self._delay() * 5, arrive_again)

    def _later(self, worker: Worker, then: Callable[[], None], more: int = 0) -> None:
        self.world.after(self._delay() + more, lambda: then() if worker.alive else None)

    def _delay(self) -> int:
        return self.world.random.randrange(1, 3 if self._peaceful else self.rates.delay_max)

    def _loses(self) -> bool:
        return not self._peaceful and self.world.chance(self.rates.loss)

    # -- what happens --------------------------------------------------------------------------------------------------------

    def _rounds(self) -> None:
        if self._peaceful:
            return
        chances: tuple[tuple[float, Callable[[], None]], ...] = (
            (0.8, self.source.produce),
            (0.3, self.source.commit),
            (self.rates.source_election, self.source.elect),
            (self.rates.unclean, self.source.elect_uncleanly),
            (self.rates.retention, self.source.retain),
            (self.rates.compaction, self.source.compact),
            (self.rates.destination_election, self.destination.elect),
            (self.rates.crash, self._replace_worker),
            (self.rates.commit, self.destination.commit),
        )
        for rate, happen in chances:
            if self.world.chance(rate):
                self.note(happen.__name__)
                happen()
        self.world.after(self.world.random.randrange(20, 120), self._rounds)

    def _start_worker(self) -> None:
        worker = Worker(self, len(self.workers))
        self.workers.append(worker)
        worker.turn()

    def _replace_worker(self) -> None:
        """Replace the worker; the old one crashes, or becomes a zombie."""
        if not self.world.chance(self.rates.zombie):
            self.workers[-1].alive = False
        self._start_worker()

    def _make_peace(self) -> None:
        self.note("peace")
        self._peaceful, self.stale = True, 0.0
        self.source.deposed = None
        self.source.commit()
        self.destination.commit()
        for worker in self.workers:
            worker.alive = False
        self._start_worker()

    def _is_done(self) -> bool:
        self._check_failures()
        copy = self.workers[-1].copy
        return copy.failure is not None or (copy.has_all and self.destination.end == self._owed)

    @property
    def _owed(self) -> int:
        """The copy's final end: after the newest batch of the source, or the copy's own end if the source has none."""
        newest = self.source.leader.log[-1].last + 1 if self.source.leader.log else 0
        return max(newest, self.destination.end)

    def _check_failures(self) -> None:
        """Only a source that lost committed records may fail a copy."""
        for worker in self.workers:
            failure = worker.copy.failure
            if failure is not None and not self.source.lost_committed:
                raise Violation(f"worker {worker.number} fails: {failure.error}: {failure.message}")
            if failure is not None and failure.error not in _OF_LOSS:
                raise Violation(f"worker {worker.number} reports a loss of committed records as {failure.error}")

    def note(self, what: str) -> None:
        """Add a line to the trace."""
        self.world.log(0, what)


_OF_LOSS = (MirrorError.UNEXPECTED_TRUNCATION, MirrorError.NON_MONOTONIC_SOURCE_EPOCH)
