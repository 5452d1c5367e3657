"""Appends from producers and reads of consumers at a partition."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from isthmus_broker.core.replica.acceptance import OpenFirst, open_produced
from isthmus_broker.core.replica.consumer_reader import ReadResult, ReadRules, read_partitions
from isthmus_broker.core.replica.leadership import IsrRules, Leadership
from isthmus_broker.core.replica.waiting import Waiting
from isthmus_broker.edge.replication.partition import Partition
from isthmus_wire.compression import Compression
from isthmus_wire.errors import ErrorCode
from isthmus_wire.fetch import FetchPartition
from isthmus_wire.records import NewRecord, batches, build_batch, checksum_matches, header_at, iterate_records

from tests.clocks import at
from tests.edge.replication.nodes import READ_LOG, Reported
from tests.edge.storage.logs import NOW, new_log

LEADS = Leadership(1, 4, (1,), (1,))
RULES = ReadRules(1_000_000, read_committed=False, replica_id=-1)


def partition(directory: Path, leadership: Leadership = LEADS, **settings: Any) -> Partition:
    made = Partition(1, "t", 0, UUID(int=1), new_log(directory, **settings), {1: 1}.get, Reported())
    lead(made, leadership)
    return made


def lead(part: Partition, leadership: Leadership) -> None:
    min_isr = 1 if part.log is None else part.log.config.min_insync_replicas
    part.take_leadership(leadership, IsrRules(min_isr=min_isr), 0, at(NOW))


def batch(*values: bytes, key: bytes | None = b"k", timestamp: int = NOW, **fields: Any) -> memoryview:
    return memoryview(bytearray(build_batch([NewRecord(key, value, timestamp) for value in values], **fields)))


def produce(part: Partition, records: memoryview | None, acks: int = -1, version: int = 12) -> ErrorCode:
    return ErrorCode(part.produce(records, version, acks, at(NOW)).error_code)


def stored(part: Partition) -> list[bytes | None]:
    assert part.log is not None
    data = part.log.read(0, 1_000_000, part.log.end_offset, at_least_one=True).records()
    found = []
    for position, header in batches(data):
        assert checksum_matches(data, header, position)
        assert header.leader_epoch == part.leadership.leader_epoch
        found += [record.value for record in iterate_records(data, position)]
    return found


def test_a_batch_gets_the_next_offsets_and_moves_the_high_watermark(tmp_path: Path) -> None:
    part = partition(tmp_path)
    assert [part.produce(batch(b"a", b"b"), 12, -1, at(NOW)).base_offset for _ in range(3)] == [0, 2, 4]
    assert part.log is not None
    assert part.log.high_watermark == 6
    assert stored(part) == [b"a", b"b"] * 3


def damaged(data: memoryview, at: int) -> memoryview:
    data[at] ^= 0xFF
    return data


@pytest.mark.parametrize(
    ("records", "version", "error"),
    [
        (None, 12, ErrorCode.invalid_record),
        (memoryview(b""), 12, ErrorCode.invalid_record),
        (memoryview(b"x" * 20), 12, ErrorCode.corrupt_message),
        (batch(b"a")[:-1], 12, ErrorCode.invalid_record),
        (damaged(batch(b"a"), 66), 12, ErrorCode.corrupt_message),
        (damaged(batch(b"a"), 16), 12, ErrorCode.corrupt_message),  # magic
        (memoryview(bytes(batch(b"a")) * 2), 12, ErrorCode.invalid_record),
        (batch(b"a", base_offset=5), 12, ErrorCode.invalid_record),
        (batch(b"a", attributes=0x20), 12, ErrorCode.invalid_record),
        (batch(b"a", producer_id=5, producer_epoch=0, base_sequence=-1), 12, ErrorCode.invalid_record),
        (batch(b"a", compression=Compression.ZSTD), 6, ErrorCode.unsupported_compression_type),
        (batch(b"x" * 3000), 12, ErrorCode.message_too_large),
        (batch(b"a", timestamp=NOW + 4_000_000), 12, ErrorCode.invalid_timestamp),
    ],
)
def test_which_batches_are_refused(tmp_path: Path, records: memoryview | None, version: int, error: ErrorCode) -> None:
    part = partition(tmp_path, max_message_bytes=2000)
    assert produce(part, records, version=version) is error
    assert part.log is not None
    assert part.log.end_offset == 0


def test_which_replicas_accept_appends(tmp_path: Path) -> None:
    elsewhere = partition(tmp_path / "1", Leadership(2, 0, (1, 2), (1, 2)))
    thin = partition(tmp_path / "2", Leadership(1, 0, (1, 2, 3), (1,)), min_insync_replicas=2)
    offline = partition(tmp_path / "3")
    offline.log = None
    assert produce(elsewhere, batch(b"a")) is ErrorCode.not_leader_or_follower
    assert produce(thin, batch(b"a")) is ErrorCode.not_enough_replicas
    assert produce(thin, batch(b"a"), acks=1) is ErrorCode.none
    assert produce(offline, batch(b"a")) is ErrorCode.kafka_storage_error


def test_a_topics_own_compression_and_clock_rewrite_a_batch(tmp_path: Path) -> None:
    packed = partition(tmp_path / "1", compression_type="zstd")
    sent = batch(b"a", b"b", compression=Compression.GZIP)
    with pytest.raises(OpenFirst) as first:
        produce(packed, sent)
    opened = open_produced(sent, first.value.rules, "t", 0)
    assert packed.produce(sent, 12, -1, at(NOW), opened).error_code == 0
    assert packed.log is not None
    assert header_at(packed.log.active.read(0, 61)).compression == Compression.ZSTD
    assert stored(packed) == [b"a", b"b"]
    clocked = partition(tmp_path / "2", message_timestamp_type="LogAppendTime")
    result = clocked.produce(batch(b"a", timestamp=5), 12, -1, at(NOW))
    assert (result.error_code, result.log_append_time) == (0, NOW)
    assert clocked.log is not None
    (record,) = iterate_records(clocked.log.active.read(0, 10_000))
    assert record.timestamp == NOW


def test_records_of_a_compacted_topic_need_keys(tmp_path: Path) -> None:
    part = partition(tmp_path, cleanup_policy=("compact",))
    assert produce(part, batch(b"a")) is ErrorCode.none
    result = part.produce(batch(b"a", b"b", key=None), 12, -1, at(NOW))
    assert result.error_code == ErrorCode.invalid_record.value
    assert [number for number, _ in result.record_errors] == [0, 1]


def test_repeated_batches_return_the_first_offset(tmp_path: Path) -> None:
    part = partition(tmp_path)
    fields: dict[str, Any] = {"producer_id": 8, "producer_epoch": 0}
    first = part.produce(batch(b"a", base_sequence=0, **fields), 12, -1, at(NOW))
    again = part.produce(batch(b"a", base_sequence=0, **fields), 12, -1, at(NOW))
    assert (first.base_offset, again.base_offset, again.error_code) == (0, 0, 0)
    assert produce(part, batch(b"c", base_sequence=2, **fields)) is ErrorCode.out_of_order_sequence_number
    assert stored(part) == [b"a"]


def test_a_fetch_fills_up_in_order_and_gives_at_least_one_batch(tmp_path: Path) -> None:
    parts = {index: partition(tmp_path / str(index)) for index in range(3)}
    for part in parts.values():
        produce(part, batch(b"x" * 500))
    wanted: Any = [("t", FetchPartition(index, 0, 1_000_000)) for index in range(3)]

    def sizes(limit: int) -> list[int]:
        result = read_partitions(wanted, RULES._replace(max_bytes=limit), lambda _topic, index: parts[index], READ_LOG)
        return [sum(map(len, answer.records or ())) for _, answer in result.responses]

    whole = sizes(1_000_000)[0]
    assert sizes(1_000_000) == [whole] * 3
    assert sizes(1) == [whole, 0, 0]
    assert sizes(whole + 10) == [whole, 0, 0]


def test_epochs_fence_readers_and_find_where_logs_part(tmp_path: Path) -> None:
    part = partition(tmp_path)
    produce(part, batch(b"a"))
    lead(part, LEADS._replace(leader_epoch=6))
    produce(part, batch(b"b"))

    def fetch(**fields: Any) -> Any:
        asked = FetchPartition(0, fields.pop("offset", 0), 1000, **fields)
        ((_, answer),) = read_partitions([("t", asked)], RULES, lambda _topic, _index: part, READ_LOG).responses
        return answer

    assert fetch(current_leader_epoch=5).error_code == ErrorCode.fenced_leader_epoch.value
    assert fetch(current_leader_epoch=7).error_code == ErrorCode.unknown_leader_epoch.value
    assert fetch(offset=3).error_code == ErrorCode.offset_out_of_range.value
    assert fetch(offset=2, last_fetched_epoch=4).diverging_epoch == (4, 1)
    assert fetch(offset=1, last_fetched_epoch=4).diverging_epoch is None
    assert fetch(offset=2, last_fetched_epoch=9).error_code == ErrorCode.offset_out_of_range.value


def test_a_waiting_fetch_wakes_with_the_first_append_or_gives_up(tmp_path: Path) -> None:
    part = partition(tmp_path)
    wanted: Any = [("t", FetchPartition(0, 0, 1000))]

    def read() -> ReadResult:
        return read_partitions(wanted, RULES, lambda _topic, _index: part, READ_LOG)

    async def run(wait_ms: int, *, append: bool) -> int:
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        loop = asyncio.get_running_loop()
        Waiting(
            loop, [part], wait_ms, read, lambda result: result.size > 0, lambda result: done.set_result(result.size)
        )
        if append:
            produce(part, batch(b"a"))
            produce(part, batch(b"b"))
        async with asyncio.timeout(60):
            return await done

    assert asyncio.run(run(1, append=False)) == 0
    assert asyncio.run(run(600_000, append=True)) == len(batch(b"a")) * 2
