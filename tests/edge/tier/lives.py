"""The tier of one partition on two brokers under random work, with a store and a metadata log that fail.

Each seed draws a life: records, leaders that change with and without loss, one that does not know yet that it was deposed, brokers that die
during a copy, records that are deleted, calls that fail before or after their effect. At every moment a segment that counts as copied
is whole in the store. In the end, the tier has what the leader's log has, byte for byte, and nothing else.
"""

import asyncio
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

from isthmus_broker.core.tier.expiry import ABANDONED_MS
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.tier.counts import TierCounts
from isthmus_broker.edge.tier.partition_tier import PartitionTier
from isthmus_broker.edge.tier.segment_copy import Destination
from isthmus_model.clocks import Clocks, MonotonicMs, WallMs
from isthmus_tier.core.chunks import Packing
from isthmus_tier.core.lineage import belongs, with_records
from isthmus_tier.core.names import KINDS, object_name, parse_name
from isthmus_tier.core.partition_segments import PartitionSegments
from isthmus_tier.core.records import Update
from isthmus_tier.core.segments import EpochStart, Place, RemoteSegment, State
from isthmus_tier.edge.download import manifest_of, read_chunks
from isthmus_tier.edge.metadata_log import NotRecorded
from isthmus_tier.edge.store import Missing, Stored, StoreError
from isthmus_wire.records import batches

from tests.edge.replication.nodes import become, fetch, fetch_as_one, leadership, partition, produce
from tests.edge.storage.logs import NOW

CLUSTER: Final = "d2VzdC1vZi1tYW55LXdlcw"
PLACE: Final = Place("t", UUID(int=1), 0)
BROKERS: Final = (1, 2)
_SETTLING_RUNS: Final = 50


class Violation(Exception):
    """What must never be."""

    def __init__(self, kind: str, detail: object) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind


class Faults:
    """Calls fail with a probability of the seed, before or after their effect."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.share = rng.choice((0.0, 0.05, 0.3))

    def around(self, effect: Callable[[], object], error: type[Exception]) -> None:
        """Have the effect, unless the call fails before it."""
        fails = self.rng.random() < self.share
        if fails and self.rng.random() < 0.5:
            raise error("failed before it took effect")
        effect()
        if fails:
            raise error("failed after it took effect")


class MemoryStore:
    """A store in memory."""

    def __init__(self, faults: Faults) -> None:
        self.objects: dict[str, bytes] = {}
        self._faults = faults

    def put(self, name: str, pieces: Iterable[bytes]) -> None:
        data = b"".join(pieces)
        self._faults.around(lambda: self.objects.update({name: data}), StoreError)

    def get(self, name: str, position: int = 0, size: int | None = None) -> bytes:
        if name not in self.objects:
            raise Missing(name)
        return self.objects[name][position : None if size is None else position + size]

    def delete(self, name: str) -> None:
        self._faults.around(lambda: self.objects.pop(name, None), StoreError)

    def list(self, prefix: str) -> Iterator[Stored]:
        yield from (Stored(name, len(data), 0) for name, data in self.objects.items() if name.startswith(prefix))

    def discard_unfinished(self, before_ms: int) -> None:
        pass

    def close(self) -> None:
        pass


class Metadata:
    """The metadata log, which both brokers have read to its end."""

    def __init__(self, faults: Faults) -> None:
        self.segments = PartitionSegments()
        self._faults = faults

    async def loaded(self, _place: Place) -> PartitionSegments:
        await self._wait()
        return self.segments

    async def write(self, record: RemoteSegment | Update) -> None:
        await self._wait()
        self._faults.around(lambda: self.segments.apply(record), NotRecorded)
        await self._wait()

    async def _wait(self) -> None:
        for _ in range(self._faults.rng.randrange(3)):
            await asyncio.sleep(0)


class Inline(ThreadPoolExecutor):
    """Runs work at once."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - the caller gets it
            done.set_exception(error)
        return done


class Broker(NamedTuple):
    """A replica, and the run of its tier that is under way."""

    partition: Partition
    tier: PartitionTier
    runs: list["asyncio.Task[None]"]


class Life:
    """Two brokers, their store and their metadata."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.rng = rng = random.Random(seed)
        self.now = NOW
        self.faults = Faults(rng)
        self.store = MemoryStore(self.faults)
        self.metadata = Metadata(self.faults)
        self.epoch = 0
        self.leader = 1
        clocks = Clocks(lambda: WallMs(self.now), lambda: MonotonicMs(self.now))
        destination = Destination(self.store, CLUSTER, rng.random() < 0.5, None, threading.Event())
        size = rng.choice((400, 700, 1_500))
        self.brokers = {
            broker: Broker(
                partition(directory, broker, segment_bytes=size, index_interval_bytes=rng.choice((1, 200))),
                PartitionTier(broker, PLACE, self.metadata, destination, Inline(), clocks, TierCounts()),  # type: ignore[arg-type]
                [],
            )
            for broker in BROKERS
        }
        self._elect(1, informed=True)

    @property
    def led(self) -> Partition:
        """The replica of the leader."""
        return self.brokers[self.leader].partition

    async def live(self, steps: int) -> None:
        """Take random steps; raises Violation."""
        try:
            for _ in range(steps):
                self._step()
                for _ in range(self.rng.randrange(4)):
                    await asyncio.sleep(0)
                self._check_copied()
            await self._settle()
        finally:
            for of in self.brokers.values():
                if of.partition.log is not None:
                    of.partition.log.pool.close_all()

    def _step(self) -> None:
        rng = self.rng
        match rng.random():
            case p if p < 0.45:
                produce(self.led, *(rng.randbytes(rng.randrange(1, 60)) for _ in range(rng.randrange(1, 4))))
            case p if p < 0.50:
                self._replicate()
            case p if p < 0.83:
                self._start_run(rng.choice(BROKERS))
            case p if p < 0.90:
                self._elect(3 - self.leader, informed=rng.random() < 0.3)
            case p if p < 0.93:
                self._inform(3 - self.leader)
            case p if p < 0.97:
                self._die(rng.choice(BROKERS))
            case _:
                log = self.led.log
                assert log is not None
                log.raise_start(rng.randint(log.log_start_offset, log.high_watermark))
                log.delete_below(log.log_start_offset, MonotonicMs(self.now))

    def _replicate(self) -> None:
        follower = self.brokers[3 - self.leader].partition
        self._inform(3 - self.leader)
        for _ in range(4):
            if self.leader == 1:
                fetch(self.led, follower, self.now)
            else:
                fetch_as_one(self.led, follower)

    def _elect(self, leader: int, *, informed: bool) -> None:
        """Without replication before, records are lost; a broker that is not informed still believes that it leads."""
        if self.rng.random() < 0.3 and leader != self.leader:
            self._replicate()
        self.epoch += 1
        self.leader = leader
        self._inform(leader)
        if informed:
            self._inform(3 - leader)

    def _inform(self, broker: int) -> None:
        state = leadership(self.leader, self.epoch, isr=(self.leader,))
        become(self.brokers[broker].partition, state, now_ms=self.now)

    def _start_run(self, broker: int) -> None:
        of = self.brokers[broker]
        if of.partition.is_led_here and not of.runs:
            run = asyncio.get_running_loop().create_task(_tolerant(of))
            of.runs.append(run)
            run.add_done_callback(of.runs.remove)

    def _die(self, broker: int) -> None:
        for run in self.brokers[broker].runs:
            run.cancel()

    async def _settle(self) -> None:
        self.faults.share = 0.0
        for broker in BROKERS:
            self._inform(broker)
        await self._ended()
        self.now += ABANDONED_MS + 1
        for _ in range(_SETTLING_RUNS):
            self._start_run(self.leader)
            await self._ended()
            self._check_copied()
        self._check_complete()
        self._check_orphans()

    async def _ended(self) -> None:
        for run in [run for of in self.brokers.values() for run in of.runs]:
            with suppress(asyncio.CancelledError):
                await run
        await asyncio.sleep(0)  # the callbacks of the runs

    # -- checks --------------------------------------------------------------------------------------------------------------

    def _check_copied(self) -> None:
        for segment in self.metadata.segments.readable():
            missing = [kind for kind in KINDS if object_name(CLUSTER, segment, kind) not in self.store.objects]
            if missing:
                raise Violation("incomplete", f"{segment} counts as copied without its {', '.join(missing)}")

    def _check_complete(self) -> None:
        """Every closed segment below the last stable offset is in the tier, with the leader's bytes."""
        log = self.led.log
        assert log is not None
        chain = with_records([EpochStart(*one) for one in log.epochs.entries])
        copied: dict[int, bytes] = {}
        for segment in self.metadata.segments.readable():
            if belongs(segment, chain, log.end_offset):
                manifest = manifest_of(self.store, CLUSTER, segment)
                data = b"".join(read_chunks(self.store, manifest, Packing(), 0, len(manifest.log.chunks)))
                copied.update({header.base_offset: data[at : at + header.size] for at, header in batches(data)})
        for local in (one for one in log.segments[:-1] if one.next_offset <= log.last_stable_offset):
            for placed in local.headers():
                stored = local.read(placed.position, placed.header.size)
                if (
                    placed.header.last_offset >= log.log_start_offset
                    and copied.get(placed.header.base_offset) != stored
                ):
                    raise Violation("not-copied", f"the batch at {placed.header.base_offset}")

    def _check_orphans(self) -> None:
        known = {segment.id for segment in self.metadata.segments.all()}
        for name in self.store.objects:
            parsed = parse_name(name)
            if parsed is None or parsed.segment not in known:
                raise Violation("orphan", name)
        unfinished = [one for one in self.metadata.segments.all() if one.state is not State.COPY_FINISHED]
        if unfinished:
            raise Violation("unfinished", unfinished)


async def _tolerant(of: Broker) -> None:
    try:
        await of.tier.run(of.partition, lambda: True)
    except (StoreError, NotRecorded):
        return
