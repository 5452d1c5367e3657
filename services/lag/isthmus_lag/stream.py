"""The streaming job: write samples as Parquet by day and kind of copy, each exactly once, even across crashes.

The checkpoint is in a subdirectory. Files of unfinished batches are not in the manifest (`_spark_metadata`), so Spark does not read them.
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
"""The default maximum of records per batch."""
_POLL_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """Source topic and destination directory (on any file system that Spark supports); without `every`, stop at the current end."""

    bootstrap: str
    topic: str
    directory: str
    every: str | None
    per_trigger: int = OFFSETS_PER_TRIGGER
    fail_on_loss: bool = True


def start_stream(spark: SparkSession, options: StreamOptions) -> StreamingQuery:
    """Start the query, or resume it from the directory's checkpoint."""
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
    """Wait until the query ends or fails (StreamingQueryException), or stop it when `stopping()` is true."""
    while not query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type]  # Spark takes fractions
        if stopping():
            query.stop()
            return
