"""`spark.read.format("isthmus_lag")` and `spark.readStream.format("isthmus_lag")`: samples of lag as rows, over isthmus_client.

    spark.dataSource.register(LagSource)
    spark.read.format("isthmus_lag").option("bootstrap", "127.0.0.1:9092").load()

Options: `bootstrap`, `topic` (or as in Spark's Kafka source `kafka.bootstrap.servers`, `subscribe`), those of `offsets`,
`maxRecordsPerPartition`, `failOnDataLoss` (true) and, for streams, `maxOffsetsPerTrigger`. Methods have the names that Spark calls.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from isthmus_model.endpoints import parse_bootstrap
from isthmus_model.internal_topics import LAG_TOPIC
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from isthmus_lag.offsets import (
    EARLIEST,
    LATEST,
    RECORDS_PER_PARTITION,
    Bounds,
    OffsetRange,
    Position,
    limited,
    parse_bounds,
    parse_count,
    split,
)
from isthmus_lag.retained_range import Extent, check_retained, check_same
from isthmus_lag.sample_reader import Topic, read_range, read_retained, resolve
from isthmus_lag.samples import SCHEMA, to_arrow

FORMAT: Final = "isthmus_lag"


class RangePartition(InputPartition):
    """The offset range of one task."""

    def __init__(self, topic_id: str | None, offsets: OffsetRange) -> None:
        super().__init__(offsets)
        self.topic_id = topic_id
        self.offsets = offsets


@dataclass(frozen=True, slots=True)
class Options:
    """The parsed options."""

    topic: Topic
    per_partition: int
    per_trigger: int | None
    fail_on_loss: bool
    starting: Bounds
    ending: Bounds


def parse_options(given: Mapping[str, str], *, streaming: bool) -> Options:
    """Parse the options; raises ValueError with a message for the user."""
    bootstrap = given.get("bootstrap") or given.get("kafka.bootstrap.servers")
    if not bootstrap:
        raise ValueError("the option bootstrap is missing: set it to host:port,...")
    parse_bootstrap(bootstrap)
    topic = Topic(bootstrap, given.get("topic") or given.get("subscribe") or LAG_TOPIC)
    if streaming and any(name.lower().startswith("ending") for name in given):
        raise ValueError("a stream has no end: remove the ending options")
    loss = (given.get("failOnDataLoss") or "true").lower()
    if loss not in ("true", "false"):
        raise ValueError(f"failOnDataLoss must be true or false, not '{loss}'")
    per_partition = parse_count(given, "maxRecordsPerPartition", RECORDS_PER_PARTITION)
    assert per_partition is not None
    return Options(
        topic,
        per_partition,
        parse_count(given, "maxOffsetsPerTrigger", None),
        loss == "true",
        parse_bounds(given, "starting", topic.name, EARLIEST),
        parse_bounds(given, "ending", topic.name, LATEST),
    )


class LagSource(DataSource):
    """The data source. Unlike Spark's Kafka source, a stream begins with the earliest record by default, so that no sample is missed."""

    @classmethod
    def name(cls) -> str:
        """The name for `format("isthmus_lag")`."""
        return FORMAT

    def schema(self) -> StructType:
        """The schema, which is the same for every topic."""
        return SCHEMA

    def reader(self, schema: StructType) -> "LagReader":
        """The reader of a batch query."""
        return LagReader(parse_options(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> "LagStreamReader":  # noqa: N802
        """The reader of a streaming query."""
        return LagStreamReader(parse_options(self.options, streaming=True))


def plan(options: Options, starts: Mapping[int, int], ends: Position) -> list[RangePartition]:
    """Plan the tasks that read from `starts` to before `ends`; raises SamplesLost, or reads what remains, if offsets are missing."""
    ranges = {partition: (starts.get(partition, 0), end) for partition, end in sorted(ends.offsets.items())}
    retained = read_retained(options.topic)
    if options.fail_on_loss:
        check_same(options.topic.name, ends, retained.topic_id)
        check_retained(options.topic.name, ranges, retained)
    if not ends.is_of(retained.topic_id):
        return []
    tasks: list[RangePartition] = []
    for partition, (start, end) in ranges.items():
        extent = retained.extents.get(partition, Extent(0, 0))
        whole = OffsetRange(partition, max(start, extent.start), min(end, extent.end))
        tasks += (RangePartition(ends.topic_id, part) for part in split(whole, options.per_partition))
    return tasks


class LagReader(DataSourceReader):
    """A batch query: its end offsets are resolved when it is planned."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[RangePartition]:
        """Plan the tasks."""
        starts = resolve(self._options.topic, self._options.starting)
        return plan(self._options, starts.offsets, resolve(self._options.topic, self._options.ending))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a range, in an executor."""
        return _read(self._options, partition)


class LagStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query. Its offsets are `Position`s."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._target: Position | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """The start of a stream without a checkpoint."""
        return resolve(self._options.topic, self._options.starting).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit of `maxOffsetsPerTrigger`, if set."""
        most = self._options.per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Make the current end of the topic the end of the query."""
        self._target = read_retained(self._options.topic).end

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch. New partitions, and all partitions of a recreated topic, are read from their start."""
        current, retained = Position.from_json(start), read_retained(self._options.topic)
        if self._options.fail_on_loss:
            check_same(self._options.topic.name, current, retained.topic_id)
            positions = {partition: (offset, offset) for partition, offset in current.offsets.items()}
            check_retained(self._options.topic.name, positions, retained)
        starts = _starts(current, retained.topic_id)
        target = self._target
        ends = (target if target is not None and target.is_of(retained.topic_id) else retained.end).offsets
        if isinstance(limit, ReadMaxRows):
            ends = limited({partition: starts.get(partition, 0) for partition in ends}, ends, limit.max_rows)
        return Position(retained.topic_id, ends).to_json()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """The current end of the topic, for the lag in the query's progress."""
        return read_retained(self._options.topic).end.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[RangePartition]:
        """Plan the tasks."""
        ends = Position.from_json(end)
        return plan(self._options, _starts(Position.from_json(start), ends.topic_id), ends)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a range, in an executor."""
        return _read(self._options, partition)


def _starts(current: Position, topic_id: str | None) -> Mapping[int, int]:
    return current.offsets if current.is_of(topic_id) else {}


def _read(options: Options, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, RangePartition):  # Spark's own empty partition, if no tasks were planned
        return
    for records in read_range(options.topic, partition.topic_id, partition.offsets, options.fail_on_loss):
        yield to_arrow(records)
