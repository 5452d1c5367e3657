"""A second coordinator, as small as possible: counters in a topic of their own, changed at once or by transactions."""

import asyncio
import errno
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

from isthmus_broker.core.coordinator.result import Outbox, Record, RequestContext, Result
from isthmus_broker.core.coordinator.runtime import Runtime
from isthmus_broker.core.coordinator.timers import Timers
from isthmus_broker.core.log.verification import NOT_VERIFIED
from isthmus_broker.core.replica.leadership import IsrRules, Leadership
from isthmus_broker.edge.coordinators.host import CoordinatorHost
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.storage.files import DiskFailure
from isthmus_broker.edge.storage.log import Log
from isthmus_client.clock import CLOCKS
from isthmus_model.clocks import Now
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import Marker, ProducerId

from tests.edge.replication.nodes import EPOCHS, Reported
from tests.edge.storage.logs import new_log

TOPIC = "__counters"
CONTEXT = RequestContext(api_version=0)
PRODUCER = ProducerId(7, 3)


@dataclass(frozen=True)
class Text:
    """A key or a value."""

    text: str
    prefix: int = 0

    def body(self) -> bytes:
        return self.text.encode()


@dataclass(frozen=True)
class Add:
    """Add to a counter, at once or in a producer's transaction; responds with the committed value."""

    name: str
    amount: int
    producer: ProducerId | None = None
    verification: int = NOT_VERIFIED


@dataclass
class Counters:
    """The shard."""

    totals: dict[str, int] = field(default_factory=dict)
    uncommitted: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    views: list[str] = field(default_factory=list)
    high_watermark: int = 0

    def handle(self, token: int, request: object, context: RequestContext, now: Now) -> Result:
        if isinstance(request, Add):
            record = Record(Text(request.name), Text(str(request.amount)))
            return Result(
                records=(record,),
                producer=request.producer,
                verification=request.verification,
                response="added",
            )
        if isinstance(request, Marker):
            return Result(marker=request, response="ended")
        return Result(response=dict(self.totals))

    def replay(self, record: Record, offset: int, producer: ProducerId | None, now: Now) -> None:
        assert isinstance(record.key, Text)
        assert isinstance(record.value, Text)
        change = record.key.text, int(record.value.text)
        if producer is None:
            self._apply(*change)
        else:
            self.uncommitted.setdefault(producer.id, []).append(change)

    def committed(self, high_watermark: int) -> None:
        self.high_watermark = high_watermark

    def replaying(self, records: Sequence[Record], last_offset: int) -> None:
        pass

    def end_transaction(self, marker: Marker, offset: int, now: Now) -> None:
        for change in self.uncommitted.pop(marker.producer.id, ()):
            if marker.committed:
                self._apply(*change)

    def _apply(self, name: str, amount: int) -> None:
        self.totals[name] = self.totals.get(name, 0) + amount

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        return Record(Text(key[2:].decode()), None if value is None else Text(value[2:].decode()))

    def loaded(self, view: str, now: Now) -> None:
        self.views.append(view)

    def unloaded(self) -> None:
        pass

    def metadata(self, view: str, now: Now) -> Result:
        self.views.append(view)
        return Result()


class Bench:
    """A host, and the one partition of its topic."""

    def __init__(self, directory: Path) -> None:
        self.shards: list[Counters] = []
        self.failed: list[Partition] = []
        self.host: CoordinatorHost[str] = CoordinatorHost(
            TOPIC, self._new_runtime, "v1", CLOCKS, lambda: 1, lambda partition, _failure: self.failed.append(partition)
        )
        self.log: Log = new_log(directory)
        self.partition = Partition(1, TOPIC, 0, UUID(int=1), self.log, EPOCHS.get, Reported())
        self.epoch = 0
        self.isr: tuple[int, ...] = (1,)
        self.write_timeout_ms = 60_000

    def _new_runtime(self, view: str) -> Runtime[str]:
        return Runtime(
            self._new_shard, lambda request, context, error: error, view, write_timeout_ms=self.write_timeout_ms
        )

    def _new_shard(self, timers: Timers, outbox: Outbox) -> Counters:
        self.shards.append(Counters())
        return self.shards[-1]

    def lead(self, leader: int = 1) -> None:
        self.epoch += 1
        leadership = Leadership(leader, self.epoch, (1, 2), self.isr)
        self.partition.take_leadership(leadership, IsrRules(10_000, 1), 1_000, CLOCKS.now())
        self.host.leadership_changed(self.partition)

    async def add(self, name: str, amount: int) -> Any:
        """Add in the producer's transaction, which was verified."""
        verifications = self.log.producers.verifications
        number = verifications.begin(*PRODUCER, 0, CLOCKS.monotonic(), raises_epoch=False)
        return await self.send(Add(name, amount, PRODUCER, number))

    async def send(self, request: object) -> Any:
        """The response, after the shard has been loaded."""
        while True:
            response: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            assert self.host.submit(0, request, CONTEXT, response.set_result)
            body = await response
            if body is not ErrorCode.coordinator_load_in_progress:
                return body
            await asyncio.sleep(0)


def run(directory: Path, test: Callable[[Bench], Awaitable[None]]) -> None:
    async def body() -> None:
        bench = Bench(directory)
        bench.lead()
        async with asyncio.timeout(60):
            await test(bench)
        bench.host.stop()

    asyncio.run(body())


def test_what_it_writes_survives_a_change_of_leader(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        assert await bench.send(Add("a", 2)) == "added"
        assert await bench.send(Add("a", 3)) == "added"
        bench.lead(leader=2)
        assert not bench.host.submit(0, "totals", CONTEXT, lambda _response: None)
        assert list(bench.host.partitions()) == []
        bench.lead()
        assert await bench.send("totals") == {"a": 5}
        assert len(bench.shards) == 2

    run(tmp_path, test)


def test_a_log_that_cannot_be_written_takes_its_directory_offline(tmp_path: Path) -> None:
    """The coordinator continued to append to a log whose sync had failed: a power loss then took the whole directory."""

    async def test(bench: Bench) -> None:
        assert await bench.send(Add("a", 2)) == "added"
        failure = DiskFailure(tmp_path, OSError(errno.EIO, "the disk is gone"))
        with patch.object(bench.log, "append", side_effect=failure):
            assert await bench.send(Add("a", 3)) is ErrorCode.not_coordinator
        assert bench.failed == [bench.partition]

    run(tmp_path, test)


def test_a_transaction_takes_effect_with_its_marker(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.send(Add("a", 1))
        await bench.add("a", 10)
        header = bench.log.last_batch
        assert header is not None
        assert header.is_transactional
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 0)
        assert bench.log.last_stable_offset == 1, "readers of committed records wait for the marker"
        assert await bench.send("totals") == {"a": 1}
        assert await bench.send(Marker(PRODUCER, committed=True, coordinator_epoch=5)) == "ended"
        assert bench.log.last_stable_offset == bench.log.end_offset == 3
        assert await bench.send("totals") == {"a": 11}

    run(tmp_path, test)


def test_a_load_applies_committed_transactions_and_discards_aborted_ones(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.add("committed", 1)
        await bench.send(Marker(PRODUCER, committed=True, coordinator_epoch=5))
        await bench.add("aborted", 1)
        await bench.send(Marker(PRODUCER, committed=False, coordinator_epoch=5))
        await bench.add("open", 1)
        bench.lead()
        assert await bench.send("totals") == {"committed": 1}
        assert bench.shards[-1].uncommitted == {7: [("open", 1)]}
        await bench.send(Marker(PRODUCER, committed=True, coordinator_epoch=6))
        assert await bench.send("totals") == {"committed": 1, "open": 1}

    run(tmp_path, test)


def test_a_transaction_that_was_not_verified_is_refused(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        assert await bench.send(Add("a", 1, PRODUCER)) is ErrorCode.invalid_txn_state
        assert await bench.add("a", 1) == "added"
        assert await bench.send(Marker(PRODUCER, committed=True, coordinator_epoch=5)) == "ended"
        assert await bench.send(Add("a", 1, PRODUCER, 1)) is ErrorCode.invalid_txn_state
        assert await bench.send("totals") == {"a": 1}

    run(tmp_path, test)


def test_shards_learn_of_new_metadata(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.send("totals")
        bench.host.metadata_changed("v2")
        assert bench.shards[-1].views == ["v1", "v2"]
        bench.lead()
        await bench.send("totals")
        assert bench.shards[-1].views == ["v2"]

    run(tmp_path, test)


def test_below_min_isr_a_write_is_refused_and_appends_nothing(tmp_path: Path) -> None:
    """A write below min.insync.replicas held its whole shard, and each retry appended another copy; Kafka refuses it at once."""

    async def test(bench: Bench) -> None:
        assert await bench.send(Add("a", 2)) == "added"
        end = bench.log.end_offset
        bench.partition.update_isr_rules(IsrRules(10_000, 2), CLOCKS.monotonic())
        for _ in range(3):
            assert await bench.send(Add("a", 3)) == ErrorCode.coordinator_not_available
        assert bench.log.end_offset == end
        assert await bench.send("totals") == {"a": 2}
        bench.partition.update_isr_rules(IsrRules(10_000, 1), CLOCKS.monotonic())
        assert await bench.send(Add("a", 3)) == "added"

    run(tmp_path, test)


def test_a_write_that_is_not_replicated_in_time_is_refused(tmp_path: Path) -> None:
    """offsets.commit.timeout.ms had no effect."""

    async def test(bench: Bench) -> None:
        bench.write_timeout_ms = 50
        bench.isr = (1, 2)
        bench.lead()
        assert await bench.send("totals") == {}
        assert await bench.send(Add("a", 2)) == ErrorCode.coordinator_not_available
        assert bench.log.end_offset == 1

    run(tmp_path, test)


def test_what_the_last_leader_confirmed_is_committed_at_the_next_one_before_followers_fetch(tmp_path: Path) -> None:
    """The high watermark of a new leader lags, and OffsetFetch, which is served from committed records, returned older offsets."""

    async def test() -> None:
        bench = Bench(tmp_path)
        bench.lead()
        assert await bench.send(Add("a", 1)) == "added"
        bench.log.high_watermark, bench.isr = 0, (1, 2)
        bench.lead()
        assert await bench.send("totals") == {"a": 1}
        assert bench.log.high_watermark == 0
        assert bench.shards[-1].high_watermark == bench.log.end_offset == 1

    asyncio.run(test())
