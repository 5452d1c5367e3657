"""A compacted log under random work, checked against a plain list of its batches.

Each seed draws the settings and a life: batches with and without transactions, tombstones, deleted records, truncations, cleaning rounds
with appends in between, kills between the renames of a swap, restarts. After every step a consumer's view of the log must be the view of a
log that was never cleaned.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

from isthmus_broker.edge.storage import cleaner as cleaner_module
from isthmus_broker.edge.storage.checkpoints import PRODUCERS_SUFFIX
from isthmus_broker.edge.storage.cleaner import Cleaner
from isthmus_broker.edge.storage.files import FilePool
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.log_dir import LogDir
from isthmus_broker.edge.storage.log_manager import LogManager
from isthmus_model.clocks import Clocks, MonotonicMs, WallMs
from isthmus_wire.markers import Marker, ProducerId, build_marker, marker_of
from isthmus_wire.records import (
    TRANSACTIONAL_BIT,
    BatchHeader,
    NewRecord,
    Record,
    build_batch,
    checksum_matches,
    iterate_records,
)

from tests.edge.storage.logs import NOW, NoFailures, append_batch, config, room_for
from tests.edge.storage.memory_files import MemoryFiles

KEY = ("t", 0)
HOME = Path("/logs")
RETENTION_MS = 1_000


class Violation(Exception):
    """A guarantee of compaction does not hold; `kind` names it."""

    def __init__(self, kind: str, detail: object) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind


class Killed(Exception):
    """The process ends at this call."""


class MortalFiles(MemoryFiles):
    """Files of a process that is killed at one of its next renames; the files stay."""

    def __init__(self) -> None:
        super().__init__()
        self.renames_left: int | None = None

    def rename(self, source: Path, target: Path) -> None:
        self._live()
        if self.renames_left is not None:
            self.renames_left -= 1
        super().rename(source, target)

    def remove_directory(self, path: Path) -> None:
        self._live()
        super().remove_directory(path)

    def remove(self, path: Path) -> None:
        self._live()
        super().remove(path)

    def _live(self) -> None:
        if self.renames_left == 0:
            raise Killed


class InlineExecutor(ThreadPoolExecutor):
    """Runs the work of the disk's thread at once, so that a life depends on its seed alone."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **_: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(work(*arguments))
        return done


@dataclass(frozen=True)
class Batch:
    """A batch as it was appended, or as it is in the log."""

    header: BatchHeader
    records: tuple[Record, ...]

    @property
    def marker(self) -> Marker | None:
        """The transaction marker in it."""
        return marker_of(self.header, self.records[0]) if self.header.is_control and self.records else None


@dataclass
class World:
    """The log, and the list of all batches that were appended to it."""

    seed: int
    batches: list[Batch] = field(default_factory=list)
    now: int = NOW

    def __post_init__(self) -> None:
        self.rng = rng = random.Random(self.seed)
        self.settings = config(
            cleanup_policy=("compact",),
            segment_bytes=rng.choice((300, 700, 2_000)),
            min_cleanable_dirty_ratio=0.0,
            index_interval_bytes=rng.choice((1, 200)),
            delete_retention_ms=RETENTION_MS,
        )
        self.keys = rng.randrange(2, 10)
        self.keys_max = rng.choice((1, 3, 3, 6, 1_000))
        self.sequences = [0, 0, 0]
        self.is_truncated = False
        self.exposed: dict[int, int] = {}
        """When each tombstone was in the log at the begin of a round first, by offset."""
        self.files = MortalFiles()
        self.files.make_directory(HOME, exist_ok=True)

    @property
    def log(self) -> Log:
        """The log of the current process."""
        return self.manager.logs[KEY]

    def open_producers(self) -> list[int]:
        """The producers with an open transaction."""
        return [p.producer_id for p in self.log.producers.active() if p.transaction_start is not None]

    async def open(self) -> None:
        """Start a process."""
        clocks = Clocks(lambda: WallMs(self.now), lambda: MonotonicMs(self.now))
        self.manager = LogManager(
            [LogDir(self.files, HOME)], FilePool(self.files), lambda _topic: self.settings, NoFailures(), clocks
        )
        self.manager._worker = InlineExecutor()
        await self.manager.load(1)
        self.cleaner = Cleaner(self.manager, room_for(self.keys_max))

    # -- steps ---------------------------------------------------------------------------------------------------------------

    async def live(self, steps: int) -> None:
        """Take random steps; raises Violation."""
        await self.open()
        self.manager.create(*KEY, UUID(int=9))
        with patch.object(cleaner_module, "SLICE_BATCHES", 1):
            for _ in range(steps):
                await self._step()
                self.check()
            await self._settle()

    async def _step(self) -> None:
        rng = self.rng
        match rng.random():
            case p if p < 0.55:
                self.append()
            case p if p < 0.70:
                self.end_transaction()
            case p if p < 0.74:
                self.now += rng.choice((1, RETENTION_MS // 2, RETENTION_MS))
            case p if p < 0.76:
                self.log.raise_start(rng.randint(self.log.log_start_offset, self.log.high_watermark))
            case p if p < 0.79:
                self.truncate()
            case p if p < 0.81:
                await self.restart()
            case _:
                await self.clean()

    def append(self) -> None:
        """Append a batch, perhaps of a producer, perhaps in a transaction."""
        rng = self.rng
        records = [
            NewRecord(
                b"k%d" % rng.randrange(self.keys),
                None if rng.random() < 0.2 else b"v%d" % rng.randrange(1_000),
                self.now - rng.randrange(50),
            )
            for _ in range(rng.randrange(1, 4))
        ]
        fields: dict[str, Any] = {"compression": rng.choice((0, 0, 1))}
        if rng.random() < 0.6:
            producer = rng.randrange(3)
            is_open = producer in self.open_producers()
            transactional = is_open or (producer > 0 and rng.random() < 0.8)
            fields |= {
                "producer_id": producer,
                "producer_epoch": 0,
                "base_sequence": self.sequences[producer],
                "attributes": TRANSACTIONAL_BIT if transactional else 0,
            }
            self.sequences[producer] += len(records)
        self._append(build_batch(records, **fields))

    def end_transaction(self) -> None:
        """End an open transaction."""
        producers = self.open_producers()
        if producers:
            producer = ProducerId(self.rng.choice(producers), 0)
            self._append(build_marker(Marker(producer, self.rng.random() < 0.5, 0), WallMs(self.now)))

    def _append(self, data: bytes) -> None:
        batch, log = bytearray(data), self.log
        append_batch(log, batch, 0, MonotonicMs(self.now))
        log.high_watermark = log.end_offset
        header = log.last_batch
        assert header is not None
        self.batches.append(Batch(header, tuple(iterate_records(batch))))

    def truncate(self) -> None:
        """Lose the end of the log to an unclean election; what is left counts as what was written."""
        log, cleaned_to = self.log, self.log.cleaned_to
        log.truncate_to(self.rng.randint(log.log_start_offset, log.end_offset), MonotonicMs(self.now))
        self._believe()
        self.is_truncated |= log.end_offset < cleaned_to
        self.append()  # a restart sets the log end to the end of the last batch, as in Kafka

    def _believe(self) -> None:
        self.batches = list(self.content())
        offsets = {record.offset for batch in self.batches for record in batch.records}
        self.exposed = {offset: at for offset, at in self.exposed.items() if offset in offsets}

    async def restart(self) -> None:
        """Kill the process; the next one reads the producers' state from the batches alone.

        After a truncation of the cleaned part, the batches need not have that state: a producer's last batch may have been removed with it.
        """
        before, self.files.renames_left = self.log, None
        expected = {
            producer.producer_id: (producer.epoch, producer.last_sequence)
            for producer in before.producers.active()
            if not self.is_truncated
            and producer.batches
            and producer.batches[-1].last_offset >= before.log_start_offset
        }
        for path in list(self.files.contents):
            if path.suffix == PRODUCERS_SUFFIX:
                self.files.remove(path)
        start, end = before.log_start_offset, before.end_offset
        await self.open()
        log = self.log
        log.raise_start(start)
        log.high_watermark = log.end_offset
        if log.end_offset != end:
            raise Violation("log-end", f"{log.end_offset} after a restart, {end} before")
        actual = {p.producer_id: (p.epoch, p.last_sequence) for p in log.producers.active()}
        if any(actual.get(producer) != state for producer, state in expected.items()):
            raise Violation("sequence", f"{actual} after a restart, {expected} before")

    async def clean(self) -> None:
        """Run a round with appends in between; it may be killed."""
        rng = self.rng
        self._expose()
        dies = rng.random() < 0.2
        self.files.renames_left = rng.randrange(1, 12) if dies else None
        round_ = asyncio.get_running_loop().create_task(self.cleaner.run_round())
        while not round_.done():
            await asyncio.sleep(0)
            if not dies and rng.random() < 0.02:
                self.append()
        try:
            await round_
        except Killed:
            await self.restart()
        self.files.renames_left = None

    def _expose(self) -> None:
        for batch in self.batches:
            for record in batch.records:
                if record.value is None and not batch.header.is_control:
                    self.exposed.setdefault(record.offset, self.now)

    async def _settle(self) -> None:
        """End all transactions, clean everything, and check that nothing superfluous is left."""
        while self.open_producers():
            self.end_transaction()
        self.log.roll(MonotonicMs(self.now))
        for _ in range(4):
            self.now += RETENTION_MS
            self._expose()
            before = -1
            self.log.cleaned_to = 0
            while self.log.cleaned_to != before:
                before = self.log.cleaned_to
                await self.cleaner.run_round()
            self.check()
        self._check_settled()

    # -- checks --------------------------------------------------------------------------------------------------------------

    def content(self) -> Iterator[Batch]:
        """The batches in the log."""
        for segment in self.log.segments:
            for position, header in segment.headers():
                data = segment.read(position, header.size)
                if not checksum_matches(data, header):
                    raise Violation("checksum", header)
                yield Batch(header, tuple(iterate_records(data)))

    def check(self) -> None:
        """Compare the log with the batches that were appended."""
        content = list(self.content())
        self._check_origin(content)
        self._check_views(content)
        self._check_markers(content)

    def _check_origin(self, content: list[Batch]) -> None:
        written = {record.offset: record for batch in self.batches for record in batch.records}
        for batch in content:
            for record in batch.records:
                if written.get(record.offset) != record:
                    raise Violation("changed", f"{record} was written as {written.get(record.offset)}")

    def _check_views(self, content: list[Batch]) -> None:
        start, stable = self.log.log_start_offset, self.log.last_stable_offset
        expected = latest(consumed(self.batches, start, stable, aborted_offsets(self.batches)))
        actual = latest(consumed(content, start, stable, self._indexed_offsets(content)))
        for key in expected.keys() | actual.keys():
            right, found = expected.get(key), actual.get(key)
            if right == found:
                continue
            if found is None and right is not None and right.value is None:
                if self.now < self.exposed.get(right.offset, self.now) + RETENTION_MS:
                    raise Violation("tombstone-early", right)
            elif found is not None and (right is None or right.value is None or right.offset < found.offset):
                raise Violation("resurrected", f"{found} instead of {right}")
            else:
                raise Violation("lost", f"{found} instead of {right}")

    def _indexed_offsets(self, content: list[Batch]) -> set[int]:
        """The base offsets of batches that a consumer skips by the rows of the transaction indexes."""
        rows = sorted(self.log.aborted_between(0, self.log.end_offset), key=lambda row: row.first_offset)
        aborted: set[int] = set()
        skipped: set[int] = set()
        for batch in content:
            while rows and rows[0].first_offset <= batch.header.last_offset:
                aborted.add(rows.pop(0).producer_id)
            if batch.marker is not None and not batch.marker.committed:
                aborted.discard(batch.header.producer_id)
            elif batch.header.is_transactional and batch.header.producer_id in aborted:
                skipped.add(batch.header.base_offset)
        return skipped

    def _check_markers(self, content: list[Batch]) -> None:
        markers = {batch.header.base_offset for batch in content if batch.marker is not None}
        present = {batch.header.base_offset for batch in content if batch.records}
        ends: dict[int, int] = {}
        for batch in reversed(self.batches):
            header = batch.header
            if batch.marker is not None:
                ends[header.producer_id] = header.base_offset
            elif header.is_transactional and header.base_offset in present:
                end = ends.get(header.producer_id)
                if end is not None and end not in markers:
                    raise Violation("marker-missing", f"of the transaction with the batch at {header.base_offset}")

    def _check_settled(self) -> None:
        everything = list(self.content())
        content = [batch for batch in everything if batch.header.base_offset >= self.log.log_start_offset]
        last = {p.producer_id: p.batches[-1].last_offset for p in self.log.producers.active() if p.batches}
        keys = [record.key for batch in content if not batch.header.is_control for record in batch.records]
        if len(keys) != len(set(keys)):
            raise Violation("superseded-kept", keys)
        skipped = aborted_offsets(self.batches)
        for batch in content:
            header = batch.header
            is_needed = header.last_offset in (last.get(header.producer_id), self.log.end_offset - 1)
            if header.is_control:
                continue
            if batch.records and (header.base_offset in skipped or any(r.value is None for r in batch.records)):
                raise Violation("aborted-or-tombstone-kept", batch)
            if not batch.records and not is_needed:
                raise Violation("empty-kept", batch)
        producers = {b.header.producer_id for b in everything if not b.header.is_control and b.header.is_transactional}
        producers |= {p.producer_id for p in self.log.producers.active() if not p.batches}  # markers hold their epochs
        for batch in content:
            header = batch.header
            if (
                header.is_control
                and header.producer_id not in producers
                and header.last_offset != self.log.end_offset - 1
            ):
                raise Violation("marker-kept", batch)
        if content and content[-1].header.last_offset != self.log.end_offset - 1:
            raise Violation("end-unreachable", f"the last batch ends at {content[-1].header.last_offset}")


def consumed(batches: list[Batch], start: int, end: int, skipped: set[int]) -> Iterator[Record]:
    """The records that a consumer of committed records gets from a range of offsets."""
    for batch in batches:
        if not batch.header.is_control and batch.header.base_offset not in skipped:
            yield from (record for record in batch.records if start <= record.offset < end)


def latest(records: Iterator[Record]) -> dict[bytes | None, Record]:
    """The last record of every key."""
    return {record.key: record for record in records}


def aborted_offsets(batches: list[Batch]) -> set[int]:
    """The base offsets of the batches of aborted transactions."""
    open_: dict[int, list[int]] = {}
    aborted: set[int] = set()
    for batch in batches:
        header = batch.header
        if batch.marker is not None:
            offsets = open_.pop(header.producer_id, [])
            if not batch.marker.committed:
                aborted.update(offsets)
        elif header.is_transactional and not header.is_control:
            open_.setdefault(header.producer_id, []).append(header.base_offset)
    return aborted
