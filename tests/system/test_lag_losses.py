"""What a stream of samples does when the topic lost them before they were read, or was recreated."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pyarrow.dataset
import pytest
from isthmus_client.admin import topics
from isthmus_client.client import Client
from isthmus_client.metadata import TopicPartition
from isthmus_lag.retained_range import SamplesLost
from isthmus_lag.source import LagStreamReader, RangePartition, parse_options
from isthmus_model.endpoints import parse_bootstrap
from isthmus_model.internal_topics import LAG_TOPIC
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.node import running_node
from tests.process import ISTHMUS
from tests.system.lag_samples import records, samples, write

SECONDS = 240
MOMENTS = range(10)
"""Ten records in each of two partitions."""
ALL = ReadAllAvailable()


def stream_of(bootstrap: str, *, fail_on_loss: bool) -> LagStreamReader:
    return LagStreamReader(
        parse_options({"bootstrap": bootstrap, "failOnDataLoss": str(fail_on_loss).lower()}, streaming=True)
    )


def requested(bootstrap: str, question: Callable[[Client], Awaitable[object]]) -> None:
    async def connected() -> None:
        async with Client(parse_bootstrap(bootstrap)) as client:
            await question(client)

    asyncio.run(connected())


def recreate(bootstrap: str) -> None:
    """Delete the topic and create it again, with as many records."""
    requested(bootstrap, lambda client: topics.delete(client, [LAG_TOPIC]))
    write(bootstrap, records(samples(MOMENTS)))


def read(reader: LagStreamReader, tasks: "list[RangePartition]") -> dict[int, list[int]]:
    """The offsets of each partition that come of tasks."""
    found: dict[int, list[int]] = {}
    for task in tasks:
        for batch in reader.read(task):
            for row in batch.to_pylist():
                found.setdefault(row["kafka_partition"], []).append(row["kafka_offset"])
    return found


def test_deleted_records_are_reported_or_skipped(tmp_path: Path) -> None:
    with running_node(tmp_path / "node") as node:
        write(node.bootstrap, records(samples(MOMENTS)))
        strict, lenient = (stream_of(node.bootstrap, fail_on_loss=fail) for fail in (True, False))
        start = strict.initialOffset()
        end = strict.latestOffset(start, ALL)
        requested(node.bootstrap, lambda client: topics.delete_records(client, {TopicPartition(LAG_TOPIC, 1): 4}))
        with pytest.raises(SamplesLost, match="partition 1 lost offsets 0 to 3 because it now begins at 4"):
            strict.partitions(start, end)
        assert read(lenient, list(lenient.partitions(start, end))) == {0: list(range(10)), 1: list(range(4, 10))}


def test_a_recreated_topic_is_detected_between_batches(tmp_path: Path) -> None:
    with running_node(tmp_path / "node") as node:
        write(node.bootstrap, records(samples(MOMENTS)))
        strict, lenient = (stream_of(node.bootstrap, fail_on_loss=fail) for fail in (True, False))
        end = strict.latestOffset(strict.initialOffset(), ALL)
        recreate(node.bootstrap)
        with pytest.raises(
            SamplesLost, match=r"was deleted and recreated: .* offset 10 of partition 0, offset 10 of part"
        ):
            strict.latestOffset(end, ALL)
        new = lenient.latestOffset(end, ALL)
        assert new["offsets"] == end["offsets"]
        whole = {0: list(range(10)), 1: list(range(10))}
        assert read(lenient, list(lenient.partitions(end, new))) == whole


def test_a_recreated_topic_is_detected_after_a_batch_was_planned(tmp_path: Path) -> None:
    with running_node(tmp_path / "node") as node:
        write(node.bootstrap, records(samples(MOMENTS)))
        strict, lenient = (stream_of(node.bootstrap, fail_on_loss=fail) for fail in (True, False))
        start = strict.initialOffset()
        end = strict.latestOffset(start, ALL)
        tasks = list(strict.partitions(start, end))
        recreate(node.bootstrap)
        with pytest.raises(SamplesLost, match="was deleted and recreated"):
            strict.partitions(start, end)
        with pytest.raises(SamplesLost, match="was deleted and recreated"):
            read(strict, tasks)
        assert list(lenient.partitions(start, end)) == []
        assert read(lenient, tasks) == {}


def test_the_command_stops_at_a_loss_unless_it_is_allowed(tmp_path: Path) -> None:
    history = tmp_path / "history"

    def streamed(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [str(ISTHMUS), "lag", "stream", "-b", node.bootstrap, "--to", str(history), "--once", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)

    with running_node(tmp_path / "node") as node:
        write(node.bootstrap, records(samples(MOMENTS)))
        first = streamed()
        assert first.returncode == 0, first.stderr[-3000:]
        recreate(node.bootstrap)
        ended = streamed()
        assert ended.returncode == 1
        assert f"topic {LAG_TOPIC} was deleted and recreated" in ended.stderr
        assert "--no-fail-on-data-loss" in ended.stderr
        assert "Traceback" not in ended.stderr
        continued = streamed("--no-fail-on-data-loss")
        assert continued.returncode == 0, continued.stderr[-3000:]
    assert pyarrow.dataset.dataset(history, format="parquet", partitioning="hive").count_rows() == 40
