"""The log of the tier's metadata on a node: every reader sees the same, whenever it begins, and Apache Kafka's tools read it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from isthmus_client.client import Client
from isthmus_model.endpoints import parse_bootstrap
from isthmus_model.internal_topics import REMOTE_METADATA_TOPIC
from isthmus_tier.core.records import Update
from isthmus_tier.core.segments import Place, RemoteSegment, State
from isthmus_tier.edge.metadata_log import MetadataLog, TopicSettings, WrongPartitionCount

from tests.conformance.clients.java import run
from tests.conformance.clients.waiting import DEADLINE_SECONDS
from tests.node import Node, running_node
from tests.unit.tier.segments import PLACE, segment_of

SETTINGS: Final = TopicSettings(partitions=5, replication_factor=1, min_in_sync=1)
OTHER: Final = PLACE._replace(partition=7)


@asynccontextmanager
async def following(node: Node, *places: Place) -> AsyncIterator[MetadataLog]:
    async with Client(parse_bootstrap(node.bootstrap)) as client:
        log = MetadataLog(client, SETTINGS)
        log.follow(places)
        running = asyncio.create_task(log.run())
        try:
            yield log
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def wait_for(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            if condition():
                return
            await asyncio.sleep(0.02)


def finished(segment: RemoteSegment) -> Update:
    return Update(segment.place, segment.id, 1, 7, State.COPY_FINISHED)


def identities(log: MetadataLog, place: Place) -> list[int] | None:
    segments = log.segments_of(place)
    return None if segments is None else [one.id.int for one in segments.readable()]


def test_who_follows_later_sees_what_was_written_before(tmp_path: Path) -> None:
    async def work(node: Node) -> None:
        async with following(node, PLACE) as writer:
            await wait_for(lambda: writer.segments_of(PLACE) is not None)
            for number in (1, 2):
                segment = segment_of(number, number * 100, number * 100 + 99)
                await writer.write(segment)
                assert len(known(writer)) == number
                await writer.write(finished(segment))
            assert identities(writer, PLACE) == [1, 2]
            await writer.write(replace(segment_of(3, 0, 99), place=OTHER))
            async with following(node, PLACE) as reader:
                await wait_for(lambda: identities(reader, PLACE) == [1, 2])
                assert reader.segments_of(OTHER) is None
                reader.follow([OTHER])
                third = segment_of(4, 300, 399)
                await writer.write(third)
                await writer.write(finished(third))
                await wait_for(lambda: identities(reader, PLACE) == [1, 2, 4])
                await wait_for(lambda: identities(reader, OTHER) == [])
                reader.forget([PLACE])
                assert reader.segments_of(PLACE) is None

    def known(log: MetadataLog) -> list[RemoteSegment]:
        segments = log.segments_of(PLACE)
        assert segments is not None
        return segments.all()

    with running_node(tmp_path) as node:
        asyncio.run(work(node))


def test_readers_and_writers_go_on_after_the_broker_was_killed(tmp_path: Path) -> None:
    async def work(node: Node) -> None:
        async with following(node, PLACE) as log:
            first, second = segment_of(1, 0, 99), segment_of(2, 100, 199)
            await wait_for(lambda: log.segments_of(PLACE) is not None)
            await log.write(first)
            await log.write(finished(first))
            await asyncio.to_thread(node.kill)
            writing = asyncio.create_task(log.write(second))
            await asyncio.to_thread(node.start)
            await writing
            await log.write(finished(second))
            assert identities(log, PLACE) == [1, 2]

    with running_node(tmp_path) as node:
        asyncio.run(work(node))


def test_a_topic_with_another_number_of_partitions_is_refused(tmp_path: Path) -> None:
    async def work(node: Node) -> None:
        async with following(node, PLACE) as log:
            await wait_for(lambda: log.segments_of(PLACE) is not None)
        async with Client(parse_bootstrap(node.bootstrap)) as client:
            with pytest.raises(WrongPartitionCount, match=r"has 5 partitions.* is 6"):
                await MetadataLog(client, SETTINGS._replace(partitions=6)).run()

    with running_node(tmp_path) as node:
        asyncio.run(work(node))


def test_kafka_reads_the_records(tmp_path: Path) -> None:
    async def work(node: Node) -> None:
        async with following(node, PLACE) as log:
            await wait_for(lambda: log.segments_of(PLACE) is not None)
            segment = segment_of(1, 100, 199, (0, 100), (2, 150))
            await log.write(segment)
            await log.write(finished(segment)._replace(custom=b"x"))

    with running_node(tmp_path) as node:
        asyncio.run(work(node))
    files = sorted((tmp_path / "data").glob(f"{REMOTE_METADATA_TOPIC}-*/*.log"))
    lines = run("kafka-dump-log", "--remote-log-metadata-decoder", "--files", ",".join(map(str, files)))
    dumped = "\n".join(lines)
    assert "RemoteLogSegmentMetadata{remoteLogSegmentId=RemoteLogSegmentId{topicIdPartition=" in dumped
    assert "startOffset=100, endOffset=199" in dumped
    assert "segmentLeaderEpochs={0=100, 2=150}" in dumped
    assert "state=COPY_SEGMENT_FINISHED" in dumped
