"""The life of a mirrored partition on an unreliable network, with crashes and zombies, then in peace."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from isthmus_mirror.core.outbox import Stretch
from isthmus_mirror.core.partition import PartitionCopy, Placed, SourceRange, Stage
from isthmus_mirror.core.progress import (
    Behind,
    Copy,
    Jump,
    Jumps,
    Kind,
    NeedsChecksum,
    Place,
    Settled,
    decode_key,
    decode_runs,
    encode_key,
    encode_value,
    settle,
)
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode

from tests.sim.mirror.source import SimSource
from tests.sim.mirror.target import SimTarget, Taken
from tests.sim.world import Violation, World

A = TypeVar("A")
TURMOIL_MS = 8_000
PEACE_MS = 60_000
COPY = Copy(Place("orders", 0), None)


@dataclass(frozen=True)
class Rates:
    """Rates of faults, drawn from the seed."""

    loss: float
    repeat: float
    delay_max: int
    crash: float
    zombie: float
    election: float
    retention: float
    compaction: float
    commit: float
    chained: float
    """The share of mirrors that use AppendAfter; a cluster may have brokers of both kinds."""

    @classmethod
    def draw(cls, random: Random) -> "Rates":
        def rate(most: float) -> float:
            return 0.0 if random.random() < 0.3 else most * random.random() ** 2

        return cls(
            loss=rate(0.4),
            repeat=rate(0.3),
            delay_max=random.choice((5, 50, 400)),
            crash=rate(0.4),
            zombie=random.random(),
            election=rate(0.3),
            retention=rate(0.1),
            compaction=rate(0.8),
            commit=0.1 + 0.9 * random.random(),
            chained=random.choice((0.0, 0.5, 1.0, 1.0)),
        )


class TrustingCopy(PartitionCopy):
    """The planted defect: takes every response without an error as success."""

    def appended(self, sent: Stretch, base_offset: int, append_time: int, now_ms: int) -> None:
        super().appended(sent, sent.base, -1, MonotonicMs(now_ms))
        if self.to_check is sent:
            self.checked(sent, sent.batches[0].crc, MonotonicMs(now_ms))


class Worker:
    """The edge's work over an unreliable network. A zombie is a replaced mirror that continues."""

    def __init__(self, life: "MirrorLife", number: int, copy: PartitionCopy) -> None:
        self.copy = copy
        self.number = number
        self.alive = True
        self._life = life
        self._is_chained = life.world.chance(life.rates.chained)
        self._looking_up = False
        self._fetching = False
        self._recording = False

    def turn(self) -> None:
        """Do everything that is due, and schedule the next turn."""
        if not self.alive:
            return
        now = self._life.world.now
        for stage, request in (
            (Stage.PLACE, self._place), (Stage.LOOK_UP_SOURCE, self._look_up_source), (Stage.CHECK, self._check),
        ):  # fmt: skip
            if not self._looking_up and self.copy.needs_lookup(stage, MonotonicMs(now)):
                self._looking_up = True
                request()
        if self.copy.has_all and self._life.world.chance(0.05):
            life = self._life
            life.exchange(
                self,
                lambda: life.target.committed,
                lambda end: self.copy.check_end(end, MonotonicMs(life.world.now)),
                lambda: None,
            )
        at = None if self._fetching else self.copy.fetch_at(MonotonicMs(now))
        if at is not None:
            self._fetching = True
            self._fetch(at[0])
        proposed, certain = self.copy.jumps_to_record(), self.copy.jumps_to_confirm()
        if (proposed or certain) and not self._recording:
            self._recording = True
            self._record(proposed, certain)
        while (sent := self.copy.next_append(MonotonicMs(now), chained=self._is_chained)) is not None:
            self._append(sent)
        self._life.world.after(self._life.world.random.randrange(1, 40), self.turn)

    def _lost(self) -> None:
        self._looking_up = False
        self.copy.lookup_failed(MonotonicMs(self._life.world.now))

    def _place(self) -> None:
        """Look up the end first and the jumps after it, each over the network, and the jumps again after every read of the copy."""
        life = self._life
        checksums: dict[int, int | None] = {}

        def ended(end: int) -> None:
            life.exchange(self, life.progress, lambda jumps: settle_jumps(end, jumps), self._lost)

        def settle_jumps(end: int, jumps: Jumps) -> None:
            settled = settle(jumps, 0, end, checksums)
            if isinstance(settled, NeedsChecksum):
                checksums[settled.base] = life.target.crc_at(settled.base)
                ended(end)
                return
            tail = life.target.tail(end) if end else None
            if isinstance(settled, Behind) or (end and tail is None):
                self._lost()
                return
            assert isinstance(settled, Settled)
            placed = Placed(0, end, settled.jumps, tail)
            life.exchange(self, lambda: life.settled(settled), lambda _: done(placed), self._lost)

        def done(placed: Placed) -> None:
            self._looking_up = False
            self.copy.placed(placed)
            life.note(f"mirror {self.number} is placed at {placed.end}: {[jump.runs for jump in placed.jumps]}")

        life.exchange(self, lambda: life.target.committed, ended, self._lost)

    def _look_up_source(self) -> None:
        def responded(reported: SourceRange) -> None:
            self._looking_up = False
            self.copy.source_has(reported, MonotonicMs(self._life.world.now))

        self._life.exchange(self, self._life.source.range, responded, self._lost)

    def _check(self) -> None:
        sent = self.copy.to_check
        assert sent is not None

        def responded(crc: int | None) -> None:
            self._looking_up = False
            self.copy.checked(sent, crc, MonotonicMs(self._life.world.now))

        self._life.exchange(self, lambda: self._life.target.crc_at(sent.base), responded, self._lost)

    def _fetch(self, at: int) -> None:
        life = self._life
        size = life.world.random.choice((1, 150, 400, 5_000))

        def responded(response: object) -> None:
            self._fetching = False
            if isinstance(response, ErrorCode):
                self.copy.fetch_refused(at, response, MonotonicMs(life.world.now))
            else:
                self.copy.fetched(at, response, life.world.now)  # type: ignore[arg-type]

        def lost() -> None:
            self._fetching = False

        life.exchange(self, lambda: life.source.fetch(at, size), responded, lost)

    def _record(self, proposed: list[Jump], certain: list[Jump]) -> None:
        def done(_: None) -> None:
            self._recording = False
            self.copy.recorded(proposed)
            self.copy.confirmed(certain)

        def lost() -> None:
            self._recording = False

        self._life.exchange(self, lambda: self._life.record(proposed, certain), done, lost)

    def _append(self, sent: Stretch) -> None:
        life = self._life

        def responded(response: Taken | ErrorCode) -> None:
            if isinstance(response, Taken):
                self.copy.appended(sent, response.base_offset, response.append_time, MonotonicMs(life.world.now))
            elif response is ErrorCode.none:
                self.copy.followed(sent, MonotonicMs(life.world.now))
            else:
                self.copy.append_refused(sent, MonotonicMs(life.world.now))

        life.append(self, sent, responded, lambda: self.copy.append_refused(sent, MonotonicMs(life.world.now)))


class MirrorLife:
    """Turmoil first, then peace, in which the copy must catch up, and its map must be true."""

    def __init__(self, seed: int, *, traced: bool = False, trusting: bool = False, blind: bool = False) -> None:
        self.world = World(seed, traced=traced)
        self.rates = Rates.draw(self.world.random)
        self.source = SimSource(self.world)
        self.target = SimTarget(self.world, self.source, compares_checksums=not blind)
        self.workers: list[Worker] = []
        self._records: dict[bytes, bytes] = {}
        self._copy = TrustingCopy if trusting else PartitionCopy
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
            raise Violation(
                f"the copy reached {self.workers[-1].copy.reached}, the source ends at {self.source.end}; its map ends at "
                f"{self.workers[-1].copy.map.end}, and the log at {self.target.end}"
            )
        self._check_map()

    # -- progress ------------------------------------------------------------------------------------------------------------

    def record(self, proposed: Sequence[Jump], certain: Sequence[Jump]) -> None:
        """Write jumps, encoded as in the topic."""
        for jump in proposed:
            self._records[encode_key(COPY, jump.mark, Kind.PROPOSED)] = encode_value(jump)
        for jump in certain:
            self._records[encode_key(COPY, jump.mark, Kind.CERTAIN)] = encode_value(jump)
            self._records.pop(encode_key(COPY, jump.mark, Kind.PROPOSED), None)

    def settled(self, reported: Settled) -> None:
        """Make proven jumps certain and delete void ones."""
        self.record((), reported.proven)
        for jump in reported.void:
            self._records.pop(encode_key(COPY, jump.mark, Kind.PROPOSED), None)

    def progress(self) -> Jumps:
        """The durable jumps."""
        reported = Jumps()
        for key, value in self._records.items():
            decoded = decode_key(key)
            assert decoded is not None
            reported.keep(Jump(decoded[1], decode_runs(value)), decoded[2])
        return reported

    def _compact_copy(self) -> None:
        """Compact the copy before the first jump that is not certain: the cleaner never comes nearer to the end."""
        unsure = self.progress().proposed
        self.target.compact(min((mark.base for mark in unsure), default=self.target.committed))

    # -- the network ---------------------------------------------------------------------------------------------------------

    def exchange(
        self, worker: Worker, request: Callable[[], A], responded: Callable[[A], None], lost: Callable[[], None]
    ) -> None:
        """A request; request or response may be lost, so it may take effect without a response."""
        if self._loses():
            self._later(worker, lost, 300)
            return

        def arrive() -> None:
            response = request()
            self._later(worker, lost if self._loses() else lambda: responded(response))

        self.world.after(self._delay(), arrive)

    def append(
        self,
        worker: Worker,
        sent: Stretch,
        responded: Callable[[Taken | ErrorCode], None],
        lost: Callable[[], None],
    ) -> None:
        """An append; it may arrive twice, late, or after its sender has crashed. The response waits for the commit, or is lost."""
        data, base, after_crc = [bytes(out.data) for out in sent.batches], sent.base, sent.after_crc

        def take() -> Taken | ErrorCode:
            return self.target.append_after(base, after_crc, data) if sent.is_chained else self.target.append(data[0])

        def arrive_again() -> None:
            take()

        def arrive() -> None:
            response = take()
            self.note(f"mirror {worker.number} appends {len(data)} at {base}: {response}")
            is_taken = isinstance(response, Taken) or response is ErrorCode.none
            if is_taken and not self._peaceful and not self.world.chance(self.rates.commit):
                self._later(worker, lost, 300)
                return
            self.target.commit()
            self._later(worker, lost if self._loses() else lambda: responded(response))

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
            (0.3, self.target.commit),
            (self.rates.election, self.target.elect),
            (self.rates.retention, self.source.retain),
            (self.rates.compaction, self.source.compact),
            (self.rates.compaction, self._compact_copy),
            (self.rates.crash, self._replace_worker),
        )
        for rate, happen in chances:
            if self.world.chance(rate):
                self.note(happen.__name__)
                happen()
        self.world.after(self.world.random.randrange(20, 120), self._rounds)

    def _start_worker(self) -> None:
        worker = Worker(self, len(self.workers), self._copy(1 << 62))
        self.workers.append(worker)
        worker.turn()

    def _replace_worker(self) -> None:
        """Replace the mirror; the old one crashes, or becomes a zombie."""
        if not self.world.chance(self.rates.zombie):
            self.workers[-1].alive = False
        self._start_worker()

    def _make_peace(self) -> None:
        self.note("peace")
        self._peaceful = True
        self.target.commit()
        for worker in self.workers:
            worker.alive = False
        self._start_worker()

    def _is_done(self) -> bool:
        for worker in self.workers:
            if worker.copy.failure:
                raise Violation(f"mirror {worker.number} fails: {worker.copy.failure}")
        copy = self.workers[-1].copy
        return copy.has_all and copy.reached >= self.source.end and copy.map.end == self.target.end

    def _check_map(self) -> None:
        """Check the map both ways for every offset."""
        truth, decoded = self.target.truth, self.workers[-1].copy.map
        if decoded.end != len(truth):
            raise Violation(f"the map ends at {decoded.end}, and the copy has {len(truth)} records")
        for downstream, upstream in enumerate(truth):
            if decoded.to_upstream(downstream) != upstream:
                raise Violation(f"the copy has {upstream} at {downstream}, the map {decoded.to_upstream(downstream)}")
        for upstream in range(self.source.end + 1):
            first = next((d for d, u in enumerate(truth) if u >= upstream), len(truth))
            if decoded.to_downstream(upstream) != first:
                raise Violation(f"{upstream} is {first} in the copy, in the map {decoded.to_downstream(upstream)}")

    def note(self, what: str) -> None:
        """Add a line to the trace."""
        self.world.log(0, what)
