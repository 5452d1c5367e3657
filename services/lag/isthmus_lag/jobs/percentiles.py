"""Distribution of lag. Percentiles are exact: the lowest measured value that the given share does not exceed."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own usage

from isthmus_lag.jobs.grouping import COPY

PERCENTILES: Final = {"p50": "0.5", "p95": "0.95", "p99": "0.99"}


def measured(expression: str, share: str) -> Column:
    """The lowest measured integer that at least this share of the values does not exceed."""
    return F.expr(f"percentile_disc({share}) WITHIN GROUP (ORDER BY {expression})").cast("long")


def spread(column: str, prefix: str) -> list[Column]:
    """Percentiles and maximum of a column; unknown (null) values do not count."""
    columns = [measured(column, share).alias(f"{prefix}_{name}") for name, share in PERCENTILES.items()]
    return [*columns, F.max(column).alias(f"{prefix}_max")]


def lag(samples: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Percentiles over all samples of each group, the worst group first.

    `never` counts samples of copies that have never caught up: their `lag_ms` is unknown and in no percentile.
    """
    known = samples.withColumn("known_ms", F.when(F.col("lag_ms") >= 0, F.col("lag_ms")))
    rows = known.groupBy(*columns).agg(
        F.count("*").alias("samples"),
        F.count_distinct(*COPY).alias("copies"),
        F.count_if(F.col("lag_ms") < 0).alias("never"),
        *spread("known_ms", "lag_ms"),
        *spread("lag_records", "lag_records"),
    )
    return rows.orderBy(F.desc("lag_ms_p99"), F.desc("lag_records_p99"), F.desc("never"), *columns)


def worst_copies(samples: DataFrame, most: int) -> DataFrame:
    """The copies with the highest lag: those that never caught up first, then by their highest lag in time, then in records."""
    known = samples.withColumn("known_ms", F.when(F.col("lag_ms") >= 0, F.col("lag_ms")))
    badness = F.struct("known_ms", "lag_records", "at_ms")
    rows = known.groupBy(*COPY, "source_region", "target_region").agg(
        F.count("*").alias("samples"),
        F.count_if(F.col("lag_ms") < 0).alias("never"),
        *spread("known_ms", "lag_ms"),
        F.max("lag_records").alias("lag_records_max"),
        F.max(badness)["at_ms"].alias("worst_at_ms"),
        F.max_by("lag_records", "at_ms").alias("lag_records_last"),
    )
    order: list[Column | str | int] = [
        F.desc("never"),
        F.desc_nulls_last("lag_ms_max"),
        F.desc("lag_records_max"),
        *COPY,
    ]
    return rows.orderBy(*order).limit(most)
