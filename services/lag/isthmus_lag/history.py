"""The history as Parquet, partitioned by day and kind of copy."""

from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own usage

from isthmus_lag.samples import LATE_MS, SCHEMA

_NO_KIND: Final = "unknown"


def by_day_and_kind(rows: DataFrame) -> DataFrame:
    """Add the partition columns: `kind`, and the UTC day of the sample, or of its record if the record is not a sample."""
    at = F.coalesce(F.timestamp_millis("at_ms"), "kafka_timestamp")
    kind = F.coalesce("kind", F.lit(_NO_KIND))
    return rows.withColumn("kind", kind).withColumn("day", F.to_date(at))


def read_history(spark: SparkSession, directory: str, from_ms: int | None, to_ms: int | None) -> DataFrame:
    """The rows that may contain samples of the window, with the topic's schema; Parquet files of other days are not opened."""
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
