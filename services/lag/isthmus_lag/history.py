"""The history as Parquet: how rows lie in it, by day and kind of copy, and how they are read again."""

from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own usage

from isthmus_lag.samples import LATE_MS, SCHEMA

_NO_KIND: Final = "unknown"


def by_day_and_kind(rows: DataFrame) -> DataFrame:
    """The partition columns: the day in UTC of the sample, or of its record where there is none."""
    at = F.coalesce(F.timestamp_millis("at_ms"), "kafka_timestamp")
    kind = F.coalesce("kind", F.lit(_NO_KIND))
    return rows.withColumn("kind", kind).withColumn("day", F.to_date(at))


def read_history(spark: SparkSession, directory: str, from_ms: int | None, to_ms: int | None) -> DataFrame:
    """Rows as they were in the topic, of the records that the window's samples may be in; other days are not opened."""
    rows = spark.read.schema(SCHEMA).parquet(directory)
    written = F.col("kafka_timestamp")
    if from_ms is not None:
        rows = rows.where((F.col("day") >= _day(from_ms - LATE_MS)) & (written >= _at(from_ms)))
    if to_ms is not None:
        rows = rows.where((F.col("day") <= _day(to_ms + LATE_MS)) & (written < _at(to_ms + LATE_MS)))
    return rows.withColumn("kind", F.nullif("kind", F.lit(_NO_KIND))).select(*SCHEMA.names)


def _at(ms: int) -> Column:
    return F.timestamp_millis(F.lit(ms))


def _day(ms: int) -> Column:
    return F.to_date(_at(ms))
