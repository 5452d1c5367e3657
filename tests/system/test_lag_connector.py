"""Spark's own Kafka connector beside our data source, in one session: the same options, the same rows."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from isthmus_client.client import Client
from isthmus_client.producer import Producer
from isthmus_lag.sample_reader import Topic, read_retained
from isthmus_lag.samples import SAMPLE_COLUMNS, SCHEMA
from isthmus_lag.session import spark_session
from isthmus_model.endpoints import parse_bootstrap
from isthmus_model.internal_topics import LAG_TOPIC
from isthmus_service.samples import SampleTopic
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own usage
from pyspark.sql.types import StructType

from tests.node import running_node
from tests.spark_connector import fetch
from tests.system.lag_samples import sample

SECONDS = 120
PARTITIONS = range(4)
EARLY = 80
"""Samples that were written now; the others have the time of a minute later."""
NO_SAMPLES = {0: b"no sample", 2: None}
OURS, SPARKS = "isthmus_lag", "kafka"
BATCH = 10

Row = tuple[Any, ...]
Options = Mapping[str, str]


class Written:
    """A topic of samples, and a session that reads it by both."""

    def __init__(self, spark: SparkSession, bootstrap: str, directory: Path, now_ms: int) -> None:
        self.spark = spark
        self.directory = directory
        self.now_ms = now_ms
        self.options = {"kafka.bootstrap.servers": bootstrap, "subscribe": LAG_TOPIC}

    def batch(self, source: str, options: Options) -> list[Row]:
        return rows(source, self.spark.read.format(source).options(**self.options, **options).load())

    def stream(self, source: str, options: Options) -> tuple[list[Row], list[int]]:
        """All rows, and how many each batch had."""
        read = self.spark.readStream.format(source).options(**self.options, **options).load()
        kept = read.writeStream.format("memory").queryName(source)
        query = kept.option("checkpointLocation", str(self.directory / source)).trigger(availableNow=True).start()
        assert query.awaitTermination(SECONDS)
        sizes = [progress["numInputRows"] for progress in query.recentProgress]
        return rows(source, self.spark.table(source)), [size for size in sizes if size]


def rows(source: str, frame: DataFrame) -> list[Row]:
    """The columns of a sample and where its record was, in order."""
    place = ["kafka_partition", "kafka_offset", "kafka_timestamp"]
    if source == SPARKS:
        schema = StructType([field for field in SCHEMA if field.name in SAMPLE_COLUMNS])
        told = F.from_json(F.col("value").cast("string"), schema)
        frame = frame.select(told.alias("told"), *(F.col(name.removeprefix("kafka_")).alias(name) for name in place))
        frame = frame.select("told.*", *place)
    found = frame.select(*SAMPLE_COLUMNS, *place).collect()
    return sorted(map(tuple, found), key=lambda row: row[-3:-1])


async def write(bootstrap: str, now_ms: int) -> None:
    """As services do; and then, as of a minute later, into each partition a sample, one of a later version, and what is none."""
    async with Client(parse_bootstrap(bootstrap)) as client:
        early = [sample(now_ms + at, partition, at) for at in range(EARLY // 8) for partition in range(8)]
        await SampleTopic(client, LAG_TOPIC).write([(one.key(), one.value()) for one in early])
        async with Producer(client) as producer:
            for partition in PARTITIONS:
                late = sample(now_ms + 60_000, partition, 7).value()
                newer = {name: value for name, value in json.loads(late).items() if name != "lag_ms"}
                newer |= {"version": 2, "zone": "b"}
                values: list[bytes | None] = [late, json.dumps(newer).encode()]
                values += [NO_SAMPLES[partition]] if partition in NO_SAMPLES else []
                for value in values:
                    await producer.send(LAG_TOPIC, value, partition=partition, timestamp=now_ms + 60_000)


def await_records(bootstrap: str, count: int) -> None:
    """SampleTopic waits only a moment for what it writes."""
    pause = threading.Event()
    for _ in range(SECONDS * 20):
        if sum(read_retained(Topic(bootstrap, LAG_TOPIC)).end.offsets.values()) == count:
            return
        pause.wait(0.05)
    raise TimeoutError(f"there are not {count} samples")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    directory = tmp_path_factory.mktemp("connector")
    now_ms = int(time.time() * 1000)
    with running_node(directory / "node") as node:
        asyncio.run(write(node.bootstrap, now_ms))
        await_records(node.bootstrap, EARLY + 2 * len(PARTITIONS) + len(NO_SAMPLES))
        with spark_session("connector", "local[2]", {"spark.driver.memory": "512m"}) as spark:
            for jar in fetch():
                spark.sql(f"ADD JAR '{jar}'")
            yield Written(spark, node.bootstrap, directory, now_ms)


def offsets(each: Mapping[int, int]) -> str:
    return json.dumps({LAG_TOPIC: {str(partition): offset for partition, offset in each.items()}})


def test_every_record_is_the_same_row(written: Written) -> None:
    ours, sparks = written.batch(OURS, {}), written.batch(SPARKS, {})
    assert ours == sparks
    assert len(ours) == EARLY + 2 * len(PARTITIONS) + len(NO_SAMPLES)
    assert {row[-3] for row in ours} == set(PARTITIONS)
    assert [row[-3] for row in ours if set(row[:-3]) == {None}] == list(NO_SAMPLES)
    assert [row[0] for row in ours].count(2) == len(PARTITIONS)


def test_options_mean_the_same(written: Written) -> None:
    later = str(written.now_ms + 30_000)
    starts = {0: -2, 1: 3, 2: 0, 3: 5}
    ends = {0: 6, 1: -1, 2: 0, 3: 7}
    times = dict.fromkeys(PARTITIONS, written.now_ms + 30_000) | {3: 0}
    wanted: list[tuple[Options, set[int]]] = [
        ({"startingOffsets": "earliest", "endingOffsets": "latest"}, {0, 1, 2, 3}),
        ({"startingOffsets": offsets(starts), "endingOffsets": offsets(ends)}, {0, 1, 3}),
        ({"startingTimestamp": later}, {0, 1, 2, 3}),
        ({"endingTimestamp": later}, {0, 1, 2, 3}),
        ({"startingOffsetsByTimestamp": offsets(times), "endingOffsetsByTimestamp": offsets({**times, 3: 1})}, set()),
        ({"startingOffsetsByTimestamp": offsets(times)}, {0, 1, 2, 3}),
        ({"maxRecordsPerPartition": "7"}, {0, 1, 2, 3}),
    ]
    for options, partitions in wanted:
        found = written.batch(OURS, options)
        assert (options, found) == (options, written.batch(SPARKS, options))
        assert {row[-3] for row in found} == partitions
    late = written.batch(OURS, {"startingTimestamp": later})
    assert len(late) == 2 * len(PARTITIONS) + len(NO_SAMPLES)


def test_a_time_that_no_record_has_reached_is_an_error_or_the_end(written: Written) -> None:
    never = {"startingTimestamp": str(written.now_ms + 3_600_000)}
    for source in (OURS, SPARKS):
        assert written.batch(source, {**never, "startingOffsetsByTimestampStrategy": "latest"}) == []
        with pytest.raises((PySparkException, Py4JError)):
            written.batch(source, never)


@pytest.mark.parametrize("partitions", [(0, 1, 2), (0, 1, 2, 3, 4)])
def test_offsets_are_required_for_exactly_the_partitions(written: Written, partitions: tuple[int, ...]) -> None:
    for source in (OURS, SPARKS):
        with pytest.raises((PySparkException, Py4JError)):
            written.batch(source, {"startingOffsets": offsets(dict.fromkeys(partitions, 0))})


def test_a_stream_has_the_same_rows(written: Written) -> None:
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(BATCH)}
    ours, our_batches = written.stream(OURS, options)
    sparks, their_batches = written.stream(SPARKS, options)
    assert ours == sparks == written.batch(SPARKS, {})
    assert sum(our_batches) == sum(their_batches) == len(ours)
    assert max(our_batches) <= BATCH
    assert max(their_batches) <= BATCH
