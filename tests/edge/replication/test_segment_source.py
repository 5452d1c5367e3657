"""A fetch of records that are not local: it waits, without a task, until the source has them."""

import asyncio
from collections.abc import Callable
from errno import EIO
from pathlib import Path
from typing import Any, cast

from isthmus_broker.core.replica.consumer_reader import ReadResult, ReadRules, read_partitions
from isthmus_broker.core.replica.waiting import Waiting
from isthmus_broker.edge.replication.log_reads import LogReader
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.storage.files import DiskFailure
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.segment_source import PendingRead, Slice
from isthmus_wire.errors import ErrorCode
from isthmus_wire.fetch import FetchPartition

from tests.edge.replication.nodes import READ_LOG, become, leadership, partition, produce

CONSUMER = ReadRules(1_000_000, read_committed=False, replica_id=-1)


class _Loading:
    """A read that completes when `loaded` is called."""

    def __init__(self) -> None:
        self._watchers: list[Callable[[], None]] = []
        self.is_done = False

    def watch(self, wake: Callable[[], None], *, appends_too: bool) -> None:
        self._watchers.append(wake)

    def unwatch(self, wake: Callable[[], None]) -> None:
        self._watchers.remove(wake)

    def loaded(self) -> None:
        self.is_done = True
        for wake in list(self._watchers):
            wake()


class RemoteLog:
    """A log whose records are read from a remote source, one request at a time."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.loading: _Loading | None = None
        self.failure: DiskFailure | None = None

    def read(self, offset: int, max_bytes: int, upper: int, *, at_least_one: bool) -> Slice | PendingRead:
        if self.failure is not None:
            raise self.failure
        if self.loading is not None and self.loading.is_done:
            return self._log.read(offset, max_bytes, upper, at_least_one=at_least_one)
        self.loading = self.loading or _Loading()
        return self.loading

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def remote(directory: Path) -> tuple[Partition, RemoteLog]:
    part = partition(directory, 1)
    become(part, leadership(1, 4, (1,), replicas=(1,)))
    produce(part, b"a")
    assert part.log is not None
    log = RemoteLog(part.log)
    part.log = cast(Log, log)
    return part, log


def read(part: Partition) -> ReadResult:
    return read_partitions([("t", FetchPartition(0, 0, 1_000))], CONSUMER, lambda _topic, _index: part, READ_LOG)


def test_a_fetch_waits_for_records_of_a_remote_source(tmp_path: Path) -> None:
    part, log = remote(tmp_path)

    async def run() -> ReadResult:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[ReadResult] = loop.create_future()
        first = read(part)
        assert (first.size, first.is_urgent, len(first.pending)) == (0, False, 1)
        Waiting(loop, first.pending, 600_000, lambda: read(part), lambda result: result.size > 0, done.set_result)
        assert len(asyncio.all_tasks()) == 1, "this test is the only task"
        assert log.loading is not None
        loop.call_soon(log.loading.loaded)
        async with asyncio.timeout(60):
            return await done

    result = asyncio.run(run())
    assert result.size > 0
    assert not result.pending


def test_a_fetch_that_times_out_gets_no_records_and_no_error(tmp_path: Path) -> None:
    part, _ = remote(tmp_path)
    ((_, fetched),) = read(part).responses
    assert (fetched.error_code, fetched.records, fetched.high_watermark) == (0, (), 1)


def test_a_failed_read_fails_the_directory_of_the_replica(tmp_path: Path) -> None:
    part, log = remote(tmp_path)
    log.failure = DiskFailure(tmp_path, OSError(EIO, "Input/output error"))
    failed: list[tuple[Partition, DiskFailure]] = []
    reader = LogReader(lambda replica, failure: failed.append((replica, failure)))
    wanted = [("t", FetchPartition(0, 0, 1_000))]
    ((_, fetched),) = read_partitions(wanted, CONSUMER, lambda _topic, _index: part, reader).responses
    assert fetched.error_code == ErrorCode.kafka_storage_error.value
    assert failed == [(part, log.failure)]
