"""A consumer between brokers: it reads near its rack where the leader sends it, returns when that fails, and detects a truncated log."""

import asyncio
from collections.abc import Callable

import pytest
from isthmus_client.batch_io import Fetched, FetchLimits
from isthmus_client.client import Client
from isthmus_client.consumer import Consumer
from isthmus_client.errors import LogTruncated, Refused
from isthmus_client.metadata import TopicPartition
from isthmus_model.endpoints import Endpoint
from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.fetch import (
    FetchedPartition,
    FetchRequest,
    FetchResponse,
    decode_fetch_request,
    encode_fetch_response,
)
from isthmus_wire.headers import RequestHeader, decode_request_header
from isthmus_wire.messages import NO_THROTTLE, encode_response
from isthmus_wire.records import NewRecord, build_batch, set_base_offset
from isthmus_wire.requests import MetadataResponse
from kio.schema.metadata.v13.response import MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic

from tests.unit.client.fake_broker import FakeBroker, serving

PARTITION = TopicPartition("t", 0)
LEADER, NEAR = 1, 2
EPOCH = 5
LIMITS = FetchLimits(wait_ms=0, rack="here")


def batch(offset: int, epoch: int = EPOCH) -> bytes:
    data = bytearray(build_batch([NewRecord(None, b"v%d" % offset, 0)]))
    set_base_offset(data, offset, epoch)
    return bytes(data)


class Cluster:
    """Two brokers with scripted responses to fetches; records which broker received which fetch."""

    def __init__(self, *script: tuple[int, FetchedPartition]) -> None:
        self.script = list(script)
        self.requested: list[tuple[int, int, int]] = []  # broker, offset, epoch of the last record
        self.brokers = {number: FakeBroker(self._answers(number)) for number in (LEADER, NEAR)}

    def _answers(self, number: int) -> Callable[[RequestHeader, bytes], bytes | None]:
        def respond(header: RequestHeader, frame: bytes) -> bytes | None:
            if header.api_key == ApiKey.METADATA:
                return encode_response(ApiKey.METADATA, header.api_version, self._metadata())
            request = decode_fetch_request(header.api_version, frame, decode_request_header(frame).size)
            return b"".join(encode_fetch_response(header.api_version, self._fetched(number, request)))

        return respond

    def _fetched(self, number: int, request: FetchRequest) -> FetchResponse:
        ((topic, (wanted,)),) = request.topics
        self.requested.append((number, wanted.fetch_offset, wanted.last_fetched_epoch))
        if not self.script:
            return FetchResponse([(topic, [FetchedPartition(0, 0, 0, 0, 0)])])
        expected, respond = self.script.pop(0)
        assert number == expected, f"broker {number} received a fetch that {expected} should have: {self.requested}"
        return FetchResponse([(topic, [respond])])

    def _metadata(self) -> MetadataResponse:
        partition = entity(
            MetadataResponsePartition,
            error_code=ErrorCode.none,
            partition_index=0,
            leader_id=LEADER,
            leader_epoch=EPOCH,
            replica_nodes=(LEADER, NEAR),
            isr_nodes=(LEADER, NEAR),
            offline_replicas=(),
        )
        topic = entity(
            MetadataResponseTopic, error_code=ErrorCode.none, name="t", topic_id=None, partitions=(partition,)
        )
        return MetadataResponse(
            throttle_time=NO_THROTTLE,
            brokers=tuple(
                entity(MetadataResponseBroker, node_id=number, host=broker.address[0], port=broker.address[1])
                for number, broker in self.brokers.items()
            ),
            cluster_id="c",
            controller_id=LEADER,
            topics=(topic,),
        )


async def read(cluster: Cluster, count: int, epoch: int = -1) -> list[int]:
    """The offsets of `count` records, from offset 0."""
    found: list[int] = []
    async with (
        serving(cluster.brokers[LEADER]) as leader,
        serving(cluster.brokers[NEAR]),
        Client([leader.address]) as client,
        Consumer(client, limits=LIMITS, reset=None) as consumer,
    ):
        await consumer.assign({PARTITION: 0}, {PARTITION: epoch})
        async with asyncio.timeout(60):
            while len(found) < count:
                found += [record.record.offset for record in await consumer.poll(0.2)]
    return found


def records(offset: int) -> FetchedPartition:
    return FetchedPartition(0, 0, 9, 9, 0, records=(batch(offset),))


def test_it_reads_near_its_rack_and_returns_to_the_leader_when_that_fails() -> None:
    cluster = Cluster(
        (LEADER, FetchedPartition(0, 0, 9, 9, 0, preferred_read_replica=NEAR)),
        (NEAR, records(0)),
        (NEAR, records(1)),
        (NEAR, FetchedPartition(0, ErrorCode.offset_out_of_range.value)),
        (LEADER, records(2)),
    )
    assert asyncio.run(read(cluster, 3)) == [0, 1, 2]
    assert cluster.requested[:5] == [
        (LEADER, 0, -1),
        (NEAR, 0, -1),
        (NEAR, 1, EPOCH),
        (NEAR, 2, EPOCH),
        (LEADER, 2, EPOCH),
    ]


def test_a_near_replica_that_lost_records_sends_the_consumer_to_the_leader() -> None:
    """A replica that comes back from a power loss has less than was read from it; the consumer went back and read records twice."""
    cluster = Cluster(
        (LEADER, FetchedPartition(0, 0, 9, 9, 0, preferred_read_replica=NEAR)),
        (NEAR, records(0)),
        (NEAR, FetchedPartition(0, 0, 0, 0, 0, diverging_epoch=(EPOCH, 0))),
        (LEADER, records(1)),
    )
    assert asyncio.run(read(cluster, 2)) == [0, 1]


@pytest.mark.parametrize("is_polled_between", [True, False])
def test_records_that_two_brokers_sent_are_returned_once(is_polled_between: bool) -> None:
    """The fetch to a leader that hangs is still under way when the new leader responds to another one for the same offset."""

    async def fetched() -> dict[TopicPartition, Fetched | Refused]:
        return {PARTITION: Fetched(batch(0), 9, 9, 0, (), EPOCH, -1, None)}

    async def polled() -> list[int]:
        consumer = Consumer(Client([Endpoint("host", 9092)]), reset=None)
        await consumer.assign({PARTITION: 0})
        requested = {PARTITION: (consumer._reading[PARTITION], 0)}
        records = []
        for broker in (NEAR, LEADER):
            task = asyncio.create_task(fetched())
            await task
            assert not await consumer._accept(broker, requested, task)
            if is_polled_between or broker == LEADER:
                records += consumer._take(10)
        return [record.record.offset for record in records]

    assert asyncio.run(polled()) == [0]


def test_a_log_that_lost_read_records_is_an_error() -> None:
    cluster = Cluster((LEADER, FetchedPartition(0, 0, 9, 9, 0, diverging_epoch=(3, 0))))
    with pytest.raises(
        LogTruncated, match="partition t-0 was read up to offset 0, but its log has diverged at offset 0"
    ):
        asyncio.run(read(cluster, 1, epoch=4))
    assert cluster.requested == [(LEADER, 0, 4)]
