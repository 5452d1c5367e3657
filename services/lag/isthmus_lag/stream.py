"""The streaming job: samples into Parquet, by day and kind of copy, each exactly once, whatever ends it in between.

Progress is a checkpoint below the directory. Files of a batch that was not finished are not in the manifest (`_spark_metadata`), by which
Spark reads.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from isthmus_lag.history import by_day_and_kind
from isthmus_lag.source import FORMAT

CHECKPOINT: Final = "_checkpoint"
OFFSETS_PER_TRIGGER: Final = 1_000_000
"""The most that one batch reads, unless told otherwise."""
_LOOK_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """From which topic into which directory (any file system that Spark knows); `every` empty: what is there now, then end."""

    bootstrap: str
    topic: str
    directory: str
    every: str | None
    per_trigger: int = OFFSETS_PER_TRIGGER
    fail_on_loss: bool = True


def start_stream(spark: SparkSession, options: StreamOptions) -> StreamingQuery:
    """Begin, or go on where the directory's checkpoint says."""
    rows = (
        spark.readStream.format(FORMAT)
        .option("bootstrap", options.bootstrap)
        .option("topic", options.topic)
        .option("maxOffsetsPerTrigger", str(options.per_trigger))
        .option("failOnDataLoss", str(options.fail_on_loss).lower())
        .load()
    )
    writer = (
        by_day_and_kind(rows)
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{options.directory.rstrip('/')}/{CHECKPOINT}")
        .partitionBy("day", "kind")
    )
    triggered = (
        writer.trigger(availableNow=True) if options.every is None else writer.trigger(processingTime=options.every)
    )
    return triggered.start(options.directory)


def await_end(query: StreamingQuery, stopping: Callable[[], bool]) -> None:
    """Until it ends by itself, fails (StreamingQueryException), or `stopping` says so."""
    while not query.awaitTermination(_LOOK_SECONDS):  # type: ignore[arg-type]  # Spark takes fractions
        if stopping():
            query.stop()
            return
