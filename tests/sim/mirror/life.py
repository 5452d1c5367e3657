"""The life of a mirrored partition on an unreliable network, with crashes and zombies, then in peace."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from isthmus_mirror.core.outbox import Stretch
from isthmus_mirror.core.partition import SourceRange, Stage
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
from isthmus_mirror.core.sequenced import Placed, SequencedCopy
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode

from tests.sim.copy_life import CopyLife, WorkerRates, draw_rate
from tests.sim.mirror.source import SimSource
from tests.sim.mirror.target import SimTarget, Taken
from tests.sim.world import Violation, World

COPY = Copy(Place("orders", 0), None)


@dataclass(frozen=True)
class Rates:
    """Rates of faults, drawn from the seed."""

    worker: WorkerRates
    election: float
    retention: float
    compaction: float
    commit: float
    chained: float
    """The share of mirrors that use AppendAfter; a cluster may have brokers of both kinds."""

    @classmethod
    def draw(cls, random: Random) -> "Rates":
        return cls(
            worker=WorkerRates.draw(random, 0.4),
            election=draw_rate(random, 0.3),
            retention=draw_rate(random, 0.1),
            compaction=draw_rate(random, 0.8),
            commit=0.1 + 0.9 * random.random(),
            chained=random.choice((0.0, 0.5, 1.0, 1.0)),
        )


class TrustingCopy(SequencedCopy):
    """The planted defect: takes every response without an error as success."""

    def appended(self, sent: Stretch, base_offset: int, append_time: int, now_ms: int) -> None:
        super().appended(sent, sent.base, -1, MonotonicMs(now_ms))
        if self.to_check is sent:
            self.checked(sent, sent.batches[0].crc, MonotonicMs(now_ms))


class Worker:
    """The edge's work over an unreliable network. A zombie is a replaced mirror that continues."""

    def __init__(self, life: "MirrorLife", number: int, copy: SequencedCopy) -> None:
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
            life.network.exchange(
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
            life.network.exchange(self, life.progress, lambda jumps: settle_jumps(end, jumps), self._lost)

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
            life.network.exchange(self, lambda: life.settled(settled), lambda _: done(placed), self._lost)

        def done(placed: Placed) -> None:
            self._looking_up = False
            self.copy.placed(placed)
            life.note(f"mirror {self.number} is placed at {placed.end}: {[jump.runs for jump in placed.jumps]}")

        life.network.exchange(self, lambda: life.target.committed, ended, self._lost)

    def _look_up_source(self) -> None:
        def responded(reported: SourceRange) -> None:
            self._looking_up = False
            self.copy.source_has(reported, MonotonicMs(self._life.world.now))

        self._life.network.exchange(self, self._life.source.range, responded, self._lost)

    def _check(self) -> None:
        sent = self.copy.to_check
        assert sent is not None

        def responded(crc: int | None) -> None:
            self._looking_up = False
            self.copy.checked(sent, crc, MonotonicMs(self._life.world.now))

        self._life.network.exchange(self, lambda: self._life.target.crc_at(sent.base), responded, self._lost)

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

        life.network.exchange(self, lambda: life.source.fetch(at, size), responded, lost)

    def _record(self, proposed: list[Jump], certain: list[Jump]) -> None:
        def done(_: None) -> None:
            self._recording = False
            self.copy.recorded(proposed)
            self.copy.confirmed(certain)

        def lost() -> None:
            self._recording = False

        self._life.network.exchange(self, lambda: self._life.record(proposed, certain), done, lost)

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


class MirrorLife(CopyLife[Worker]):
    """Turmoil first, then peace, in which the copy must catch up, and its map must be true."""

    def __init__(self, seed: int, *, traced: bool = False, trusting: bool = False, blind: bool = False) -> None:
        world = World(seed, traced=traced)
        self.rates = Rates.draw(world.random)
        super().__init__(world, self.rates.worker)
        self.source = SimSource(self.world)
        self.target = SimTarget(self.world, self.source, compares_checksums=not blind)
        self._records: dict[bytes, bytes] = {}
        self._copy = TrustingCopy if trusting else SequencedCopy

    def run(self) -> None:
        """Raises Violation."""
        for _ in range(self.world.random.randrange(0, 6)):
            self.source.produce()
        self.live()
        self._check_map()

    def describe(self) -> str:
        return (
            f"the copy reached {self.workers[-1].copy.reached}, the source ends at {self.source.end}; its map ends at "
            f"{self.workers[-1].copy.map.end}, and the log at {self.target.end}"
        )

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
            if is_taken and not self.network.is_peaceful and not self.world.chance(self.rates.commit):
                self.network.time_out(worker, lost)
                return
            self.target.commit()
            self.network.respond(worker, lost if self.network.loses() else lambda: responded(response))

        self.network.append(worker, arrive, arrive_again, lost)

    # -- what happens --------------------------------------------------------------------------------------------------------

    def events(self) -> Iterable[tuple[float, Callable[[], None]]]:
        return (
            (0.8, self.source.produce),
            (0.3, self.target.commit),
            (self.rates.election, self.target.elect),
            (self.rates.retention, self.source.retain),
            (self.rates.compaction, self.source.compact),
            (self.rates.compaction, self._compact_copy),
            (self.rates.worker.crash, self.replace_worker),
        )

    def start_worker(self) -> None:
        worker = Worker(self, len(self.workers), self._copy(producer_id=1 << 62))
        self.workers.append(worker)
        worker.turn()

    def calm(self) -> None:
        self.target.commit()

    def is_done(self) -> bool:
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
