"""`spark.read.format("isthmus_lag")` and `spark.readStream.format("isthmus_lag")`: samples of lag as rows, over isthmus_client.

    spark.dataSource.register(LagSource)
    spark.read.format("isthmus_lag").option("bootstrap", "127.0.0.1:9092").load()

Options: `bootstrap` (`kafka.bootstrap.servers` is the same), `topic`, those of `offsets`, `maxRecordsPerPartition`, `failOnDataLoss` (true)
and, for streams, `maxOffsetsPerTrigger`. Methods have the names that Spark calls.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from isthmus_client.client import parse_bootstrap
from isthmus_service.lag import LAG_TOPIC
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from isthmus_lag.offsets import (
    EARLIEST,
    LATEST,
    RECORDS_PER_PARTITION,
    Bounds,
    OffsetRange,
    limited,
    parse_bounds,
    parse_count,
    split,
)
from isthmus_lag.reading import Extent, Topic, check_held, extents, read_range, resolve
from isthmus_lag.samples import SCHEMA, to_arrow

FORMAT: Final = "isthmus_lag"


class RangePartition(InputPartition):
    """What one task reads."""

    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(wanted)
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
    topic = Topic(bootstrap, given.get("topic") or LAG_TOPIC)
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


def plan(options: Options, starts: Mapping[int, int], ends: Mapping[int, int]) -> list[RangePartition]:
    """The tasks that read from `starts` to before `ends`; raises SamplesLost when that is not there, or takes what is left of it."""
    wanted = {partition: (starts.get(partition, 0), end) for partition, end in sorted(ends.items())}
    held = extents(options.topic)
    if options.fail_on_loss:
        check_held(options.topic, wanted, held)
    tasks: list[RangePartition] = []
    for partition, (start, end) in wanted.items():
        there = held.get(partition, Extent(0, 0))
        whole = OffsetRange(partition, max(start, there.start), min(end, there.end))
        tasks += map(RangePartition, split(whole, options.per_partition))
    return tasks


class LagReader(DataSourceReader):
    """A batch: the ends are taken when it is planned."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[RangePartition]:
        """Ranges of offsets."""
        starts = resolve(self._options.topic, self._options.starting)
        return plan(self._options, starts, resolve(self._options.topic, self._options.ending))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a process of the executor."""
        return _read(self._options, partition)


class LagStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream. Its offsets are the next ones to read, by partition, as text: Spark keeps them as JSON."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._target: dict[int, int] | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Where a stream without a checkpoint begins."""
        return _told(resolve(self._options.topic, self._options.starting))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """`maxOffsetsPerTrigger`, when it is given."""
        most = self._options.per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What is there now is what the query will read."""
        self._target = self._ends()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Where the next batch ends. A partition that was added is read from its start."""
        begun = {int(partition): offset for partition, offset in start.items()}
        held = extents(self._options.topic)
        if self._options.fail_on_loss:
            check_held(self._options.topic, {partition: (offset, offset) for partition, offset in begun.items()}, held)
        ends = self._target or {partition: extent.end for partition, extent in held.items()}
        latest = {partition: max(end, begun.get(partition, 0)) for partition, end in ends.items()}
        if isinstance(limit, ReadMaxRows):
            latest = limited({p: begun.get(p, 0) for p in latest}, latest, limit.max_rows)
        return _told(begun | latest)

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        """For the progress of the query: how far it is behind."""
        return _told(self._ends())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[RangePartition]:
        """Ranges of offsets."""
        starts, ends = ({int(partition): offset for partition, offset in told.items()} for told in (start, end))
        return plan(self._options, starts, ends)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a process of the executor."""
        return _read(self._options, partition)

    def _ends(self) -> dict[int, int]:
        return {partition: extent.end for partition, extent in extents(self._options.topic).items()}


def _told(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


def _read(options: Options, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, RangePartition)
    for records in read_range(options.topic, partition.wanted, options.fail_on_loss):
        yield to_arrow(records)
