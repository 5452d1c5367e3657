"""A shard that loads while the cleaner replaces the segments of its log serves with all of its state or not at all."""

import asyncio
import logging
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from unittest.mock import patch
from uuid import UUID

import pytest
from isthmus_broker.core.coordinator.result import Outbox, Record, RequestContext, Result
from isthmus_broker.core.coordinator.runtime import Runtime
from isthmus_broker.core.coordinator.timers import Timers
from isthmus_broker.core.replica.leadership import IsrRules, Leadership
from isthmus_broker.edge.coordinators import host as host_module
from isthmus_broker.edge.coordinators.host import CoordinatorHost
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.storage import cleaner as cleaner_module
from isthmus_broker.edge.storage.cleaner import Cleaner
from isthmus_broker.edge.storage.files import FilePool
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.log_dir import LogDir
from isthmus_broker.edge.storage.log_manager import LogManager
from isthmus_client.clock import CLOCKS
from isthmus_model.clocks import MonotonicMs, Now
from isthmus_wire.errors import DecodeError, ErrorCode
from isthmus_wire.markers import Marker, ProducerId
from isthmus_wire.records import BatchHeader, NewRecord, build_batch

from tests.edge.coordinators.test_host import CONTEXT, Text
from tests.edge.replication.nodes import EPOCHS, Reported
from tests.edge.storage.cleaning import HOME, InlineExecutor
from tests.edge.storage.logs import NOW, NoFailures, append_batch, config
from tests.edge.storage.memory_files import MemoryFiles

TOPIC: Final = "__values"
SEEDS: Final = 20


@dataclass
class Values:
    """The shard: the last value of every name."""

    values: dict[str, str] = field(default_factory=dict)

    def handle(self, token: int, request: object, context: RequestContext, now: Now) -> Result:
        return Result(response=dict(self.values))

    def replay(self, record: Record, offset: int, producer: ProducerId | None, now: Now) -> None:
        assert isinstance(record.key, Text)
        if isinstance(record.value, Text):
            self.values[record.key.text] = record.value.text
        else:
            self.values.pop(record.key.text, None)

    def committed(self, high_watermark: int) -> None:
        pass

    def replaying(self, records: Sequence[Record], last_offset: int) -> None:
        pass

    def end_transaction(self, marker: Marker, offset: int, now: Now) -> None:
        pass

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        if key == b"damaged":
            raise DecodeError("no key")
        return Record(Text(key.decode()), None if value is None else Text(value.decode()))

    def loaded(self, view: str, now: Now) -> None:
        pass

    def unloaded(self) -> None:
        pass

    def metadata(self, view: str, now: Now) -> Result:
        return Result()


class Bench:
    """A host, the log of its one partition, and the cleaner of that log."""

    def __init__(self) -> None:
        settings = config(cleanup_policy=("compact",), segment_bytes=400, min_cleanable_dirty_ratio=0.0)
        self.files = MemoryFiles()
        self.files.make_directory(HOME, exist_ok=True)
        self.manager = LogManager(
            [LogDir(self.files, HOME)], FilePool(self.files), lambda _topic: settings, NoFailures(), CLOCKS
        )
        self.manager._worker = InlineExecutor()
        self.log: Log = self.manager.create(TOPIC, 0, UUID(int=1))
        self.cleaner = Cleaner(self.manager)
        self.host: CoordinatorHost[str] = CoordinatorHost(
            TOPIC, self._new_runtime, "view", CLOCKS, lambda: 1, lambda _partition, _failure: None
        )
        self.partition = Partition(1, TOPIC, 0, UUID(int=1), self.log, EPOCHS.get, Reported())

    def _new_runtime(self, view: str) -> Runtime[str]:
        return Runtime(self._new_shard, lambda request, context, error: error, view)

    def _new_shard(self, timers: Timers, outbox: Outbox) -> Values:
        return Values()

    def write(self, *records: tuple[str, str | None]) -> None:
        """Append one batch, as an earlier leader did."""
        new = [NewRecord(key.encode(), None if value is None else value.encode(), NOW) for key, value in records]
        append_batch(self.log, bytearray(build_batch(new)), 0, MonotonicMs(NOW))

    def lead(self) -> None:
        """Become the leader, which starts the load."""
        leadership = Leadership(1, self.partition.leadership.leader_epoch + 1, (1,), (1,))
        self.partition.take_leadership(leadership, IsrRules(10_000, 1), 1_000, CLOCKS.now())
        self.host.leadership_changed(self.partition)

    async def values(self) -> Any:
        """The state that the shard serves once it has loaded; None if it does not serve."""
        async with asyncio.timeout(60):
            while True:
                response: asyncio.Future[object] = asyncio.get_running_loop().create_future()
                if not self.host.submit(0, "values", CONTEXT, response.set_result):
                    return None
                values = await response
                if values is not ErrorCode.coordinator_load_in_progress:
                    return values
                await asyncio.sleep(0)

    def close(self) -> None:
        self.host.stop()
        self.manager.close(0)


async def served(seed: int) -> tuple[Any, dict[str, str]]:
    """What a shard serves that was loaded while its log was cleaned, and what was written."""
    rng = random.Random(seed)
    bench = Bench()
    expected: dict[str, str] = {}
    for number in range(rng.randrange(40, 120)):
        key = f"k{rng.randrange(30)}"
        bench.write((key, str(number)))
        expected[key] = str(number)
    bench.log.high_watermark = bench.log.end_offset
    bench.lead()
    for _ in range(rng.randrange(30)):
        await asyncio.sleep(0)
    bench.cleaner.start_round()
    values = await bench.values()
    bench.close()
    return values, expected


def violation_of(seed: int) -> str | None:
    """Load in small slices, so that the cleaner takes turns with the load."""
    with patch.object(host_module, "LOAD_SLICE", 1), patch.object(cleaner_module, "SLICE_BATCHES", 1 + seed % 50):
        values, expected = asyncio.run(served(seed))
    if values is None:
        return "never-served"
    return None if values == expected else "served-in-part"


def test_a_shard_serves_all_of_its_state_although_segments_are_replaced() -> None:
    """A shard left out segments that were deleted during its load, or never served."""
    for seed in range(SEEDS):
        assert violation_of(seed) is None, f"seed {seed}"


def test_a_planted_defect_is_detected() -> None:
    def passes_over_deleted_segments(log: Log, _start: int) -> Iterator[tuple[BatchHeader, bytes]]:
        for segment in list(log.segments):
            for position, header in segment.headers():
                if segment.is_deleted:
                    break
                yield header, segment.read(position, header.size)

    with patch.object(host_module, "scan", passes_over_deleted_segments):
        assert "served-in-part" in (violation_of(seed) for seed in range(SEEDS))


@pytest.mark.parametrize("damage", ["a key", "a batch header"])
def test_a_shard_whose_log_cannot_be_read_does_not_serve(damage: str, caplog: pytest.LogCaptureFixture) -> None:
    """It hung in its load forever after a key that does not parse, and served without what followed a damaged header."""

    async def test() -> None:
        bench = Bench()
        bench.write(("a", "1"))
        if damage == "a key":
            bench.write(("damaged", "2"))
        for number in range(9):
            bench.write((f"b{number}", "3"))
        bench.log.high_watermark = bench.log.end_offset
        if damage == "a batch header":
            segment = bench.log.segments[0]
            bench.files.contents[segment.path][list(segment.headers())[1].position + 16] = 0x7F
        bench.lead()
        assert await bench.values() is None
        assert list(bench.host.partitions()) == []
        assert [record.levelno for record in caplog.records if "failed to load" in record.getMessage()] == [
            logging.ERROR
        ]
        bench.close()

    asyncio.run(test())
