"""A node's logs on one disk: a random life of appends, truncations, cleaning, moves, crashes, power losses and failing disks."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal
from unittest.mock import patch
from uuid import UUID

from isthmus_broker.core.config.layers import BrokerLayers
from isthmus_broker.core.config.node_config import resolve_node, with_embedded_defaults
from isthmus_broker.core.config.topic_config import resolve_topic
from isthmus_broker.core.log.placement import place
from isthmus_broker.edge.storage import log_manager
from isthmus_broker.edge.storage.checkpoints import TopicPartition
from isthmus_broker.edge.storage.cleaner import Cleaner
from isthmus_broker.edge.storage.files import DiskFailure, FilePool
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.log_dir import LogDir, MetaProperties, read_meta, write_meta
from isthmus_broker.edge.storage.log_manager import LogManager, NoDirectoryLeft
from isthmus_broker.edge.storage.log_mover import LogMover
from isthmus_broker.edge.storage.recovery import identify
from isthmus_model.clocks import Clocks, MonotonicMs, WallMs
from isthmus_wire.markers import Marker, ProducerId, build_marker
from isthmus_wire.records import TRANSACTIONAL_BIT, NewRecord, build_batch, header_at

from tests.sim.power.disk import SimDisk
from tests.sim.power.errors import Operation, ProcessDied
from tests.sim.storage.loop import SimLoop
from tests.sim.storage.metadata import HOME, MetadataLife
from tests.sim.storage.reading import check_producers, content_of
from tests.sim.storage.truth import Ending, Truth, batch_at, producers_of
from tests.sim.world import Violation, World

DIRECTORIES: Final = (Path("/d0"), Path("/d1"))
START_MS: Final = 1_700_000_000_000
STEPS: Final = 45
Fault = Operation | Literal["full"]
FAULTS: Final[Sequence[Fault]] = ("read", "write", "sync", "entry", "full")
_DEFAULTS: Final = resolve_node(BrokerLayers(with_embedded_defaults({}, "unused"))).topic_defaults
_SMALL: Final = replace(
    resolve_topic({}, _DEFAULTS),
    segment_bytes=700,
    index_interval_bytes=150,
    file_delete_delay_ms=1_000,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=3_000,
    flush_ms=5_000,
    segment_ms=20_000,
)
CONFIGS: Final = {
    "plain": _SMALL,
    "compact": replace(_SMALL, cleanup_policy=("compact",)),
    "flush": replace(_SMALL, flush_messages=1, preallocate=True, is_mirrored=True),
}


class StorageLife:
    """One node, through several processes."""

    def __init__(self, seed: int, *, traced: bool = False, faults: Sequence[Fault] = ()) -> None:
        """With `faults` given, every process but the last has one of them."""
        self.world = World(seed, traced=traced)
        random = self.world.random
        self.random = random
        self.disk = SimDisk(random, self._wall)
        self.truths: dict[TopicPartition, Truth] = {}
        self.ids: dict[TopicPartition, UUID] = {}
        self.epochs: dict[TopicPartition, int] = {}
        self.sequences: dict[tuple[TopicPartition, int], int] = {}
        self.configs = dict(CONFIGS)
        self.is_faulty = False
        self.lost: list[TopicPartition] = []
        self._wall_ms = START_MS
        self._last_id = 0
        self._faults = faults or FAULTS
        self._fault_rate = 1.0 if faults else random.choice((0.0, 0.0, 0.5))
        self._power_rate = random.choice((0.2, 0.5, 0.8))
        self._retention_ms = random.choice((-1, 4_000, 60_000))
        self.configs["plain"] = replace(_SMALL, retention_ms=self._retention_ms)
        self.metadata = MetadataLife(random, self.log)

    def _wall(self) -> int:
        return self._wall_ms

    # -- processes -----------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        def uuid() -> UUID:
            return UUID(int=self.random.getrandbits(128))

        with patch.object(log_manager, "uuid4", uuid):
            self._run_processes()

    def _run_processes(self) -> None:
        files = self.disk.start()
        for number, path in enumerate((*DIRECTORIES, HOME)):
            write_meta(files, path, MetaProperties("cluster", 1, UUID(int=number + 1)))
        files.sync_path(Path("/"))
        for _ in range(self.random.randint(2, 5)):
            self._live(faults=self.random.random() < self._fault_rate)
        self._live(faults=False)

    def _live(self, *, faults: bool) -> None:
        """One process, from its start to its end."""
        self.disk.repair()
        self.disk.capacity = 1 << 40
        self.is_faulty = False
        self.lost = []
        death = self.disk.cut_power if self.random.random() < self._power_rate else self.disk.kill
        try:
            self._process(death, faults=faults)
        finally:
            self.loop.abandon()

    def _process(self, death: Callable[[], None], *, faults: bool) -> None:
        how: Ending = "power" if death == self.disk.cut_power else "kill"
        try:
            self._start(death, faults=faults)
            for _ in range(self.random.randrange(STEPS)):
                self._step()
            if self.random.random() < 0.3:
                self._stop()
                if not self.is_faulty:
                    if how == "power":
                        self.disk.cut_power()
                    return
            death()
        except ProcessDied:
            pass
        except NoDirectoryLeft:
            if not self.is_faulty:
                raise
            death()
        self._ended(how)

    def _ended(self, how: Ending) -> None:
        self.log(f"ends by {how}")
        for truth in (*self.truths.values(), self.metadata.truth):
            truth.ended(how)

    def _start(self, death: Callable[[], None], *, faults: bool) -> None:
        files = self.disk.start()
        if self.random.random() < 0.6:
            self.disk.act_at(self.random.randrange(1, 400), death)
        if faults:
            self._plan_fault()
        self.loop = SimLoop()  # type: ignore[abstract]
        self._with_metadata(lambda: self.metadata.start(files, self.clocks(), self.loop))
        with self.loop.running():
            directories = [self._directory(LogDir(files, path)) for path in DIRECTORIES]
            self.logs = LogManager(directories, FilePool(files, 6), self.configs.__getitem__, self, self.clocks())
            self.mover = LogMover(self.logs, lambda: 2.0**63, lambda _key, _log: None)
            self.cleaner = Cleaner(self.logs)
            load = self.loop.create_task(self.logs.load(2, lambda topic: self.ids.get((topic, 0))))
        self.loop.settle()
        self._check_errors()
        with self.loop.running():
            load.result()
            self.mover.resume()
            self._check_start()

    def clocks(self) -> Clocks:
        loop = self.loop
        return Clocks(lambda: WallMs(self._wall_ms), lambda: MonotonicMs(int(loop.now * 1000)))

    def _directory(self, directory: LogDir) -> LogDir:
        """As a node opens it."""
        try:
            directory.directory_id = read_meta(directory.files, directory.path).directory_id
            directory.acquire()
            directory.remove_clean_marker()
        except DiskFailure:
            self._fault_is_expected()
            directory.online = False
        return directory

    def _stop(self) -> None:
        """Stop as a node does."""
        self.cleaner.stop()
        self.mover.stop()
        self.loop.settle()
        self._check_errors()
        with self.loop.running():
            self.logs.close(7)
        self._with_metadata(self.metadata.stop)
        self.log("stops")
        if self.is_faulty:
            return
        self.disk.kill()
        for key, truth in self.truths.items():
            truth.synced(self.logs.logs[key].end_offset)
            truth.current.confirmed_start = truth.current.start

    # -- failures ------------------------------------------------------------------------------------------------------------

    def _plan_fault(self) -> None:
        self.is_faulty = True
        fault = self.random.choice(self._faults)
        under = self.random.choice((*DIRECTORIES, HOME, Path("/")))
        times = self.random.choice((1, None))
        self.log(f"fault: {fault} under {under}, {times}")
        if fault == "full":
            self.disk.capacity = self.disk.used + self.random.randrange(4_000)
            return
        after = self.random.choice((0, self.random.randrange(10), self.random.randrange(60)))
        self.disk.fail(fault, under=under, times=times, after=after)

    def directory_failed(self, lost: Sequence[TopicPartition]) -> None:
        self.log(f"a directory failed with {lost}")
        self._fault_is_expected()
        self.lost += lost

    def all_directories_failed(self, error: NoDirectoryLeft) -> None:
        raise error

    def _fault_is_expected(self) -> None:
        if not self.is_faulty:
            raise Violation("disk-failure: a log directory failed although the disk did not")

    # -- checks --------------------------------------------------------------------------------------------------------------

    def _check_start(self) -> None:
        """Compare every log with what was done to it."""
        self.log("started")
        for key, truth in self.truths.items():
            log = self.logs.logs.get(key)
            if log is not None and log.topic_id not in (self.ids[key], None):
                self.logs.delete(key)
                log = None
            if log is None:
                if not all(directory.online for directory in self.logs.directories):
                    continue
                try:
                    log = self._create(key)
                except DiskFailure:
                    self._fault_is_expected()
                    continue
            try:
                self._check_log(key, log, truth)
            except DiskFailure as failure:
                self._fault_is_expected()
                self.logs.fail_log(key, failure)

    def _check_log(self, key: TopicPartition, log: Log, truth: Truth) -> None:
        """Compare a log with what was done to it, and record its topic id if it has none, as a broker does before it uses a log."""
        content = content_of(log)
        truth.check(content)
        if log.topic_id is None:
            identify(log, self.ids[key])
        check_producers(truth, log, content)
        self.epochs[key] += 1
        self._observe(key)

    def _create(self, key: TopicPartition) -> Log:
        return self.logs.create(*key, self.ids[key])

    def _observe(self, key: TopicPartition) -> None:
        """Note what the product claims to be durable."""
        log = self.logs.logs.get(key)
        if log is None:
            return
        truth = self.truths[key]
        version = truth.current
        truth.synced(log.recovery_point)
        version.confirmed_start = max(version.confirmed_start, min(log.segments[0].base_offset, log.log_start_offset))
        version.start = max(version.start, log.log_start_offset)

    def _check_errors(self) -> None:
        for error in self.loop.errors:
            if isinstance(error, ProcessDied | NoDirectoryLeft | Violation):
                raise error
            raise Violation(f"error: it reached the event loop: {error!r}") from error

    def log(self, what: str) -> None:
        self.world.log(1, f"{what} [{self.disk.operations}]")

    # -- steps ---------------------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        steps: list[tuple[int, Callable[[], None]]] = [
            (30, self._append_some),
            (10, self._turn_loop),
            (6, lambda: self._run(self.logs.checkpoint)),
            (3, lambda: self._run(self.logs.checkpoint_watermarks)),
            (4, lambda: self._on_log(self._truncate)),
            (2, lambda: self._on_log(self._restart)),
            (3, lambda: self._on_log(self._raise_start)),
            (3, lambda: self._on_log(self._flush)),
            (3, lambda: self._run(self.logs.flush_due)),
            (3, lambda: self._on_log(self._begin_epoch)),
            (3, lambda: self._run(self.logs.delete_expired)),
            (4, lambda: self._run(self.cleaner.start_round)),
            (3, self._move),
            (2, self._checkpoint_confirmed),
            (1, self._recreate),
            (3, self._sleep),
            (25, lambda: self._with_metadata(self.metadata.step)),
        ]
        weights = [weight for weight, _ in steps]
        step = self.random.choices([each for _, each in steps], weights)[0]
        step()
        self._check_errors()
        for key in self.truths:
            self._observe(key)

    def _with_metadata(self, act: Callable[[], None]) -> None:
        """A step of the raft storage; a failing disk ends the node."""
        with self.loop.running():
            try:
                act()
                self.metadata.raise_fault()
            except OSError as failure:
                self._fault_is_expected()
                raise NoDirectoryLeft(str(failure)) from failure

    def _run(self, job: Callable[[], None]) -> None:
        """A job of the product's maintenance, on the event loop."""
        self.log(getattr(job, "__name__", "job"))
        with self.loop.running():
            job()

    def _turn_loop(self) -> None:
        for _ in range(self.random.randrange(1, 4)):
            self.loop.run(self.random.randrange(1, 12))
            self._check_errors()
            self.loop.run_job()

    def _sleep(self) -> None:
        seconds = self.random.choice((0.5, 2.0, 30.0))
        self._wall_ms += int(seconds * 1000)
        self.loop.advance(seconds)
        self._turn_loop()

    def _append_some(self) -> None:
        for _ in range(self.random.randrange(1, 6)):
            self._on_log(self._append)

    def _on_log(self, act: Callable[[TopicPartition, Log, Truth], None]) -> None:
        """A change of a random log; a failing disk takes the log's directory offline."""
        key = (self.random.choice(sorted(self.configs)), 0)
        if key in self.lost:
            return
        with self.loop.running():
            try:
                if key not in self.truths:
                    self._new_topic(key)
                log = self.logs.logs.get(key)
                if log is not None:
                    act(key, log, self.truths[key])
            except DiskFailure as failure:
                self._fault_is_expected()
                self.logs.fail_log(key, failure)
                if key not in self.lost:
                    self.lost.append(key)

    def _new_topic(self, key: TopicPartition) -> None:
        self._last_id += 1
        self.ids[key] = UUID(int=self._last_id)
        self.truths[key] = Truth(f"{key[0]}-{key[1]} ({self._last_id})", compacts=key[0] == "compact")
        self.epochs[key] = 0
        self.log(f"create {key}")
        if key in self.logs.logs:
            self.logs.delete(key)  # of a deleted topic
        self.logs.create(*key, self.ids[key])

    def _append(self, key: TopicPartition, log: Log, truth: Truth) -> None:
        as_follower = key[0] == "flush" and self.random.random() < 0.5
        base = log.end_offset
        if as_follower and self.random.random() < 0.2:
            base += self.random.randrange(4)  # the leader's log has gaps
        data = self._transaction_end(key, truth) or self._records(key)
        placed = place(data, header_at(data), base, self.epochs[key])
        truth.append(batch_at(bytes(data)))
        now = self.logs.clocks.monotonic()
        if as_follower:
            log.append_as_follower(bytes(data), self.epochs[key], now)
        else:
            log.append(data, placed, now)
        truth.done()
        if self.random.random() < 0.7:
            log.high_watermark = log.end_offset

    def _records(self, key: TopicPartition) -> bytearray:
        """A new batch: of a producer, perhaps transactional, or of none."""
        records = [
            NewRecord(self._key(key), self._value(key), self._wall_ms) for _ in range(self.random.randrange(1, 4))
        ]
        producer = self.random.randrange(-1, 3)
        if producer < 0:
            return bytearray(build_batch(records))
        sequence = self.sequences.get((key, producer), 0)
        self.sequences[key, producer] = sequence + len(records)
        attributes = TRANSACTIONAL_BIT if producer == 2 and key[0] != "compact" else 0
        return bytearray(
            build_batch(records, producer_id=producer, producer_epoch=0, base_sequence=sequence, attributes=attributes)
        )

    def _key(self, key: TopicPartition) -> bytes | None:
        return b"k%d" % self.random.randrange(8) if key[0] == "compact" else None

    def _value(self, key: TopicPartition) -> bytes | None:
        if key[0] == "compact" and self.random.random() < 0.2:
            return None
        return b"v%d" % self.random.randrange(10**6) + b"-" * self.random.randrange(80)

    def _transaction_end(self, key: TopicPartition, truth: Truth) -> bytearray | None:
        state, _ = producers_of(truth.current.batches)
        if state.first_open_offset() is None or self.random.random() < 0.7:
            return None
        return bytearray(build_marker(Marker(ProducerId(2, 0), self.random.random() < 0.5, 0), self._wall_ms))

    def _truncate(self, key: TopicPartition, log: Log, truth: Truth) -> None:
        # Nothing that compaction relied on is truncated: it was committed.
        lowest = max(log.log_start_offset, log.recovery_point if truth.compacts else 0)
        ends = [b.header.base_offset for b in truth.current.batches if b.header.base_offset >= lowest]
        if not ends:
            return
        end = self.random.choice(ends[-6:])
        self.log(f"truncate {key} to {end} of {log.end_offset}")
        truth.truncate(end)
        self.mover.truncated(key, end)
        log.truncate_to(end, self.logs.clocks.monotonic())
        truth.done()
        self.epochs[key] += 1

    def _restart(self, key: TopicPartition, log: Log, truth: Truth) -> None:
        offset = log.end_offset + self.random.randrange(20)
        self.log(f"restart {key} at {offset}")
        truth.restart(offset)
        log.restart_at(offset, self.logs.clocks.monotonic())
        truth.done()
        self.epochs[key] += 1

    def _raise_start(self, key: TopicPartition, log: Log, truth: Truth) -> None:
        if log.high_watermark > log.log_start_offset and key[0] != "compact":
            offset = self.random.randint(log.log_start_offset, log.high_watermark)
            self.log(f"raise start of {key} to {offset}")
            truth.raise_start(offset)
            log.raise_start(offset)

    def _flush(self, key: TopicPartition, log: Log, truth: Truth) -> None:
        self.log(f"flush {key}")
        log.flush(self.logs.clocks.monotonic())

    def _begin_epoch(self, key: TopicPartition, log: Log, truth: Truth) -> None:
        self.epochs[key] += 1
        truth.assign_epoch(self.epochs[key])
        log.begin_epoch(self.epochs[key])

    def _move(self) -> None:
        keys = sorted(self.logs.logs)
        target = self.random.choice(self.logs.directories)
        if keys and target.online:
            key = self.random.choice(keys)
            self.log(f"move {key} to {target.path}")
            with self.loop.running():
                try:
                    self.mover.move(key, target)
                except DiskFailure as failure:
                    self._fault_is_expected()
                    self.logs.fail(target, failure)

    def _checkpoint_confirmed(self) -> None:
        """A checkpoint that completes: from now on no log start moves back."""
        starts = {key: log.log_start_offset for key, log in self.logs.logs.items()}
        self._run(self.logs.checkpoint)
        self.loop.settle()
        self._check_errors()
        for key, start in starts.items():
            if key in self.logs.logs and key in self.truths:
                self.truths[key].current.confirmed_start = start

    def _recreate(self) -> None:
        """Delete a topic, and create it again."""
        keys = sorted(self.logs.logs)
        if not keys:
            return
        key = self.random.choice(keys)
        self.log(f"delete {key}")
        self.truths.pop(key, None)  # a deleted topic's log may be there again after a power loss
        with self.loop.running(), suppress(DiskFailure):
            self.logs.delete(key)
