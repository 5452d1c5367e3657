"""The life of a link's partition on an unreliable network, with crashes and zombies, then in peace."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from random import Random

from isthmus_linker.core.epochs import epoch_floor
from isthmus_linker.core.partition import Append, EndOfLog, FetchAt, FetchResult, PartitionCopy, SourceRange, Stage
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.mirrors import MirrorError

from tests.sim.copy_life import CopyLife, WorkerRates, draw_rate
from tests.sim.linker.destination import SimDestination
from tests.sim.linker.source import SimSource
from tests.sim.world import Violation, World

RETRY_TIMEOUT_MS = 5_000


@dataclass(frozen=True)
class Rates:
    """Rates of faults, drawn from the seed."""

    worker: WorkerRates
    source_election: float
    destination_election: float
    retention: float
    compaction: float
    unclean: float
    stale: float
    commit: float

    @classmethod
    def draw(cls, random: Random) -> "Rates":
        return cls(
            worker=WorkerRates.draw(random, 0.2),
            source_election=draw_rate(random, 0.2),
            destination_election=draw_rate(random, 0.3),
            retention=draw_rate(random, 0.15),
            compaction=draw_rate(random, 0.3),
            unclean=draw_rate(random, 0.05) if random.random() < 0.3 else 0.0,
            stale=draw_rate(random, 0.5),
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

        self._life.network.exchange(self, lambda: self._life.destination.progress, responded, lost)

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
        self._life.network.exchange(self, lambda: self._life.source.range(epoch), responded, lost)

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
        self._life.network.exchange(self, lambda: self._life.source.fetch(at, epoch, size), responded, lost)

    def _append(self, append: Append) -> None:
        def responded(code: ErrorCode, ends: EndOfLog) -> None:
            if code is ErrorCode.none:
                self.copy.appended(append, ends)
            else:
                self.copy.append_refused(append, code, ends, MonotonicMs(self._life.world.now))

        self._life.append(
            self, append, responded, lambda: self.copy.append_lost(append, MonotonicMs(self._life.world.now))
        )


class LinkLife(CopyLife[Worker]):
    """Turmoil first, then peace, in which the copy must catch up."""

    def __init__(self, seed: int, *, traced: bool = False, checks_expected_end: bool = True) -> None:
        world = World(seed, traced=traced)
        self.rates = Rates.draw(world.random)
        super().__init__(world, self.rates.worker)
        self.stale = self.rates.stale
        self.source = SimSource(self.world)
        self.destination = SimDestination(self.world, self.source, checks_expected_end=checks_expected_end)

    def run(self) -> None:
        """Raises Violation."""
        for _ in range(self.world.random.randrange(0, 6)):
            self.source.produce()
        self.live()

    def describe(self) -> str:
        return f"the copy ends at {self.destination.end}, the source at {self.source.leader.committed}"

    # -- the network ---------------------------------------------------------------------------------------------------------

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
            if code is ErrorCode.none and not self.network.is_peaceful and not self.world.chance(self.rates.commit):
                code = ErrorCode.request_timed_out
            else:
                self.destination.commit()
            then = lost if self.network.loses() else lambda: responded(code, ends)
            (self.network.time_out if code is ErrorCode.request_timed_out else self.network.respond)(worker, then)

        def arrive_again() -> None:
            self.destination.append(sent)
            if self.network.is_peaceful:
                self.destination.commit()

        self.network.append(worker, arrive, arrive_again, lost)

    # -- what happens --------------------------------------------------------------------------------------------------------

    def events(self) -> Iterable[tuple[float, Callable[[], None]]]:
        return (
            (0.8, self.source.produce),
            (0.3, self.source.commit),
            (self.rates.source_election, self.source.elect),
            (self.rates.unclean, self.source.elect_uncleanly),
            (self.rates.retention, self.source.retain),
            (self.rates.compaction, self.source.compact),
            (self.rates.destination_election, self.destination.elect),
            (self.rates.worker.crash, self.replace_worker),
            (self.rates.commit, self.destination.commit),
        )

    def start_worker(self) -> None:
        worker = Worker(self, len(self.workers))
        self.workers.append(worker)
        worker.turn()

    def calm(self) -> None:
        self.stale = 0.0
        self.source.deposed = None
        self.source.commit()
        self.destination.commit()

    def is_done(self) -> bool:
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


_OF_LOSS = (MirrorError.UNEXPECTED_TRUNCATION, MirrorError.NON_MONOTONIC_SOURCE_EPOCH)
