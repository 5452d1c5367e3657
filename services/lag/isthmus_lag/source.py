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
from isthmus_lag.retained_range import Extent, check_held, check_same
from isthmus_lag.sample_reader import Topic, look, read_range, resolve
from isthmus_lag.samples import SCHEMA, to_arrow

FORMAT: Final = "isthmus_lag"


class RangePartition(InputPartition):
    """What one task reads."""

    def __init__(self, topic_id: str | None, wanted: OffsetRange) -> None:
        super().__init__(wanted)
        self.topic_id = topic_id
        self.wanted = wanted


@dataclass(frozen=True, slots=True)
class Options:
    """The options, checked."""

    topic: Topic
    per_partition: int
    per_trigger: int | None
    fail_on_loss: bool
    starting: Bounds
    ending: Bounds


def parse_options(given: Mapping[str, str], *, streaming: bool) -> Options:
    """Raises ValueError with a sentence for the user."""
    bootstrap = given.get("bootstrap") or given.get("kafka.bootstrap.servers")
    if not bootstrap:
        raise ValueError("the option bootstrap is missing: brokers to begin with, as host:port,...")
    parse_bootstrap(bootstrap)
    topic = Topic(bootstrap, given.get("topic") or given.get("subscribe") or LAG_TOPIC)
    if streaming and any(name.lower().startswith("ending") for name in given):
        raise ValueError("a stream has no end: leave the ending options out")
    loss = (given.get("failOnDataLoss") or "true").lower()
    if loss not in ("true", "false"):
        raise ValueError(f"failOnDataLoss wants true or false, not '{loss}'")
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
    """The data source. A stream begins with the earliest sample unless told otherwise: what was told before it began counts too."""

    @classmethod
    def name(cls) -> str:
        """As in `format("isthmus_lag")`."""
        return FORMAT

    def schema(self) -> StructType:
        """The same for every topic."""
        return SCHEMA

    def reader(self, schema: StructType) -> "LagReader":
        """For a batch."""
        return LagReader(parse_options(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> "LagStreamReader":  # noqa: N802
        """For a stream."""
        return LagStreamReader(parse_options(self.options, streaming=True))


def plan(options: Options, starts: Mapping[int, int], ends: Position) -> list[RangePartition]:
    """The tasks that read from `starts` to before `ends`; raises SamplesLost when that is not there, or takes what is left of it."""
    wanted = {partition: (starts.get(partition, 0), end) for partition, end in sorted(ends.offsets.items())}
    held = look(options.topic)
    if options.fail_on_loss:
        check_same(options.topic.name, ends, held.topic_id)
        check_held(options.topic.name, wanted, held)
    if not ends.is_of(held.topic_id):
        return []
    tasks: list[RangePartition] = []
    for partition, (start, end) in wanted.items():
        there = held.extents.get(partition, Extent(0, 0))
        whole = OffsetRange(partition, max(start, there.start), min(end, there.end))
        tasks += (RangePartition(ends.topic_id, part) for part in split(whole, options.per_partition))
    return tasks


class LagReader(DataSourceReader):
    """A batch: the ends are taken when it is planned."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[RangePartition]:
        """Ranges of offsets."""
        starts = resolve(self._options.topic, self._options.starting)
        return plan(self._options, starts.offsets, resolve(self._options.topic, self._options.ending))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a process of the executor."""
        return _read(self._options, partition)


class LagStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream. Its offsets are those of `Position`."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._target: Position | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a stream without a checkpoint begins."""
        return resolve(self._options.topic, self._options.starting).told()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """`maxOffsetsPerTrigger`, when it is given."""
        most = self._options.per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What is there now is what the query will read."""
        self._target = look(self._options.topic).end

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next batch ends. A partition that was added, or whose topic was made anew, is read from its start."""
        begun, held = Position.read(start), look(self._options.topic)
        if self._options.fail_on_loss:
            check_same(self._options.topic.name, begun, held.topic_id)
            stood = {partition: (offset, offset) for partition, offset in begun.offsets.items()}
            check_held(self._options.topic.name, stood, held)
        starts = _starts(begun, held.topic_id)
        target = self._target
        ends = (target if target is not None and target.is_of(held.topic_id) else held.end).offsets
        if isinstance(limit, ReadMaxRows):
            ends = limited({partition: starts.get(partition, 0) for partition in ends}, ends, limit.max_rows)
        return Position(held.topic_id, ends).told()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """For the progress of the query: how far it is behind."""
        return look(self._options.topic).end.told()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[RangePartition]:
        """Ranges of offsets."""
        ends = Position.read(end)
        return plan(self._options, _starts(Position.read(start), ends.topic_id), ends)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a process of the executor."""
        return _read(self._options, partition)


def _starts(begun: Position, topic_id: str | None) -> Mapping[int, int]:
    return begun.offsets if begun.is_of(topic_id) else {}


def _read(options: Options, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, RangePartition):  # an empty one of Spark's own, where nothing was planned
        return
    for records in read_range(options.topic, partition.topic_id, partition.wanted, options.fail_on_loss):
        yield to_arrow(records)
